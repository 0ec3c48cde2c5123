"""Give the tables of an older MySQL or MariaDB store the prefix `rota_`.

    python tools/rename_tables/mysql.py mysql://user:password@host:port/database

For stores made before the tables had the prefix. Stop all processes of Rota first, and make a backup. The store must be
at the last migration without the prefix. All rows stay.

The server commits every DDL statement by itself, so the script may be cut off in the middle. It can be run again:

1. All tables are renamed by one statement, which the server runs as a whole or not at all.
2. Keys and constraints are renamed table by table; those that have their new name are left alone. Adding a constraint
   may copy the table `rota_job`, which takes a while for millions of jobs.
3. The migrations of before are replaced by 0001, in one transaction. Until then no release opens the store: this one
   does not know the migrations of before, and those before do not find their tables.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from typing import Final

from rota.core.errors import RotaError
from rota.stores.mysql.driver import MysqlConnection, connect
from rota.stores.mysql.errors import ConnectionLost, RetryTransaction, ServerRefused
from rota.stores.mysql.location import location_of
from rota.stores.mysql.migrations import all_migrations, migration_lock, statements_in

OLD_MIGRATIONS: Final = {1: "0001_first", 2: "0002_fired", 3: "0003_lists", 4: "0004_schedule_app"}
TABLES: Final = {
    **{
        name: f"rota_{name}"
        for name in (
            "attempt", "claim", "dependency", "expiry", "finished", "fired", "held", "idempotency", "job", "leader",
            "lease", "ledger", "member", "migration", "occurrence", "pruned", "queue", "ready", "schedule", "scheduled",
            "step", "tag", "token",
        )
    },
    "bell": "rota_notification",
    "gate": "rota_queue_lock",
}  # fmt: skip
#: Keys by table. All of them get the prefix.
KEYS: Final = {
    "rota_lease": ("lease_end",),
    "rota_scheduled": ("scheduled_state",),
    "rota_tag": ("tag_job",),
    "rota_fired": ("fired_job",),
    "rota_dependency": ("dependency_child",),
    "rota_idempotency": ("idempotency_job", "idempotency_expiry"),
    "rota_claim": ("claim_at",),
    "rota_schedule": ("schedule_name", "schedule_due"),
    "rota_occurrence": ("occurrence_at",),
}
#: Constraints by table, with their conditions: they cannot be renamed, only dropped and added.
CONSTRAINTS: Final = {
    "rota_job": {
        "job_state": (
            "state IN ('blocked', 'scheduled', 'pending', 'queued', 'retrying', 'completed', 'dead', 'cancelled')"
        ),
        "job_end": "(finished_at IS NOT NULL) = (state IN ('completed', 'dead', 'cancelled'))",
        "job_blockers": "state <> 'blocked' OR blockers > 0",
        "job_attempts": "attempts BETWEEN 0 AND max_attempts",
        "job_fence": "attempts <= fence",
    },
    "rota_lease": {"lease_fence": "fence > 0"},
    "rota_step": {"step_end": "(ended_at IS NULL) = (outcome IS NULL)"},
}
_CREATE_TABLE: Final = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(rota_\w+)")
RENAME: Final = f"RENAME TABLE {', '.join(f'`{old}` TO {new}' for old, new in TABLES.items())}"


class Refused(Exception):
    """The database is not in a state that this script can change."""


async def rename(connection: MysqlConnection) -> str:
    """Rename what has not been renamed yet, and return what was done."""
    names = {name for (name,) in await connection.rows("SHOW TABLES")}
    if "rota_migration" not in names:
        await _require_old_store(connection, names)
        await connection.run(RENAME)
    migrations = await _migrations(connection, "rota_migration")
    if migrations != OLD_MIGRATIONS:
        if set(migrations.values()) & set(OLD_MIGRATIONS.values()) or not migrations:
            raise Refused(f"rota_migration has {_listed(migrations)}, which this script has not written")
        return "nothing to do: the tables have the prefix already"
    for table in TABLES.values():
        await _rename_keys(connection, table)
    await _create_new_tables(connection)
    await _alter_ledger_and_tokens(connection)
    await _move_configuration(connection)
    await _add_columns(connection)
    await _add_keys(connection)
    await _record(connection)
    return f"{len(TABLES)} tables renamed; open the store with this release"


async def _require_old_store(connection: MysqlConnection, names: set[str]) -> None:
    if missing := TABLES.keys() - names:
        raise Refused(f"not a store of a Rota without the prefix: no table {', '.join(sorted(missing))}")
    if taken := names.intersection(TABLES.values()):
        raise Refused(
            f"both old and new tables are there: {', '.join(sorted(taken))}; drop the new ones if they are empty"
        )
    migrations = await _migrations(connection, "migration")
    if migrations != OLD_MIGRATIONS:
        remedy = (
            "open it once with the last release whose tables have no prefix (`rota db migrate`), then run this again"
        )
        raise Refused(f"the store is at {_listed(migrations)} and not at {_listed(OLD_MIGRATIONS)}; {remedy}")


async def _migrations(connection: MysqlConnection, table: str) -> dict[int, str]:
    return dict(await connection.rows(f"SELECT number, name FROM {table}"))  # noqa: S608 - one of two names


def _listed(migrations: dict[int, str]) -> str:
    return ", ".join(name for _, name in sorted(migrations.items())) or "no migration"


async def _rename_keys(connection: MysqlConnection, table: str) -> None:
    """Rename keys and constraints of a table in one statement, except those that have their new name."""
    where = f"WHERE table_schema = database() AND table_name = '{table}'"
    keys = await connection.rows(f"SELECT DISTINCT index_name FROM information_schema.statistics {where}")  # noqa: S608
    checks = await connection.rows(f"SELECT constraint_name FROM information_schema.table_constraints {where}")  # noqa: S608
    there = {name for (name,) in (*keys, *checks)}
    changes = [f"RENAME INDEX {key} TO rota_{key}" for key in KEYS.get(table, ()) if key in there]
    for name, condition in CONSTRAINTS.get(table, {}).items():
        if name in there:
            changes += [f"DROP CONSTRAINT {name}", f"ADD CONSTRAINT rota_{name} CHECK ({condition})"]
    if changes:
        await connection.run(f"ALTER TABLE {table} {', '.join(changes)}")


async def _create_new_tables(connection: MysqlConnection) -> None:
    """Create the tables that the last release without the prefix did not have."""
    names = {name for (name,) in await connection.rows("SHOW TABLES")}
    for statement in statements_in(all_migrations()[0].text, connection.collation):
        table = _CREATE_TABLE.match(statement)
        if table is not None and table[1] not in names:
            await connection.run(statement)


async def _move_configuration(connection: MysqlConnection) -> None:
    """Move the shared configuration from a row of the queue table to its own table."""
    rows = await connection.rows("SELECT pause_reason FROM rota_queue WHERE name = '/configuration'")
    for key, value in json.loads(rows[0][0] or "{}").items() if rows else ():
        # An earlier run may have written it.
        await connection.run(
            "REPLACE INTO rota_configuration (`key`, value, version) VALUES (%(key)s, %(value)s, 1)",
            {"key": key, "value": value},
        )
    await connection.run("DELETE FROM rota_queue WHERE name = '/configuration'")


async def _alter_ledger_and_tokens(connection: MysqlConnection) -> None:
    """Add the surface to the ledger's entries, and change the columns of tokens, which no old release used."""
    where = "WHERE table_schema = database() AND table_name IN ('rota_ledger', 'rota_token')"
    there = {name for (name,) in await connection.rows(f"SELECT column_name FROM information_schema.columns {where}")}  # noqa: S608
    if "surface" not in there:
        await connection.run("ALTER TABLE rota_ledger ADD COLUMN surface TEXT NOT NULL AFTER digest")
    if "scopes" in there:
        await connection.run(
            "ALTER TABLE rota_token DROP COLUMN scopes, DROP COLUMN last_used_at,"
            " ADD COLUMN role VARCHAR(255) NOT NULL AFTER digest, ADD COLUMN actions LONGTEXT NOT NULL AFTER role,"
            " ADD COLUMN limits LONGTEXT NOT NULL AFTER queues"
        )


