"""Steps: side effects guarded by (job, key), written while the lease is locked and its fence holds."""

from __future__ import annotations

from rota.core.ids import JobId
from rota.core.step import Resolution, Step
from rota.stores.mysql.driver import MysqlConnection, Runner
from rota.stores.mysql.statements import statement
from rota.stores.rows import step_of


async def intend(runner: Runner, job_id: JobId, fence: int, key: str, now: int) -> tuple[Step, bool] | None:
    """Record the intent to perform a step; return it, and whether it is new. None if the fence no longer holds."""
    parameters = {"id": job_id, "key": key, "fence": fence, "now": now}
    if not await runner.rows(statement("lock_lease_with_fence"), parameters):
        return None
    found = await runner.rows(statement("step"), parameters)
    if found:
        return step_of(found[0]), False
    await runner.run(statement("intend_step"), parameters)
    return step_of((await runner.rows(statement("step"), parameters))[0]), True


async def conclude(
    connection: MysqlConnection, job_id: JobId, fence: int, key: str, outcome: str, now: int
) -> Step | None:
    """Record the outcome of a step. None if the fence no longer holds."""
    parameters = {"id": job_id, "key": key, "fence": fence, "outcome": outcome, "now": now}
    if not await connection.rows(statement("lock_lease_with_fence"), parameters):
        return None
    await connection.run(statement("conclude_step"), parameters)
    return await read(connection, job_id, key)


async def perform(
    runner: Runner, job_id: JobId, fence: int, key: str, outcome: str, now: int
) -> tuple[Step, bool] | None:
    """Record a step that happens in this transaction: intent and outcome at once."""
    begun = await intend(runner, job_id, fence, key, now)
    if begun is None or not begun[1]:
        return begun
    await runner.run(statement("conclude_step"), {"id": job_id, "key": key, "outcome": outcome, "now": now})
    step = await read(runner, job_id, key)
    return None if step is None else (step, True)


async def read(runner: Runner, job_id: JobId, key: str) -> Step | None:
    found = await runner.rows(statement("step"), {"id": job_id, "key": key})
    return step_of(found[0]) if found else None


async def withdraw(connection: MysqlConnection, job_id: JobId, fence: int, key: str, now: int) -> bool:  # noqa: ARG001
    """Delete the intent to perform a step."""
    parameters = {"id": job_id, "key": key, "fence": fence}
    if not await connection.rows(statement("lock_lease_with_fence"), parameters):
        return False
    return bool(await connection.run(statement("withdraw_step"), parameters))


async def resolve(connection: MysqlConnection, resolution: Resolution, now: int) -> bool:
    """Record an operator's decision about a step whose outcome is unknown."""
    parameters = {"id": resolution.job_id, "key": resolution.key, "outcome": resolution.outcome, "now": now}
    if await connection.rows(statement("is_running"), parameters):
        return False
    verb = "withdraw_step" if resolution.outcome is None else "conclude_step"
    return bool(await connection.run(statement(verb), parameters))


async def steps(connection: MysqlConnection, job_id: JobId) -> list[Step]:
    return [step_of(row) for row in await connection.rows(statement("steps"), {"id": job_id})]
