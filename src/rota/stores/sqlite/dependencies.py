"""Dependencies: jobs that wait for others, unblocked or cancelled when those finish.

When jobs have failed, more follows in the same transaction (`follow_failures`): jobs that were cancelled because a
dependency failed have their `on_failure` job made, as dead jobs have; and if a workflow is to fail fast, its other jobs
are cancelled. Both may make further jobs fail, so it goes on until none does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from rota.core.dependencies import CANCELLING, DependencyStatus, dependency_status
from rota.core.ids import JobId
from rota.core.job import AGING_MICROS
from rota.core.lifecycle import State
from rota.core.settlement import Reason
from rota.core.submission import Dependency, Need, NewJob
from rota.stores.base.workflows import failure_follow_ups
from rota.stores.rows import ids_text, unique_dependencies
from rota.stores.sqlite.driver import SqliteConnection, run_for_rows
from rota.stores.sqlite.statements import statement


def link(connection: SqliteConnection, waits: Sequence[tuple[JobId, tuple[Dependency, ...]]], now: int) -> list[JobId]:
    """Store the dependencies of new blocked jobs; those on finished jobs are resolved at once, as by `release`."""
    parents = set()
    for child, dependencies in waits:
        for parent, need, position in unique_dependencies(dependencies):
            connection.run(statement("insert_dependency"), (parent, child, need.value, position))
            parents.add(parent)
    return release(connection, sorted(parents), now) if parents else []


def release(connection: SqliteConnection, parents: Iterable[JobId], now: int) -> list[JobId]:
    """Resolve the dependencies on finished jobs, and on the jobs that are cancelled by that, recursively.

    Return the jobs that were cancelled because a dependency failed.
    """
    finished = list(parents)
    failed: list[JobId] = []
    while finished:
        text = ids_text(finished)
        dependencies = connection.rows(statement("unmet_dependencies_on"), (text,))
        if not dependencies:
            break
        ends = {job_id: (state, reason) for job_id, state, reason in connection.rows(statement("job_ends"), (text,))}
        statuses = [
            (parent, child, _status(need, *ends.get(parent, (None, None)))) for parent, child, need in dependencies
        ]
        over = [(parent, child) for parent, child, status in statuses if status is not DependencyStatus.WAIT]
        run_for_rows(connection, statement("mark_dependencies_met"), over)
        # Reversed: if several parents rule a child out, the first gives the reason.
        cancelled = {child: CANCELLING[status] for _, child, status in reversed(statuses) if status in CANCELLING}
        met = Counter(
            child for _, child, status in statuses if status is DependencyStatus.MET and child not in cancelled
        )
        _unblock(connection, met, now)
        finished = [child for child, reason in cancelled.items() if _cancel_blocked(connection, child, reason, now)]
        failed += [child for child in finished if cancelled[child] is Reason.DEPENDENCY_FAILED]
    return failed


def _unblock(connection: SqliteConnection, met: Mapping[JobId, int], now: int) -> None:
    """Reduce the number of blockers of each job by the number of its dependencies that are met."""
    if met:
        run_for_rows(
            connection, statement("unblock_jobs"), list(met.items()), before=(now, now, AGING_MICROS, now, now)
        )
        connection.has_made_work = connection.has_set_times = True


def _cancel_blocked(connection: SqliteConnection, child: JobId, reason: Reason, now: int) -> bool:
    parameters = {"id": child, "reason": reason.value, "now": now}
    return bool(connection.run(statement("cancel_blocked_job"), parameters))


def _status(need: str, state: str | None, reason: str | None) -> DependencyStatus:
    why = None if reason is None else Reason(reason)
    return dependency_status(Need(need), None if state is None else State(state), reason=why)


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
    """Cancel the rest of workflows that fail fast; return the jobs whose dependencies failed because of that."""
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
