"""Looking for damage, and for settings that would let a crash lose what was acknowledged."""

from __future__ import annotations

from typing import Final

from rota.stores.postgres.session import Session

#: A check goes through whole tables.
_SECONDS: Final = 3600.0
#: What each question's rows mean. A question gives one text per finding.
_QUESTIONS: Final = {
    "settings": "setting {} lets a crash of the host lose acknowledged jobs; turn it on",
    "indexes": "index {} is not valid; run REINDEX INDEX CONCURRENTLY {}",
    "doubles": "job {} stands in job and in job_done; it has ended, so delete it from job",
    "rules": "job {} has a state and counts that do not go together; look at its row before you cancel it",
    "stranded": "job {} is blocked, but nothing it waits for is left; cancel it or retry it",
}


async def findings(session: Session) -> list[str]:
    """Give one sentence for each finding."""
    return [
        sentence.format(finding, finding)
        for question, sentence in _QUESTIONS.items()
        for (finding,) in await session.rows(f"check_{question}", seconds=_SECONDS)
    ]
