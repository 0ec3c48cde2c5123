"""Checks of the store itself: what `rota db check` finds, and the condition that health pages show.

The check is the server's own of the tables, and whether each job is in the right state table. The condition is the
schema, the sizes, and whether retention keeps up.
"""

from __future__ import annotations

from typing import Final

from rota.core.ids import to_text
from rota.ports.store import Retention, StoreCondition, TableSize
from rota.stores.base.retention import oldest_prunable
from rota.stores.migrations import differences
from rota.stores.mysql import limits
from rota.stores.mysql.driver import MysqlConnection
from rota.stores.mysql.migrations import all_migrations, applied
from rota.stores.mysql.statements import statement

#: Statements that find jobs in a wrong state table, and what is wrong with those.
_FINDINGS: Final = {
    "pending_but_not_ready": "is pending, but no claim can see it (no row in rota_ready)",
    "ready_but_not_pending": "can be claimed, but is not pending",
    "timed_but_not_scheduled": "waits for its time, but is never promoted (no row in rota_scheduled)",
    "leased_but_not_running": "has a lease, but cannot run",
    "ended_but_not_finished": "has ended, but has no row in rota_finished",
    "finished_but_not_ended": "has a row in rota_finished, but has not ended so",
    "made_by_schedule_but_not_fired": (
        "was made by a schedule, but is not listed among its jobs (repair: INSERT IGNORE INTO rota_fired"
        " SELECT schedule_id, id FROM rota_job WHERE schedule_id IS NOT NULL)"
    ),
}


async def check(connection: MysqlConnection) -> list[str]:
    """Return one sentence for each finding."""
    with connection.allowing():
        rows = await connection.rows(statement("check_tables"))
        findings = [f"{table}: {text}" for table, _, kind, text in rows if kind != "note" and text != "OK"]
        for name, problem in _FINDINGS.items():
            findings += [f"job {to_text(job_id)} {problem}" for (job_id,) in await connection.rows(statement(name))]
    return findings + await limits.findings(connection)


async def condition(connection: MysqlConnection, retention: Retention, now: int) -> StoreCondition:
    """Return the condition of the store. The server does not show its free disk space."""
    missing, unknown = differences(all_migrations(), await applied(connection))
    return StoreCondition(missing, unknown, await oldest_prunable(connection, retention, now))


async def sizes(connection: MysqlConnection) -> list[TableSize]:
    """Return the sizes of the tables with their indexes, as the server last estimated them."""
    return [
        TableSize(name, int(size), int(rows)) for name, rows, size in await connection.rows(statement("table_sizes"))
    ]
