"""Looking for damage: what the server finds, and whether the books balance."""

from __future__ import annotations

from typing import Final

from rota.core.identity import to_text
from rota.stores.mysql.driver import Connection

_TABLES: Final = (
    "migration, job, ready, lease, scheduled, held, finished, expiry, tag, fired, attempt, dependency, idempotency,"
    " claim, step, schedule, occurrence, queue, `member`, leader, ledger, token, pruned, bell, gate"
)

#: Each gives jobs that stand where they should not, and says what is wrong with them.
_BOOKS: Final = {
    "is pending, but no worker can find it": """
        SELECT job.id FROM job
            LEFT JOIN ready USING (queue, type, turn, id)
            LEFT JOIN lease ON lease.id = job.id
        WHERE job.state = 'pending' AND ready.id IS NULL AND lease.id IS NULL LIMIT 10""",
    "can be claimed, but is not pending": """
        SELECT ready.id FROM ready
            LEFT JOIN job USING (queue, type, turn, id)
            LEFT JOIN lease ON lease.id = ready.id
        WHERE job.id IS NULL OR job.state <> 'pending' OR lease.id IS NOT NULL LIMIT 10""",
    "waits for its time, but nobody will tell it": """
        SELECT job.id FROM job LEFT JOIN scheduled USING (run_at, id, state)
        WHERE job.state IN ('scheduled', 'retrying') AND scheduled.id IS NULL LIMIT 10""",
    "has a lease, but cannot run": """
        SELECT lease.id FROM lease LEFT JOIN job ON job.id = lease.id
        WHERE job.id IS NULL OR job.state NOT IN ('pending', 'queued') OR lease.fence <> job.fence + 1 LIMIT 10""",
    "has ended, but is not among the finished": """
        SELECT job.id FROM job LEFT JOIN finished USING (state, finished_at, id)
        WHERE job.finished_at IS NOT NULL AND finished.id IS NULL LIMIT 10""",
    "is among the finished, but has not ended so": """
        SELECT finished.id FROM finished LEFT JOIN job USING (state, finished_at, id)
        WHERE job.id IS NULL LIMIT 10""",
    "was made by a schedule, but is not among that schedule's jobs (an older process made it; once those are gone:"
    " INSERT IGNORE INTO fired SELECT schedule_id, id FROM job WHERE schedule_id IS NOT NULL)": """
        SELECT job.id FROM job LEFT JOIN fired ON fired.schedule_id = job.schedule_id AND fired.job_id = job.id
        WHERE job.schedule_id IS NOT NULL AND fired.job_id IS NULL LIMIT 10""",
}


async def check(connection: Connection) -> list[str]:
    """Give one sentence for each finding."""
    with connection.at_leisure():
        found = await connection.rows(f"CHECK TABLE {_TABLES}")
        findings = [f"{table}: {text}" for table, _, kind, text in found if kind != "note" and text != "OK"]
        for complaint, question in _BOOKS.items():
            findings += [f"job {to_text(job_id)} {complaint}" for (job_id,) in await connection.rows(question)]
    return findings
