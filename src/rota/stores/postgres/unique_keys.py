"""Keys of unique, throttled and debounced jobs, in the table of idempotency keys.

The row of a key is locked first, and inserted without a job if there is none. Only a later statement reads the job of
the key: its snapshot shows what the transaction that held the lock before has committed.
"""

from __future__ import annotations

from collections.abc import Sequence

from rota.core.ids import JobId
from rota.core.job import AGING_MICROS
from rota.core.lifecycle import State
from rota.core.submission import NewJob
from rota.core.time import from_micros, span_to_micros
from rota.core.unique_keys import KeyDecision, KeyHolder, UniqueKey, decide
from rota.ports.store import Inserted
from rota.stores.postgres.statements import StatementRunner
from rota.stores.unique_keys import receipt_of, replaced_times


async def lock_keys(session: StatementRunner, jobs: Sequence[NewJob]) -> None:
    """Lock the keys of jobs until the transaction ends."""
    # Sorted, against deadlocks.
    names = sorted({job.unique.name_for(job.type, job.queue) for job in jobs if job.unique is not None})
    await session.rows("lock_unique_keys", [scope for scope, _ in names], [key for _, key in names])


async def repeated(session: StatementRunner, job: NewJob, key: UniqueKey, now: int) -> Inserted | None:
    """Answer a submission whose key an earlier job has; None if no job of this key counts."""
    rows = await session.rows("key_holder", *key.name_for(job.type, job.queue))
    if not rows:
        return None
    job_id, state, fence, created_at = rows[0]
    holder = KeyHolder(JobId(job_id), State(state), fence, from_micros(created_at))
    decision = decide(key, holder, from_micros(now))
    if decision is KeyDecision.FREE or (
        decision is KeyDecision.REPLACE and not await _replace(session, job, key, holder, now)
    ):
        return None
    return Inserted(holder.job_id, receipt_of(job, key, holder), holder.state)


async def take_key(session: StatementRunner, job: NewJob, key: UniqueKey, now: int) -> None:
    """Give a locked key to a new job."""
    await session.run("take_unique_key", *key.name_for(job.type, job.queue), job.id, now + span_to_micros(key.keep))


async def _replace(session: StatementRunner, job: NewJob, key: UniqueKey, holder: KeyHolder, now: int) -> bool:
    """Give a waiting job the payload of a later submission, and let it wait anew; False if it was claimed meanwhile."""
    run_at, expires_at = replaced_times(job, key, holder)
    return bool(
        await session.run("replace_debounced", holder.job_id, job.payload, run_at, expires_at, AGING_MICROS, now)
    )
