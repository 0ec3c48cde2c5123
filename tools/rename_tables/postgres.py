"""Rename the tables of a PostgreSQL store that was made before they had the prefix `rota_`.

    python tools/rename_tables/postgres.py postgresql://user@host/database

Stop all processes of Rota first. Tables, partitions, indexes, constraints, the view, the trigger and its function are
renamed in one transaction, and migration 0001 is recorded as applied. A store that is not at the last migration of the
earlier release is refused, and so is one whose tables have the prefix already; then nothing is changed. No rows are
rewritten, so it takes well under a second whatever the size of the store.
"""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Any, Final

import asyncpg

from rota.stores.postgres.migrations import all_migrations

#: The last migration of the releases without prefix, and all before it.
OLD_MIGRATIONS: Final = {
    1: "0001_first",
    2: "0002_fewer_checks",
    3: "0003_open_claims",
    4: "0004_ended_meanwhile",
    5: "0005_lists",
    6: "0006_schedule_app",
}
TABLES: Final = (
    "migration", "job", "job_done", "tag", "attempt", "dependency", "idempotency", "claim", "open_claim", "step",
    "schedule", "occurrence", "queue", "member", "leader", "ledger", "token", "pruned",
)  # fmt: skip
_CREATE: Final = re.compile(r"^CREATE (?:TABLE|(?:UNIQUE )?INDEX) .*?;$", re.DOTALL | re.MULTILINE)
_TABLE_OF: Final = re.compile(r"CREATE (?:TABLE|(?:UNIQUE )?INDEX \w+ ON) (?:\{schema\})?rota_(\w+)")
_TOKEN_TABLE: Final = re.compile(r"CREATE TABLE \{schema\}rota_token \(.*?\n\)", re.DOTALL)
_VIEW: Final = re.compile(r"CREATE VIEW .*?;$", re.DOTALL | re.MULTILINE)
_FUNCTION: Final = re.compile(r"^(?:CREATE FUNCTION|DO \$\$).*?^\$\$;", re.DOTALL | re.MULTILINE)

#: The tables, their partitions, and the view.
_RELATIONS: Final = """
SELECT oid::regclass::text, relname, relkind = 'v' FROM pg_class
WHERE relnamespace = $1::oid AND relkind IN ('r', 'p', 'v') AND (
    relname = ANY($2::text[]) OR relname = 'any_job'
    OR oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass('job_done'))
)
"""
_INDEXES: Final = """
SELECT part.indexrelid::regclass::text, index.relname
FROM pg_index AS part JOIN pg_class AS index ON index.oid = part.indexrelid
WHERE part.indrelid = ANY($1::text[]::regclass[]) AND index.relname NOT LIKE 'rota\\_%'
ORDER BY index.relname
"""
#: Those of primary keys were renamed with their indexes, and those of partitions follow their table.
_CONSTRAINTS: Final = """
SELECT conrelid::regclass::text, conname FROM pg_constraint
WHERE conrelid = ANY($1::text[]::regclass[]) AND coninhcount = 0 AND conname NOT LIKE 'rota\\_%'
"""


class RefusedError(Exception):
    """The database is not a store that can be renamed."""


async def rename(connection: Any) -> list[str]:  # noqa: ANN401 - asyncpg has no types
    """Rename everything in one transaction, and return the new names of the tables."""
    async with connection.transaction():
        await connection.execute("SET LOCAL lock_timeout = '3s'")
        namespace = await _require_old_store(connection)
        relations = await connection.fetch(_RELATIONS, namespace, list(TABLES))
        tables = [quoted for quoted, _, is_view in relations if not is_view]
        await connection.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")
        for index, name in await connection.fetch(_INDEXES, tables):
            await connection.execute(f'ALTER INDEX {index} RENAME TO "rota_{name}"')
        for table, name in await connection.fetch(_CONSTRAINTS, tables):
            await connection.execute(f'ALTER TABLE {table} RENAME CONSTRAINT "{name}" TO "rota_{name}"')
        await connection.execute('ALTER TRIGGER "job_ended_meanwhile" ON "job" RENAME TO "rota_job_ended_meanwhile"')
        for quoted, name, is_view in relations:
            await connection.execute(f'ALTER {"VIEW" if is_view else "TABLE"} {quoted} RENAME TO "rota_{name}"')
        await connection.execute("ALTER TABLE rota_dependency ADD COLUMN position integer NOT NULL DEFAULT 0")
        await connection.execute(
            "ALTER TABLE rota_step ADD COLUMN kind text NOT NULL DEFAULT 'effect', ADD COLUMN until bigint,"
            " ADD COLUMN subject text"
        )
        await connection.execute("ALTER TABLE rota_member ADD COLUMN facts text, ADD COLUMN orders text")
        await _replace_function(connection)
        await _create_new_tables(connection)
        await _alter_ledger_and_tokens(connection)
        await _move_configuration(connection)
        await _split_claim_index(connection)
        await _record(connection)
        return sorted(f"rota_{name}" for _, name, _ in relations)


