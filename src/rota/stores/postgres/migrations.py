"""Migrations of the PostgreSQL store: numbered files, forward only.

All that are missing run in one transaction, under a lock that makes a second process wait and find it done. A schema
that the store's URL names is created if it is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from asyncpg.exceptions import InsufficientPrivilegeError

from rota.core.errors import InvalidRequest
from rota.stores.migrations import Migration, MigrationState, compare, migrations_in, refuse_unprivileged, require_known
from rota.stores.postgres.connection import Connector
from rota.stores.postgres.database import Database
from rota.stores.postgres.session import Session
from rota.stores.postgres.statements import qualified

#: Any number will do, as long as every process uses the same.
_LOCK: Final = 0x726F7461
#: A migration may have to wait for others, and may be long.
_SECONDS: Final = 3600.0

_REGISTER: Final = """
CREATE TABLE IF NOT EXISTS {schema}rota_migration (
    number     integer PRIMARY KEY,
    name       text    NOT NULL,
    digest     text    NOT NULL,
    applied_at bigint  NOT NULL
)
"""
_RECORD: Final = """
INSERT INTO {schema}rota_migration (number, name, digest, applied_at)
VALUES ($1, $2, $3, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
"""
#: The columns of the register of releases whose tables had no prefix.
_OLD_REGISTER: Final = """
SELECT count(*) = 4 FROM pg_attribute
WHERE attrelid = to_regclass($1) AND attname IN ('number', 'name', 'digest', 'applied_at')
"""


def all_migrations() -> list[Migration]:
    """Return the migrations of this release, in order."""
    return migrations_in(__package__)


async def applied(session: Session) -> dict[int, str]:
    """Return the names of the applied migrations by number; none for an empty database."""
    table = f"{session.qualifier}rota_migration"
    ((register,),) = await session.fetch("SELECT to_regclass($1)", table)
    if register is None:
        return {}
    return {row[0]: row[1] for row in await session.fetch(f"SELECT number, name FROM {table}")}  # noqa: S608 - ours


async def status(dsn: str) -> list[MigrationState]:
    """Return the migrations of this release, and those of others, and whether they are applied."""
    database = Database(Connector(dsn))
    try:
        seen = await database.read(applied)
    finally:
        await database.close()
    return compare(all_migrations(), seen)


async def migrate(session: Session, schema: str | None = None) -> list[str]:
    """Apply the missing migrations and return their names. Within a transaction."""
    seen = await applied(session)
    require_known(all_migrations(), seen)
    if {migration.number for migration in all_migrations()} <= seen.keys():
        return []
    try:
        return await _migrate(session, schema, seen)
    except InsufficientPrivilegeError as error:
        refuse_unprivileged(all_migrations(), seen, error)


async def _migrate(session: Session, schema: str | None, seen: Mapping[int, str]) -> list[str]:
    if not seen:
        await _refuse_old_store(session)
    await session.execute(f"SELECT pg_advisory_xact_lock({_LOCK})", seconds=_SECONDS)
    await _create_schema(session, schema)
    await session.execute(qualified(_REGISTER, session.qualifier))
    seen = await applied(session)
    require_known(all_migrations(), seen)
    done = []
    for migration in all_migrations():
        if migration.number not in seen:
            await _apply(session, migration)
            done.append(migration.name)
    return done


async def _refuse_old_store(session: Session) -> None:
    """Refuse a store whose tables have no prefix yet: new tables beside them would hide its jobs."""
    register = f'{session.qualifier}"migration"'
    ((is_old,),) = await session.fetch(_OLD_REGISTER, register)
    if is_old and await session.fetch(f"SELECT 1 FROM {register} WHERE number = 1 AND name = '0001_first'"):  # noqa: S608 - ours
        raise InvalidRequest(
            "store: this database holds a store of an earlier release, whose tables lack the prefix rota_; stop all"
            " processes of Rota, run tools/rename_tables/postgres.py with the store's URL, and start them again",
            field="store",
        )


async def _create_schema(session: Session, schema: str | None) -> None:
    """Create the schema unless it is there: IF NOT EXISTS would need the right to create it in any case."""
    if schema is not None and not await session.fetch("SELECT 1 FROM pg_namespace WHERE nspname = $1", schema):
        await session.execute(f'CREATE SCHEMA "{schema}"')


async def _apply(session: Session, migration: Migration) -> None:
    await session.execute(qualified(migration.text, session.qualifier), seconds=_SECONDS)
    record = qualified(_RECORD, session.qualifier)
    await session.execute(record, migration.number, migration.name, migration.digest)
