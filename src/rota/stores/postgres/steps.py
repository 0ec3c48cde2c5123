"""Steps (side effects guarded by job and key), recorded only while the fence holds."""

from __future__ import annotations

from rota.core.ids import JobId
from rota.core.step import Resolution, Step
from rota.stores.postgres.session import Session
from rota.stores.postgres.statements import StatementRunner
from rota.stores.rows import Row, step_of
from rota.stores.text_codec import decode_row, encode_text


async def intend(runner: StatementRunner, job_id: JobId, fence: int, key: str, now: int) -> tuple[Step, bool] | None:
    """Record the intent to perform a step, and return whether it is new."""
    if not await runner.rows("lock_lease", job_id, fence):
        return None
    is_new = bool(await runner.run("intend_step", job_id, encode_text(key), fence, now))
    return _step((await runner.rows("step", job_id, encode_text(key)))[0]), is_new


async def conclude(session: Session, job_id: JobId, fence: int, key: str, outcome: str, now: int) -> Step | None:
    """Record that a step's effect happened."""
    if not await session.rows("lock_lease", job_id, fence):
        return None
    await session.run("conclude_step", now, encode_text(outcome), job_id, encode_text(key))
    return await find_step(session, job_id, key)


async def perform(
    runner: StatementRunner, job_id: JobId, fence: int, key: str, outcome: str, now: int
) -> tuple[Step, bool] | None:
    """Record a step whose effect happens in this transaction: intent and outcome at once."""
    begun = await intend(runner, job_id, fence, key, now)
    if begun is None or not begun[1]:
        return begun
    await runner.run("conclude_step", now, encode_text(outcome), job_id, encode_text(key))
    step = await find_step(runner, job_id, key)
    return None if step is None else (step, True)


async def find_step(runner: StatementRunner, job_id: JobId, key: str) -> Step | None:
    rows = await runner.rows("step", job_id, encode_text(key))
    return _step(rows[0]) if rows else None


async def withdraw(session: Session, job_id: JobId, fence: int, key: str, now: int) -> bool:  # noqa: ARG001 - untimed
    """Delete the intent to perform a step."""
    if not await session.rows("lock_lease", job_id, fence):
        return False
    return bool(await session.run("withdraw_step", job_id, encode_text(key)))


async def resolve(session: Session, resolution: Resolution, now: int) -> bool:
    """Record an operator's decision about a step in doubt."""
    if await session.rows("is_running", resolution.job_id):
        return False
    if resolution.outcome is None:
        return bool(await session.run("withdraw_step", resolution.job_id, encode_text(resolution.key)))
    return bool(
        await session.run(
            "conclude_step", now, encode_text(resolution.outcome), resolution.job_id, encode_text(resolution.key)
        )
    )


async def steps(session: Session, job_id: JobId) -> list[Step]:
    """Return a job's steps in the order in which they began."""
    return [_step(row) for row in await session.rows("steps", job_id)]


def _step(row: Row) -> Step:
    return step_of(decode_row(row))
