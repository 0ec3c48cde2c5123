"""Which store a URL names."""

from __future__ import annotations

from pathlib import Path

from rota.core.errors import InvalidRequest
from rota.ports.store import Store
from rota.stores.sqlite import SqliteStore
from rota.stores.sqlite.driver import StandardConnection
from rota.stores.sqlite.migrations import all_migrations, applied


async def open_store(url: str) -> Store:
    """Open the store that a URL or a path names, brought to the form this release needs."""
    return await SqliteStore.open(_path_of(url))


def migrations_of(url: str) -> list[tuple[str, bool]]:
    """Give this release's migrations and whether the store has seen them; changes nothing."""
    path = _path_of(url)
    seen: set[int] = set()
    if path.exists():
        connection = StandardConnection(str(path))
        try:
            seen = applied(connection)
        finally:
            connection.close()
    return [(migration.name, migration.number in seen) for migration in all_migrations()]


def _path_of(url: str) -> Path:
    scheme, separator, rest = url.partition("://")
    if not separator:
        return Path(url)
    if scheme == "sqlite":
        # Three slashes and a relative path, four and an absolute one, as everywhere.
        return Path(rest.removeprefix("/"))
    raise InvalidRequest(
        f"store: {scheme!r} is not a kind of store we know; use a file such as rota.db, or sqlite:///rota.db",
        field="store",
    )
