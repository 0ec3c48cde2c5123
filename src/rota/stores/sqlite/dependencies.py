"""Dependencies: jobs that wait for others, unblocked or cancelled when those finish."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rota.core.ids import JobId
from rota.core.job import AGING_MICROS
from rota.core.lifecycle import State
from rota.core.settlement import Reason
from rota.core.submission import Dependency, Need
from rota.core.workflow import CANCELLING, DependencyStatus, dependency_status
from rota.stores.rows import ids_text, unique_dependencies
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.statements import statement


def link(connection: SqliteConnection, waits: Sequence[tuple[JobId, tuple[Dependency, ...]]], now: int) -> list[JobId]:
    """Store the dependencies of new blocked jobs; those on finished jobs are judged at once, as `release` does."""
    parents = set()
    for child, dependencies in waits:
        for parent, need, position in unique_dependencies(dependencies):
            connection.run(statement("insert_dependency"), (parent, child, need.value, position))
            parents.add(parent)
    return release(connection, sorted(parents), now) if parents else []


def release(connection: SqliteConnection, parents: Iterable[JobId], now: int) -> list[JobId]:
    """Judge the dependencies on finished jobs, and on the jobs that are cancelled thereby, and so on.

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
        finished = []
        for parent, child, need in dependencies:
            status = _status(need, *ends.get(parent, (None, None)))
            match status:
                case DependencyStatus.MET:
                    connection.run(statement("mark_dependency_met"), (parent, child))
                    connection.run(statement("unblock_job"), {"id": child, "now": now, "aging": AGING_MICROS})
                    connection.has_made_work = connection.has_set_times = True
                case DependencyStatus.FAILED | DependencyStatus.NOT_NEEDED:
                    connection.run(statement("mark_dependency_met"), (parent, child))
                    reason = CANCELLING[status]
                    parameters = {"id": child, "reason": reason.value, "now": now}
                    if connection.run(statement("cancel_blocked_job"), parameters):
                        finished.append(child)
                        if reason is Reason.DEPENDENCY_FAILED:
                            failed.append(child)
                case DependencyStatus.WAIT:
                    pass
    return failed


def _status(need: str, state: str | None, reason: str | None) -> DependencyStatus:
    why = None if reason is None else Reason(reason)
    return dependency_status(Need(need), None if state is None else State(state), reason=why)