async def _add_keys(connection: MysqlConnection) -> None:
    """Add the concurrency key to the tables of pending and running jobs, and new keys, unless an earlier run did."""
    if not await connection.rows("SHOW COLUMNS FROM rota_lease LIKE 'concurrency_key'"):
        await connection.run("ALTER TABLE rota_lease ADD COLUMN concurrency_key VARCHAR(200)")
    if not await connection.rows("SHOW COLUMNS FROM rota_ready LIKE 'concurrency_key'"):
        await connection.run(
            "ALTER TABLE rota_ready ADD COLUMN concurrency_key VARCHAR(200) NOT NULL DEFAULT '' AFTER type,"
            " DROP PRIMARY KEY, ADD PRIMARY KEY (queue, type, concurrency_key, turn, id)"
        )
    if not await connection.rows("SHOW INDEX FROM rota_ready WHERE Key_name = 'rota_ready_id'"):
        await connection.run("ALTER TABLE rota_ready ADD KEY rota_ready_id (id)")
    if not await connection.rows("SHOW INDEX FROM rota_scheduled WHERE Key_name = 'rota_scheduled_lane'"):
        await connection.run("ALTER TABLE rota_scheduled ADD KEY rota_scheduled_lane (state, queue, type)")
    for table in ("rota_ready", "rota_lease"):
        await connection.run(
            f"UPDATE {table} AS part JOIN rota_job AS job ON job.id = part.id"  # noqa: S608 - one of two names
            " SET part.concurrency_key = job.concurrency_key WHERE job.concurrency_key IS NOT NULL"
        )
    await connection.run(
        "INSERT IGNORE INTO rota_sequence (concurrency_key, id) SELECT concurrency_key, id FROM rota_job"
        " WHERE concurrency_key IS NOT NULL AND finished_at IS NULL"
    )