async def _require_old_store(connection: Any) -> int:  # noqa: ANN401 - asyncpg has no types
    """Return the schema of the store, by the connection's search_path; refuse what is not at the last migration."""
    if await connection.fetchval("SELECT to_regclass('rota_migration')") is not None:
        raise RefusedError("the tables have the prefix rota_ already; there is nothing to do")
    namespace = await connection.fetchval(
        "SELECT relnamespace FROM pg_class WHERE oid = to_regclass('migration') AND relkind = 'r'"
    )
    if namespace is None:
        raise RefusedError("there is no store on the search_path of this connection; name the store's database")
    try:
        rows = await connection.fetch('SELECT number, name FROM "migration" ORDER BY number')
    except asyncpg.UndefinedColumnError as error:
        raise RefusedError("the table migration is not one of Rota's") from error
    if dict(rows) != OLD_MIGRATIONS:
        last = rows[-1]["name"] if rows else "none"
        raise RefusedError(
            f"the store is at migration {last}, not at {OLD_MIGRATIONS[6]}; run `rota db migrate` of the old release"
        )
    return int(namespace)


async def _replace_function(connection: Any) -> None:  # noqa: ANN401 - asyncpg has no types
    """Rename the trigger's function, replace its body, which names a table, and create the functions that are new."""
    await connection.execute("ALTER FUNCTION refuse_ended_jobs() RENAME TO rota_refuse_ended_jobs")
    for function in _FUNCTION.findall(all_migrations()[0].text):
        await connection.execute(
            function.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION").replace("{schema}", "")
        )


async def _create_new_tables(connection: Any) -> None:  # noqa: ANN401 - asyncpg has no types
    """Create the tables that the last release without the prefix did not have, and their indexes."""
    for statement in _CREATE.findall(all_migrations()[0].text):
        table = _TABLE_OF.match(statement)
        if table is not None and table[1] not in TABLES and not table[1].startswith("job_done"):
            await connection.execute(statement.replace("{schema}", ""))


async def _move_configuration(connection: Any) -> None:  # noqa: ANN401 - asyncpg has no types
    """Move the shared configuration from a row of the queue table to its own table."""
    await connection.execute(
        "INSERT INTO rota_configuration (key, value, version) SELECT each.key, each.value, 1"
        " FROM rota_queue, json_each_text(coalesce(rota_queue.pause_reason, '{}')::json) AS each"
        " WHERE rota_queue.name = '/configuration'"
    )
    await connection.execute("DELETE FROM rota_queue WHERE name = '/configuration'")


async def _alter_ledger_and_tokens(connection: Any) -> None:  # noqa: ANN401 - asyncpg has no types
    """Add the surface to the ledger's entries, and make the table of tokens anew, which no old release used."""
    await connection.execute("ALTER TABLE rota_ledger ADD COLUMN surface text NOT NULL DEFAULT ''")
    await connection.execute("ALTER TABLE rota_ledger ALTER COLUMN surface DROP DEFAULT")
    await connection.execute("DROP TABLE rota_token")
    (table,) = _TOKEN_TABLE.findall(all_migrations()[0].text)
    await connection.execute(table.replace("{schema}", ""))


async def _split_claim_index(connection: Any) -> None:  # noqa: ANN401 - asyncpg has no types
    """Compare concurrency keys byte by byte; create the indexes that are new: of keys, of lists, of causes."""
    await connection.execute("DROP VIEW rota_any_job")
    for table in ("rota_job", "rota_job_done"):
        await connection.execute(f'ALTER TABLE {table} ALTER COLUMN concurrency_key TYPE text COLLATE "C"')
    (view,) = _VIEW.findall(all_migrations()[0].text)
    await connection.execute(view.replace("{schema}", ""))
    await connection.execute("DROP INDEX rota_job_turn, rota_job_waiting")
    names = ("rota_job_turn", "rota_job_key", "rota_job_sequence", "rota_job_waiting", "rota_job_done_cause")
    for statement in _CREATE.findall(all_migrations()[0].text):
        if any(f"CREATE INDEX {name} " in statement for name in names):
            await connection.execute(statement.replace("{schema}", ""))


async def _record(connection: Any) -> None:  # noqa: ANN401 - asyncpg has no types
    first = all_migrations()[0]
    await connection.execute("DELETE FROM rota_migration")
    await connection.execute(
        "INSERT INTO rota_migration (number, name, digest, applied_at)"
        " VALUES ($1, $2, $3, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)",
        first.number,
        first.name,
        first.digest,
    )


async def main(url: str) -> int:
    """Rename the tables of the store at a URL."""
    connection = await asyncpg.connect(url)
    try:
        names = await rename(connection)
    except RefusedError as error:
        print(f"refused: {error}", file=sys.stderr)  # noqa: T201 - a command
        return 1
    except asyncpg.LockNotAvailableError:
        print("refused: a process uses the store; stop all processes of Rota, and try again", file=sys.stderr)  # noqa: T201 - a command
        return 1
    finally:
        await connection.close()
    print(f"renamed: {', '.join(names)}")  # noqa: T201 - a command
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:  # noqa: PLR2004 - the program and a URL
        sys.exit(f"usage: {sys.argv[0]} postgresql://user@host/database")
    sys.exit(asyncio.run(main(sys.argv[1])))
