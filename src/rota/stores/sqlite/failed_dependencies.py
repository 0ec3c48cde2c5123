"""Failed dependencies: what follows when jobs have failed, in the same transaction.

Jobs that were cancelled because a dependency failed have their `on_failure` job made, as dead jobs have. If a workflow
is to fail fast, its other jobs are cancelled. Both may make further jobs fail, so it goes on until none does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from rota.core.ids import JobId
from rota.core.settlement import Reason
from rota.core.submission import NewJob
from rota.stores.base.workflows import failure_follow_ups
from rota.stores.rows import ids_text
from rota.stores.sqlite.dependencies import release
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.statements import statement

#: Stores a job that Rota itself makes.
InsertMade = Callable[[SqliteConnection, NewJob, int], JobId]


def follow_failures(
    connection: SqliteConnection,
    dead: Collection[JobId],
    cancelled: Sequence[JobId],
    now: int,
    insert_made: InsertMade,
) -> None:
    """Carry out what follows from failures: of jobs that were settled so, and of jobs whose dependencies failed."""
    failed = [*dead, *cancelled]
    while failed:
        if cancelled:
            rows = connection.rows(statement("failure_templates"), (ids_text(cancelled),))
            for job in failure_follow_ups(rows, now):
                insert_made(connection, job, now)
        cancelled = failed = _fail_fast(connection, failed, now)


def _fail_fast(connection: SqliteConnection, failed: Sequence[JobId], now: int) -> list[JobId]:
    """Cancel the rest of workflows that fail fast; return the jobs whose dependencies failed thereby."""
    ids = [job_id for (job_id,) in connection.rows(statement("jobs_that_fail_fast"), (ids_text(failed),))]
    return release(connection, stop_jobs(connection, ids, Reason.WORKFLOW_FAILED, now), now)


def stop_jobs(connection: SqliteConnection, ids: Sequence[JobId], reason: Reason, now: int) -> list[JobId]:
    """Cancel jobs that wait, and request those that run to stop; return those that were cancelled."""
    cancelled: list[JobId] = []
    for job_id in ids:
        parameters = {"id": job_id, "now": now}
        connection.run(statement("request_stop"), parameters)
        if connection.run(statement("cancel_waiting_job"), {**parameters, "reason": reason.value}):
            cancelled.append(job_id)
    return cancelled