async def _add_columns(connection: MysqlConnection) -> None:
    """Add the columns that old tables of dependencies, dead jobs, members and steps lack, unless an earlier run did."""
    if not await connection.rows("SHOW COLUMNS FROM rota_dependency LIKE 'position'"):
        await connection.run("ALTER TABLE rota_dependency ADD COLUMN position BIGINT NOT NULL DEFAULT 0 AFTER met")
    if not await connection.rows("SHOW COLUMNS FROM rota_finished LIKE 'type'"):
        await connection.run("ALTER TABLE rota_finished ADD COLUMN type VARCHAR(255) AFTER fingerprint")
    # The type of a dead job, in one statement that can be run again.
    await connection.run(
        "UPDATE rota_finished AS finished JOIN rota_job AS job ON job.id = finished.id SET finished.type = job.type"
        " WHERE finished.state = 'dead'"
    )
    if not await connection.rows("SHOW COLUMNS FROM rota_member LIKE 'facts'"):
        await connection.run("ALTER TABLE rota_member ADD COLUMN facts LONGTEXT, ADD COLUMN orders LONGTEXT")
    if not await connection.rows("SHOW COLUMNS FROM rota_step LIKE 'kind'"):
        await connection.run(
            "ALTER TABLE rota_step ADD COLUMN kind VARCHAR(16) NOT NULL DEFAULT 'effect' AFTER outcome,"
            " ADD COLUMN until BIGINT AFTER kind, ADD COLUMN subject VARCHAR(255) AFTER until"
        )


async def _record(connection: MysqlConnection) -> None:
    """Mark the first migration of this release as applied, in place of those before it."""
    first = all_migrations()[0]
    row = (first.number, first.name, first.digest, time.time_ns() // 1000)
    await connection.run("START TRANSACTION")
    await connection.run("DELETE FROM rota_migration")
    await connection.many(
        "INSERT INTO rota_migration (number, name, digest, applied_at) VALUES (%s, %s, %s, %s)", [row]
    )
    await connection.commit()


async def _main(url: str) -> str:
    connection = await connect(location_of(url), "rename", autocommit=True)
    try:
        async with migration_lock(connection):
            return await rename(connection)
    except RetryTransaction as error:
        raise Refused(f"the tables are in use; stop all processes of Rota ({error})") from error
    finally:
        await connection.close()


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python tools/rename_tables/mysql.py mysql://user:password@host:port/database", file=sys.stderr)  # noqa: T201 - a command
        return 2
    try:
        print(asyncio.run(_main(arguments[0])))  # noqa: T201 - a command
    except (Refused, RotaError, ServerRefused, ConnectionLost) as error:
        print(f"refused: {error}", file=sys.stderr)  # noqa: T201 - a command
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
