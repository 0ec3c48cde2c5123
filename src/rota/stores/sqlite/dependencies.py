"""Dependencies: jobs that wait for others, unblocked or cancelled when those finish."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rota.core.ids import JobId
from rota.core.job import AGING_MICROS
from rota.core.lifecycle import State
from rota.core.submission import Dependency, Need
from rota.core.workflow import DependencyStatus, dependency_status
from rota.stores.rows import ids_text
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.statements import statement


def link(connection: SqliteConnection, waits: Sequence[tuple[JobId, tuple[Dependency, ...]]], now: int) -> None:
    """Store the dependencies of new blocked jobs; those on finished jobs are judged at once."""
    parents = set()
    for child, dependencies in waits:
        # If a job is named twice, the stricter need counts.
        for dependency in sorted(dependencies, key=lambda one: one.need is not Need.SUCCESS):
            connection.run(statement("insert_dependency"), (dependency.on, child, dependency.need.value))
            parents.add(dependency.on)
    if parents:
        release(connection, sorted(parents), now)


def release(connection: SqliteConnection, parents: Iterable[JobId], now: int) -> None:
    """Judge the dependencies on finished jobs, and on the jobs that are cancelled thereby, and so on."""
    finished = list(parents)
    while finished:
        text = ids_text(finished)
        dependencies = connection.rows(statement("unmet_dependencies_on"), (text,))
        if not dependencies:
            return
        states: dict[JobId, str] = dict(connection.rows(statement("job_states"), (text,)))
        finished = []
        for parent, child, need in dependencies:
            state = states.get(parent)
            match dependency_status(Need(need), None if state is None else State(state)):
                case DependencyStatus.MET:
                    connection.run(statement("mark_dependency_met"), (parent, child))
                    connection.run(statement("unblock_job"), {"id": child, "now": now, "aging": AGING_MICROS})
                    connection.has_made_work = connection.has_set_times = True
                case DependencyStatus.FAILED:
                    connection.run(statement("mark_dependency_met"), (parent, child))
                    if connection.run(statement("cancel_blocked_job"), {"id": child, "now": now}):
                        finished.append(child)
                case DependencyStatus.WAIT:
                    pass
