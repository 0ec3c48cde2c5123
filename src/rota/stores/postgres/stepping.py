"""Guarded steps, written under a fence that holds."""

from __future__ import annotations

from rota.core.identity import JobId
from rota.core.step import Resolution, Step
from rota.stores.postgres.session import Session
from rota.stores.postgres.statements import Runner
from rota.stores.rows import Row, step_of
from rota.stores.texts import readable, writable


async def intend(runner: Runner, job_id: JobId, fence: int, key: str, now: int) -> tuple[Step, bool] | None:
    """Write down the intent to perform a step, and say whether it is new."""
    if not await runner.rows("holds", job_id, fence):
        return None
    is_new = bool(await runner.run("intend_step", job_id, writable(key), fence, now))
    return _step((await runner.rows("step", job_id, writable(key)))[0]), is_new


async def conclude(session: Session, job_id: JobId, fence: int, key: str, outcome: str, now: int) -> Step | None:
    """Write down that a step's effect happened."""
    if not await session.rows("holds", job_id, fence):
        return None
    await session.run("conclude_step", now, writable(outcome), job_id, writable(key))
    return await look(session, job_id, key)


async def perform(
    runner: Runner, job_id: JobId, fence: int, key: str, outcome: str, now: int
) -> tuple[Step, bool] | None:
    """Write down a step that happens in this very transaction: intent and outcome are one."""
    begun = await intend(runner, job_id, fence, key, now)
    if begun is None or not begun[1]:
        return begun
    await runner.run("conclude_step", now, writable(outcome), job_id, writable(key))
    step = await look(runner, job_id, key)
    return None if step is None else (step, True)


async def look(runner: Runner, job_id: JobId, key: str) -> Step | None:
    """Give a step."""
    found = await runner.rows("step", job_id, writable(key))
    return _step(found[0]) if found else None


async def withdraw(session: Session, job_id: JobId, fence: int, key: str, now: int) -> bool:  # noqa: ARG001 - untimed
    """Forget the intent to perform a step."""
    if not await session.rows("holds", job_id, fence):
        return False
    return bool(await session.run("withdraw_step", job_id, writable(key)))


async def resolve(session: Session, told: Resolution, now: int) -> bool:
    """Write down an operator's word about a step in doubt."""
    if await session.rows("runs", told.job_id):
        return False
    if told.outcome is None:
        return bool(await session.run("withdraw_step", told.job_id, writable(told.key)))
    return bool(await session.run("conclude_step", now, writable(told.outcome), told.job_id, writable(told.key)))


async def steps(session: Session, job_id: JobId) -> list[Step]:
    """Give a job's steps in the order in which they began."""
    return [_step(row) for row in await session.rows("steps", job_id)]


def _step(row: Row) -> Step:
    return step_of(readable(row))
