"""Migrations of a database to the schema of this release.

MySQL commits every DDL statement by itself, so a migration can be cut off in the middle. Therefore each of its
statements can be run again, and it is recorded after the last. A named lock of the server admits one process at a time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from typing import Final

from rota.core.errors import InvalidRequest, StoreUnavailable
from rota.stores.migrations import Migration, MigrationState, compare, migrations_in, refuse_unprivileged, require_known
from rota.stores.mysql.driver import MysqlConnection, connect
from rota.stores.mysql.errors import ConnectionLost, NotPrivileged, ServerRefused
from rota.stores.mysql.location import location_of

#: How long to wait while another process migrates.
_LOCK_SECONDS = 50

_REGISTER = """
CREATE TABLE IF NOT EXISTS rota_migration (
    number     BIGINT       NOT NULL,
    name       VARCHAR(255) NOT NULL,
    digest     VARCHAR(64)  NOT NULL,
    applied_at BIGINT       NOT NULL,
    PRIMARY KEY (number)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation}
"""
_IS_REGISTERED = (
    "SELECT 1 FROM information_schema.tables WHERE table_schema = database() AND table_name = 'rota_migration'"
)

#: Tables of a store without the prefix: together they identify it among the tables of other programs.
OLD_TABLES: Final = ("bell", "expiry", "fired", "gate", "job", "lease", "migration", "ready")
_COUNT_OLD: Final = (
    "SELECT count(*) FROM information_schema.tables WHERE table_schema = database() AND table_name IN %(names)s"
)


def all_migrations() -> list[Migration]:
    return migrations_in(__package__)


async def applied(connection: MysqlConnection) -> dict[int, str]:
    """Return the applied migrations by number; none for an empty database."""
    if not await connection.rows(_IS_REGISTERED):
        return {}
    return dict(await connection.rows("SELECT number, name FROM rota_migration"))


async def migrate(connection: MysqlConnection, now_micros: int) -> list[str]:
    """Apply the missing migrations and return their names."""
    seen = await applied(connection)
    require_known(all_migrations(), seen)
    if {migration.number for migration in all_migrations()} <= seen.keys():
        return []
    try:
        async with migration_lock(connection):
            return await _migrate(connection, now_micros)
    except NotPrivileged as error:
        refuse_unprivileged(all_migrations(), seen, error)


@asynccontextmanager
async def migration_lock(connection: MysqlConnection) -> AsyncIterator[None]:
    """Let only one process at a time change the tables; statements may take hours."""
    ((database,),) = await connection.rows("SELECT database()")
    lock = {"name": f"rota.{sha256(database.encode()).hexdigest()[:32]}", "seconds": _LOCK_SECONDS}
    with connection.allowing():
        is_ours = await connection.rows("SELECT get_lock(%(name)s, %(seconds)s)", lock) == ((1,),)
    if not is_ours:
        raise StoreUnavailable(f"another process has been migrating {database} for {_LOCK_SECONDS} s; try again")
    try:
        with connection.allowing():
            yield
    finally:
        # With a lost connection the lock is gone too, and the error that is under way matters more.
        with suppress(ConnectionLost):
            await connection.rows("SELECT release_lock(%(name)s)", lock)


async def _migrate(connection: MysqlConnection, now_micros: int) -> list[str]:
    await _refuse_old_tables(connection)
    await connection.run(_REGISTER.format(collation=connection.collation))
    seen = await applied(connection)
    require_known(all_migrations(), seen)
    done = []
    for migration in all_migrations():
        if migration.number in seen:
            continue
        for part in statements_in(migration.text, connection.collation):
            await connection.run(part)
        row = (migration.number, migration.name, migration.digest, now_micros)
        await connection.many(
            "INSERT INTO rota_migration (number, name, digest, applied_at) VALUES (%s, %s, %s, %s)", [row]
        )
        done.append(migration.name)
    return done


async def _refuse_old_tables(connection: MysqlConnection) -> None:
    """Refuse a store whose tables have no prefix yet: new tables beside it would look as if all jobs were lost."""
    if await applied(connection) or await _old_tables(connection) < len(OLD_TABLES):
        return
    raise InvalidRequest(
        "store: this database has the tables of an older Rota, without the prefix rota_; stop all processes of Rota and"
        " run tools/rename_tables/mysql.py on it, or name another store",
        field="store",
    )


async def _old_tables(connection: MysqlConnection) -> int:
    ((count,),) = await connection.rows(_COUNT_OLD, {"names": OLD_TABLES})
    return int(count)


def statements_in(text: str, collation: str) -> list[str]:
    """Split a script into its statements, and set the collation."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
    script = "\n".join(lines).replace("{collation}", collation)
    return [part.strip() for part in script.split(";\n") if part.strip(" ;\n")]


async def status(location: str) -> list[MigrationState]:
    """Return the migrations of this release and of others, and whether they are applied to a database."""
    where = location_of(location)
    try:
        connection = await connect(where, "", autocommit=True)
        try:
            seen = await applied(connection)
        finally:
            await connection.close()
    except (ServerRefused, ConnectionLost) as error:
        raise StoreUnavailable(f"{where.name}: {error}") from error
    return compare(all_migrations(), seen)
