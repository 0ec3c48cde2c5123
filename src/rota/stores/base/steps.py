"""Steps: side effects guarded by (job, key), written only while the job's lease is locked and its fence holds."""

from __future__ import annotations

from rota.core.ids import JobId
from rota.core.step import MOST_STEPS, Resolution, Step, too_many_steps
from rota.core.time import from_micros
from rota.stores.base.session import StoreSession
from rota.stores.rows import step_of


async def intend(session: StoreSession, job_id: JobId, fence: int, key: str, now: int) -> tuple[Step, bool] | None:
    """Record the intent to perform a step; return it, and whether it is new. None if the fence no longer holds."""
    if not await _holds(session, job_id, fence):
        return None
    known = await step(session, job_id, key)
    if known is not None:
        return known, False
    if not await session.change("intend_step", job_id=job_id, key=key, fence=fence, now=now, most=MOST_STEPS):
        raise too_many_steps(job_id)
    return Step(job_id, key, fence, from_micros(now)), True


async def conclude(session: StoreSession, job_id: JobId, fence: int, key: str, outcome: str, now: int) -> Step | None:
    """Record the outcome of a step. None if the fence no longer holds."""
    if not await _holds(session, job_id, fence):
        return None
    await session.change("conclude_step", job_id=job_id, key=key, outcome=outcome, now=now)
    return await step(session, job_id, key)


async def perform(
    session: StoreSession, job_id: JobId, fence: int, key: str, outcome: str, now: int
) -> tuple[Step, bool] | None:
    """Record a step whose effect happens in this transaction: intent and outcome at once."""
    begun = await intend(session, job_id, fence, key, now)
    if begun is None or not begun[1]:
        return begun
    await session.change("conclude_step", job_id=job_id, key=key, outcome=outcome, now=now)
    finished = await step(session, job_id, key)
    return None if finished is None else (finished, True)


async def step(session: StoreSession, job_id: JobId, key: str) -> Step | None:
    rows = await session.select("step", job_id=job_id, key=key)
    return step_of(rows[0]) if rows else None


async def withdraw(session: StoreSession, job_id: JobId, fence: int, key: str) -> bool:
    """Delete the intent to perform a step that has no outcome."""
    if not await _holds(session, job_id, fence):
        return False
    return bool(await session.change("withdraw_step", job_id=job_id, key=key))


async def resolve(session: StoreSession, resolution: Resolution, now: int) -> bool:
    """Apply an operator's decision about a step in doubt; refused while the job runs."""
    if await session.select("is_running", job_id=resolution.job_id):
        return False
    name = "withdraw_step" if resolution.outcome is None else "resolve_step"
    return bool(
        await session.change(name, job_id=resolution.job_id, key=resolution.key, outcome=resolution.outcome, now=now)
    )


async def steps(session: StoreSession, job_id: JobId) -> list[Step]:
    """Return a job's steps in the order in which they began."""
    return [step_of(row) for row in await session.select("steps", job_id=job_id)]


async def _holds(session: StoreSession, job_id: JobId, fence: int) -> bool:
    return bool(await session.select("lock_lease_with_fence", job_id=job_id, fence=fence))
