"""Guarded steps, written under a fence that holds: the lease is kept locked until the end."""

from __future__ import annotations

from rota.core.identity import JobId
from rota.core.step import Resolution, Step
from rota.stores.mysql.driver import Connection, Runner
from rota.stores.mysql.statements import statement
from rota.stores.rows import step_of


async def intend(runner: Runner, job_id: JobId, fence: int, key: str, now: int) -> tuple[Step, bool] | None:
    """Write down the intent to perform a step, and say whether it is new."""
    parameters = {"id": job_id, "key": key, "fence": fence, "now": now}
    if not await runner.rows(statement("holds"), parameters):
        return None
    found = await runner.rows(statement("step"), parameters)
    if found:
        return step_of(found[0]), False
    await runner.run(statement("intend_step"), parameters)
    return step_of((await runner.rows(statement("step"), parameters))[0]), True


async def conclude(connection: Connection, job_id: JobId, fence: int, key: str, outcome: str, now: int) -> Step | None:
    """Write down that a step's effect happened."""
    parameters = {"id": job_id, "key": key, "fence": fence, "outcome": outcome, "now": now}
    if not await connection.rows(statement("holds"), parameters):
        return None
    await connection.run(statement("conclude_step"), parameters)
    return await look(connection, job_id, key)


async def perform(
    runner: Runner, job_id: JobId, fence: int, key: str, outcome: str, now: int
) -> tuple[Step, bool] | None:
    """Write down a step that happens in this very transaction: intent and outcome are one."""
    begun = await intend(runner, job_id, fence, key, now)
    if begun is None or not begun[1]:
        return begun
    await runner.run(statement("conclude_step"), {"id": job_id, "key": key, "outcome": outcome, "now": now})
    step = await look(runner, job_id, key)
    return None if step is None else (step, True)


async def look(runner: Runner, job_id: JobId, key: str) -> Step | None:
    """Give a step."""
    found = await runner.rows(statement("step"), {"id": job_id, "key": key})
    return step_of(found[0]) if found else None


async def withdraw(connection: Connection, job_id: JobId, fence: int, key: str, now: int) -> bool:  # noqa: ARG001
    """Forget the intent to perform a step."""
    parameters = {"id": job_id, "key": key, "fence": fence}
    if not await connection.rows(statement("holds"), parameters):
        return False
    return bool(await connection.run(statement("withdraw_step"), parameters))


async def resolve(connection: Connection, told: Resolution, now: int) -> bool:
    """Write down an operator's word about a step in doubt."""
    parameters = {"id": told.job_id, "key": told.key, "outcome": told.outcome, "now": now}
    if await connection.rows(statement("runs"), parameters):
        return False
    verb = "withdraw_step" if told.outcome is None else "conclude_step"
    return bool(await connection.run(statement(verb), parameters))


async def steps(connection: Connection, job_id: JobId) -> list[Step]:
    """Give a job's steps in the order in which they began."""
    return [step_of(row) for row in await connection.rows(statement("steps"), {"id": job_id})]
