"""Checks of `rota db check`: damaged data, exceeded limits, and settings with which a crash could lose jobs."""

from __future__ import annotations

from typing import Final

from rota.stores.postgres import limits
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
    found = [
        sentence.format(finding, finding)
        for check, sentence in _CHECKS.items()
        for (finding,) in await session.rows(check, seconds=_SECONDS)
    ]
    return found + await limits.findings(session)
