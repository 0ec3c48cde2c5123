"""Guarded steps, written under a fence that holds."""

from __future__ import annotations

from rota.core.identity import JobId
from rota.core.step import Resolution, Step
from rota.stores.rows import step_of
from rota.stores.sqlite.driver import Connection
from rota.stores.sqlite.statements import statement


def intend(connection: Connection, job_id: JobId, fence: int, key: str, now: int) -> tuple[Step, bool] | None:
    """Write down the intent to perform a step, and say whether it is new."""
    if not connection.rows(statement("holds"), (job_id, fence)):
        return None
    parameters = {"job_id": job_id, "key": key, "fence": fence, "now": now}
    is_new = bool(connection.run(statement("intend_step"), parameters))
    return step_of(connection.rows(statement("step"), (job_id, key))[0]), is_new


def conclude(connection: Connection, job_id: JobId, fence: int, key: str, outcome: str, now: int) -> Step | None:
    """Write down that a step's effect happened."""
    if not connection.rows(statement("holds"), (job_id, fence)):
        return None
    connection.run(statement("conclude_step"), (now, outcome, job_id, key))
    return look(connection, job_id, key)


def perform(
    connection: Connection, job_id: JobId, fence: int, key: str, outcome: str, now: int
) -> tuple[Step, bool] | None:
    """Write down a step that happens in this very transaction: intent and outcome are one."""
    begun = intend(connection, job_id, fence, key, now)
    if begun is None or not begun[1]:
        return begun
    connection.run(statement("conclude_step"), (now, outcome, job_id, key))
    step = look(connection, job_id, key)
    return None if step is None else (step, True)


def look(connection: Connection, job_id: JobId, key: str) -> Step | None:
    """Give a step."""
    found = connection.rows(statement("step"), (job_id, key))
    return step_of(found[0]) if found else None


def withdraw(connection: Connection, job_id: JobId, fence: int, key: str) -> bool:
    """Forget the intent to perform a step."""
    if not connection.rows(statement("holds"), (job_id, fence)):
        return False
    return bool(connection.run(statement("withdraw_step"), (job_id, key)))


def resolve(connection: Connection, told: Resolution, now: int) -> bool:
    """Write down an operator's word about a step in doubt."""
    if connection.rows(statement("runs"), (told.job_id,)):
        return False
    if told.outcome is None:
        return bool(connection.run(statement("withdraw_step"), (told.job_id, told.key)))
    return bool(connection.run(statement("conclude_step"), (now, told.outcome, told.job_id, told.key)))


def steps(connection: Connection, job_id: JobId) -> list[Step]:
    """Give a job's steps in the order in which they began."""
    return [step_of(row) for row in connection.rows(statement("steps"), (job_id,))]
