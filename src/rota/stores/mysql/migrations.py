"""Bringing a database to the form this release expects.

MySQL commits every change of a table by itself, so a migration can be cut off in the middle. Therefore each of its
statements can be run again, and it is recorded only after the last. A named lock of the server keeps others out.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256

from rota.core.errors import StoreUnavailable
from rota.stores.migrations import Migration, MigrationState, compare, migrations_in, require_known
from rota.stores.mysql.driver import Broken, Connection, Lost, connect
from rota.stores.mysql.location import location_of

#: How long to wait while another process migrates.
_PATIENCE_SECONDS = 50

_REGISTER = """
CREATE TABLE IF NOT EXISTS migration (
    number     BIGINT       NOT NULL,
    name       VARCHAR(255) NOT NULL,
    digest     VARCHAR(64)  NOT NULL,
    applied_at BIGINT       NOT NULL,
    PRIMARY KEY (number)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation}
"""
_IS_REGISTERED = "SELECT 1 FROM information_schema.tables WHERE table_schema = database() AND table_name = 'migration'"


def all_migrations() -> list[Migration]:
    """Give the migrations that this release brings, in order."""
    return migrations_in(__package__)


async def applied(connection: Connection) -> dict[int, str]:
    """Give the migrations a database has seen, by number; none for an empty one."""
    if not await connection.rows(_IS_REGISTERED):
        return {}
    return dict(await connection.rows("SELECT number, name FROM migration"))


async def migrate(connection: Connection, now_micros: int) -> list[str]:
    """Apply what is missing and give the names of what was applied."""
    seen = await applied(connection)
    require_known(all_migrations(), seen)
    if {migration.number for migration in all_migrations()} <= seen.keys():
        return []
    ((database,),) = await connection.rows("SELECT database()")
    lock = {"name": f"rota.{sha256(database.encode()).hexdigest()[:32]}", "patience": _PATIENCE_SECONDS}
    with connection.at_leisure():
        is_ours = await connection.rows("SELECT get_lock(%(name)s, %(patience)s)", lock) == ((1,),)
    if not is_ours:
        raise StoreUnavailable(f"another process has been migrating {database} for {_PATIENCE_SECONDS} s; try again")
    try:
        with connection.at_leisure():
            return await _migrate(connection, now_micros)
    finally:
        # With its connection, the lock is gone too; what went wrong before is to be told, and not this.
        with suppress(Lost):
            await connection.rows("SELECT release_lock(%(name)s)", lock)


async def _migrate(connection: Connection, now_micros: int) -> list[str]:
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
        await connection.many("INSERT INTO migration (number, name, digest, applied_at) VALUES (%s, %s, %s, %s)", [row])
        done.append(migration.name)
    return done


def statements_in(text: str, collation: str) -> list[str]:
    """Cut a script into its statements, for a server that calls the collation so."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
    script = "\n".join(lines).replace("{collation}", collation)
    return [part.strip() for part in script.split(";\n") if part.strip(" ;\n")]


async def status(location: str) -> list[MigrationState]:
    """Give the migrations of this release, and those of others, and whether a database has seen them."""
    where = location_of(location)
    try:
        connection = await connect(where, "", autocommit=True)
        try:
            seen = await applied(connection)
        finally:
            await connection.close()
    except (Broken, Lost) as error:
        raise StoreUnavailable(f"{where.name}: {error}") from error
    return compare(all_migrations(), seen)
