"""Dependencies: jobs that wait for others, unblocked or cancelled when those finish."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rota.core.ids import JobId
from rota.core.job import AGING_MICROS
from rota.core.lifecycle import State
from rota.core.settlement import Reason
from rota.core.submission import Dependency, Need
from rota.core.workflow import CANCELLING, DependencyStatus, dependency_status
from rota.ports.store import Edge
from rota.stores.rows import edge_of, ids_text, unique_dependencies
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.statements import statement


def link(connection: SqliteConnection, waits: Sequence[tuple[JobId, tuple[Dependency, ...]]], now: int) -> None:
    """Store the dependencies of new blocked jobs; those on finished jobs are judged at once."""
    parents = set()
    for child, dependencies in waits:
        for parent, need, position in unique_dependencies(dependencies):
            connection.run(statement("insert_dependency"), (parent, child, need.value, position))
            parents.add(parent)
    if parents:
        release(connection, sorted(parents), now)


def release(connection: SqliteConnection, parents: Iterable[JobId], now: int) -> None:
    """Judge the dependencies on finished jobs, and on the jobs that are cancelled thereby, and so on."""
    finished = list(parents)
    skipped: set[JobId] = set()
    while finished:
        text = ids_text(finished)
        dependencies = connection.rows(statement("unmet_dependencies_on"), (text,))
        if not dependencies:
            return
        states: dict[JobId, str] = dict(connection.rows(statement("job_states"), (text,)))
        finished = []
        for parent, child, need in dependencies:
            state = states.get(parent)
            status = dependency_status(
                Need(need), None if state is None else State(state), is_skipped=parent in skipped
            )
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
                        if reason is Reason.NOT_NEEDED:
                            skipped.add(child)
                case DependencyStatus.WAIT:
                    pass


def parents_of(connection: SqliteConnection, children: Sequence[JobId]) -> list[Edge]:
    """Return the dependencies of some jobs."""
    return [edge_of(row) for row in connection.rows(statement("dependencies_of_children"), (ids_text(children),))]


def children_of(connection: SqliteConnection, parents: Sequence[JobId]) -> list[Edge]:
    """Return the dependencies on some jobs."""
    return [edge_of(row) for row in connection.rows(statement("dependencies_on_parents"), (ids_text(parents),))]
