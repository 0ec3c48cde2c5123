"""Provisioning of namespaces: a file beside the main one, `rota.acme.db` beside `rota.db`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rota.core.errors import InvalidRequest
from rota.stores.sqlite.driver import IN_MEMORY, StandardConnection
from rota.stores.sqlite.migrations import applied

#: The files of a store: the database, its log, and the files for notifications between processes.
_SUFFIXES: Final = ("", "-wal", "-shm", "-notify", "-claims")


def path_of_namespace(path: Path, name: str) -> Path:
    """Return the file of a namespace."""
    if str(path) == IN_MEMORY:
        raise InvalidRequest("store: a store in memory has no namespaces; use a file or a database", field="store")
    return path.with_name(f"{path.stem}.{name}{path.suffix}")


def exists(path: Path) -> bool:
    """Return whether a file has the tables of a store."""
    if not path.exists():
        return False
    connection = StandardConnection(str(path))
    try:
        return bool(applied(connection))
    finally:
        connection.close()


def drop(path: Path) -> None:
    """Delete the files of a store; those that are gone already do no harm."""
    for suffix in _SUFFIXES:
        Path(f"{path}{suffix}").unlink(missing_ok=True)
