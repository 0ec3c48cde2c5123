"""Bringing a database to the form this release expects.

Numbered files, forward only. All that is missing runs in one transaction, under a lock that makes whoever comes second
wait and find it done.
"""

from __future__ import annotations

from typing import Final

from rota.stores.migrations import Migration, MigrationState, compare, migrations_in, require_known
from rota.stores.postgres.connecting import Connector
from rota.stores.postgres.database import Database
from rota.stores.postgres.session import Session

#: Any number will do, as long as every process uses the same.
_LOCK: Final = 0x726F7461
#: A migration may have to wait for others, and may be long.
_SECONDS: Final = 3600.0

_REGISTER: Final = """
CREATE TABLE IF NOT EXISTS migration (
    number     integer PRIMARY KEY,
    name       text    NOT NULL,
    digest     text    NOT NULL,
    applied_at bigint  NOT NULL
)
"""


def all_migrations() -> list[Migration]:
    """Give the migrations that this release brings, in order."""
    return migrations_in(__package__)


async def applied(session: Session) -> dict[int, str]:
    """Give the migrations a database has seen, by number; none for an empty one."""
    ((register,),) = await session.fetch("SELECT to_regclass('migration')")
    if register is None:
        return {}
    return {row[0]: row[1] for row in await session.fetch("SELECT number, name FROM migration")}


async def status(dsn: str) -> list[MigrationState]:
    """Give the migrations of this release, and those of others, and whether a database has seen them."""
    database = Database(Connector(dsn))
    try:
        seen = await database.read(applied)
    finally:
        await database.close()
    return compare(all_migrations(), seen)


async def migrate(session: Session) -> list[str]:
    """Apply what is missing and give the names of what was applied. Within a transaction."""
    seen = await applied(session)
    require_known(all_migrations(), seen)
    if {migration.number for migration in all_migrations()} <= seen.keys():
        return []
    await session.say(f"SELECT pg_advisory_xact_lock({_LOCK})", seconds=_SECONDS)
    await session.say(_REGISTER)
    seen = await applied(session)
    require_known(all_migrations(), seen)
    done = []
    for migration in all_migrations():
        if migration.number not in seen:
            await _apply(session, migration)
            done.append(migration.name)
    return done


async def _apply(session: Session, migration: Migration) -> None:
    await session.say(migration.text, seconds=_SECONDS)
    await session.say(
        "INSERT INTO migration (number, name, digest, applied_at)"
        " VALUES ($1, $2, $3, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)",
        migration.number,
        migration.name,
        migration.digest,
    )
