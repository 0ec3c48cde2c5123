"""Steps: side effects guarded by (job, key), written only under a fence that holds."""

from __future__ import annotations

from rota.core.ids import JobId
from rota.core.step import Resolution, Step
from rota.stores.rows import step_of
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.statements import statement


def intend(connection: SqliteConnection, job_id: JobId, fence: int, key: str, now: int) -> tuple[Step, bool] | None:
    """Record the intent to perform a step, and return whether it is new."""
    if not connection.rows(statement("is_running_under_fence"), (job_id, fence)):
        return None
    parameters = {"job_id": job_id, "key": key, "fence": fence, "now": now}
    is_new = bool(connection.run(statement("insert_step"), parameters))
    return step_of(connection.rows(statement("step_by_key"), (job_id, key))[0]), is_new


def conclude(connection: SqliteConnection, job_id: JobId, fence: int, key: str, outcome: str, now: int) -> Step | None:
    """Record the outcome of a step."""
    if not connection.rows(statement("is_running_under_fence"), (job_id, fence)):
        return None
    connection.run(statement("finish_step"), (now, outcome, job_id, key))
    return step(connection, job_id, key)


def perform(
    connection: SqliteConnection, job_id: JobId, fence: int, key: str, outcome: str, now: int
) -> tuple[Step, bool] | None:
    """Record a step that happens in this transaction: intent and outcome at once."""
    begun = intend(connection, job_id, fence, key, now)
    if begun is None or not begun[1]:
        return begun
    connection.run(statement("finish_step"), (now, outcome, job_id, key))
    finished = step(connection, job_id, key)
    return None if finished is None else (finished, True)


def step(connection: SqliteConnection, job_id: JobId, key: str) -> Step | None:
    rows = connection.rows(statement("step_by_key"), (job_id, key))
    return step_of(rows[0]) if rows else None


def withdraw(connection: SqliteConnection, job_id: JobId, fence: int, key: str) -> bool:
    """Delete the intent to perform a step that has no outcome."""
    if not connection.rows(statement("is_running_under_fence"), (job_id, fence)):
        return False
    return bool(connection.run(statement("delete_unfinished_step"), (job_id, key)))


def resolve(connection: SqliteConnection, resolution: Resolution, now: int) -> bool:
    """Apply an operator's decision about a step in doubt; refused while the job runs."""
    if connection.rows(statement("is_running"), (resolution.job_id,)):
        return False
    if resolution.outcome is None:
        return bool(connection.run(statement("delete_unfinished_step"), (resolution.job_id, resolution.key)))
    return bool(connection.run(statement("finish_step"), (now, resolution.outcome, resolution.job_id, resolution.key)))


def steps(connection: SqliteConnection, job_id: JobId) -> list[Step]:
    """Return a job's steps in the order in which they began."""
    return [step_of(row) for row in connection.rows(statement("steps_of_job"), (job_id,))]
