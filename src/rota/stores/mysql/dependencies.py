"""Dependencies between jobs: added with a blocked job, resolved when the job that it waits for ends.

Both lock the rows of the jobs that are waited for. So either the end of a job sees the new dependency, or the new
dependency sees the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rota.core.ids import JobId
from rota.core.job import turn_at
from rota.core.lifecycle import State
from rota.core.submission import Dependency, Need
from rota.core.workflow import DependencyStatus, dependency_status
from rota.stores.mysql.driver import Runner, chunks
from rota.stores.mysql.state_tables import Placement, lock_jobs, move_rows
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row


async def link_dependencies(
    connection: Runner, blocked: Sequence[tuple[JobId, tuple[Dependency, ...]]], now: int
) -> None:
    """Store the dependencies of new blocked jobs; those on jobs that have already ended are resolved at once."""
    needs: dict[tuple[JobId, JobId], Need] = {}
    for child, dependencies in blocked:
        # If a job is named twice, the stricter need counts.
        for dependency in sorted(dependencies, key=lambda one: one.need is not Need.SUCCESS):
            needs.setdefault((dependency.on, child), dependency.need)
    if not needs:
        return
    rows = [(parent, child, need.value) for (parent, child), need in sorted(needs.items())]
    await connection.many(statement("insert_dependency"), rows)
    await resolve_dependents(connection, sorted({parent for parent, _ in needs}), now)


async def resolve_dependents(connection: Runner, parents: Iterable[JobId], now: int) -> None:
    """Unblock or cancel the jobs that wait for ended jobs, and then those that wait for the cancelled ones."""
    ended = list(parents)
    states = {job_id: placement.state for job_id, placement in (await lock_jobs(connection, ended)).items()}
    while ended and (unmet := await _unmet_dependencies(connection, ended)):
        children = await lock_jobs(connection, list({child for _, child, _ in unmet}))
        after, met = dict(children), []
        for parent, child, need in unmet:
            verdict = dependency_status(Need(need), states.get(parent))
            if verdict is not DependencyStatus.WAIT:
                met.append((parent, child))
                if child in after:
                    after[child] = _after_verdict(after[child], verdict, now)
        for chunk in chunks(met):
            connection.defer(statement("mark_dependencies_met"), {"pairs": chunk})
        ended = await _write(connection, children, after, now)
        states = dict.fromkeys(ended, State.CANCELLED)


async def _unmet_dependencies(connection: Runner, parents: Sequence[JobId]) -> list[Row]:
    rows: list[Row] = []
    for chunk in chunks(sorted(parents)):
        rows += await connection.rows(statement("unmet_dependencies"), {"ids": chunk})
    return rows


def _after_verdict(child: Placement, verdict: DependencyStatus, now: int) -> Placement:
    if child.state is not State.BLOCKED:
        return child
    if verdict is DependencyStatus.FAILED:
        return replace(child, state=State.CANCELLED, finished_at=now)
    if child.blockers > 1:
        return replace(child, blockers=child.blockers - 1)
    # With the last dependency met the job becomes due, now or at its own time, whichever is later.
    run_at = max(child.run_at, now)
    state = State.SCHEDULED if run_at > now else State.PENDING
    return replace(child, state=state, blockers=0, run_at=run_at, turn=turn_at(run_at, child.priority))


async def _write(
    connection: Runner, before: dict[JobId, Placement], after: dict[JobId, Placement], now: int
) -> list[JobId]:
    """Write the new state of jobs that waited, and return those that were cancelled."""
    changed = [job_id for job_id, placement in after.items() if placement != before[job_id]]
    cancelled = [job_id for job_id in changed if after[job_id].state is State.CANCELLED]
    for chunk in chunks(cancelled):
        connection.defer(statement("cancel_dependents"), {"ids": chunk, "now": now})
    others = [after[job_id] for job_id in changed if after[job_id].state is not State.CANCELLED]
    if others:
        rows = [(one.state.value, one.blockers, one.turn, one.run_at, now, one.id) for one in others]
        await connection.update_each(statement("update_blocked_job"), rows)
    moved = [job_id for job_id in changed if after[job_id].state is not before[job_id].state]
    await move_rows(connection, [before[job_id] for job_id in moved], [after[job_id] for job_id in moved])
    return cancelled
