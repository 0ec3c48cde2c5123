"""Checks of the store itself: what `rota db check` finds, and the condition that health pages show.

The check finds damaged data, exceeded limits, and settings with which a crash could lose jobs. The condition is the
schema, the sizes, and whether retention keeps up.
"""

from __future__ import annotations

from typing import Final

from rota.ports.store import Retention, StoreCondition, TableSize
from rota.stores.base.retention import oldest_prunable
from rota.stores.migrations import differences
from rota.stores.postgres import limits
from rota.stores.postgres.migrations import all_migrations, applied
from rota.stores.postgres.session import Session

#: A check reads whole tables.
_SECONDS: Final = 3600.0
#: Statements that give one text per finding, and the sentence for it.
_CHECKS: Final = {
    "check_settings": "setting {} is off, so a crash of the host can lose acknowledged jobs; turn it on",
    "check_indexes": "index {} is not valid; run REINDEX INDEX CONCURRENTLY {}",
    "check_duplicates": "job {} is in rota_job and in rota_job_done; it has ended, so delete it from rota_job",
    "check_invariants": "job {} has a state and counts that contradict each other; look at its row, then cancel it",
    "check_stranded": "job {} is blocked, but no job it waits for is left; cancel it or retry it",
}


async def findings(session: Session) -> list[str]:
    """Return one sentence for each finding."""
    sentences = [
        sentence.format(finding, finding)
        for check, sentence in _CHECKS.items()
        for (finding,) in await session.rows(check, seconds=_SECONDS)
    ]
    return sentences + await limits.findings(session)


async def condition(session: Session, retention: Retention, now: int) -> StoreCondition:
    """Return the condition of the store. The server does not show its free disk space."""
    missing, unknown = differences(all_migrations(), await applied(session))
    return StoreCondition(missing, unknown, await oldest_prunable(session, retention, now))


async def sizes(session: Session) -> list[TableSize]:
    """Return the sizes of the tables with their indexes; a partitioned table has those of its partitions."""
    return [TableSize(name, size, None if rows < 0 else rows) for name, rows, size in await session.rows("table_sizes")]
