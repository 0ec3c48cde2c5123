"""Dependencies between jobs: added with a blocked job, resolved when the job that it waits for ends.

Both lock the rows of the jobs that are waited for. So either the end of a job sees the new dependency, or the new
dependency sees the end.

When jobs have failed, more follows in the same transaction (`follow_failures`): jobs that were cancelled because a
dependency failed have their `on_failure` job made, as dead jobs have; and if a workflow is to fail fast, its other jobs
are cancelled. Both may make further jobs fail, so it goes on until none does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any

from rota.core.dependencies import CANCELLING, DependencyStatus, dependency_status
from rota.core.ids import JobId
from rota.core.job import turn_at
from rota.core.lifecycle import WAITING, State
from rota.core.settlement import Reason
from rota.core.submission import Dependency, Need, NewJob
from rota.stores.base.workflows import failure_follow_ups
from rota.stores.mysql.driver import Runner, chunks
from rota.stores.mysql.state_tables import Placement, lock_jobs, lock_ready, move_rows
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row, unique_dependencies


async def link_dependencies(
    connection: Runner, blocked: Sequence[tuple[JobId, tuple[Dependency, ...]]], now: int
) -> list[JobId]:
    """Store the dependencies of new blocked jobs; those on jobs that have already ended are resolved at once."""
    rows = sorted(
        (parent, child, need.value, position)
        for child, dependencies in blocked
        for parent, need, position in unique_dependencies(dependencies)
    )
    if not rows:
        return []
    await connection.many(statement("insert_dependency"), rows)
    return await resolve_dependents(connection, sorted({row[0] for row in rows}), now)


async def resolve_dependents(connection: Runner, parents: Iterable[JobId], now: int) -> list[JobId]:
    """Unblock or cancel the jobs that wait for ended jobs, and then those that wait for the cancelled ones.

    Return the jobs that were cancelled because a dependency failed.
    """
    ended = list(parents)
    states = {job_id: placement.state for job_id, placement in (await lock_jobs(connection, ended)).items()}
    ends = await _reasons(connection, [job_id for job_id, state in states.items() if state is State.CANCELLED])
    failed: list[JobId] = []
    while ended and (unmet := await _unmet_dependencies(connection, ended)):
        children = await lock_jobs(connection, list({child for _, child, _ in unmet}))
        after, met = dict(children), []
        reasons: dict[JobId, Reason] = {}
        for parent, child, need in unmet:
            decision = dependency_status(Need(need), states.get(parent), reason=ends.get(parent))
            if decision is not DependencyStatus.WAIT:
                met.append((parent, child))
                if child in after:
                    after[child] = _after_decision(after[child], decision, now)
                    if decision in CANCELLING:
                        reasons.setdefault(child, CANCELLING[decision])
        for chunk in chunks(met):
            connection.defer(statement("mark_dependencies_met"), {"pairs": chunk})
        ended = await _write(connection, children, after, reasons, now)
        states = dict.fromkeys(ended, State.CANCELLED)
        ends = reasons
        failed += [child for child in ended if reasons[child] is Reason.DEPENDENCY_FAILED]
    return failed


async def _reasons(connection: Runner, ids: Sequence[JobId]) -> dict[JobId, Reason]:
    """Return why cancelled jobs ended."""
    reasons: dict[JobId, Reason] = {}
    for chunk in chunks(sorted(ids)):
        rows = await connection.rows(statement("reasons_of_jobs"), {"ids": chunk})
        reasons.update((job_id, Reason(reason)) for job_id, reason in rows)
    return reasons


async def _unmet_dependencies(connection: Runner, parents: Sequence[JobId]) -> list[Row]:
    rows: list[Row] = []
    for chunk in chunks(sorted(parents)):
        rows += await connection.rows(statement("unmet_dependencies"), {"ids": chunk})
    return rows


def _after_decision(child: Placement, decision: DependencyStatus, now: int) -> Placement:
    if child.state is not State.BLOCKED:
        return child
    if decision in CANCELLING:
        return replace(child, state=State.CANCELLED, finished_at=now)
    if child.blockers > 1:
        return replace(child, blockers=child.blockers - 1)
    # With the last dependency met the job becomes due, now or at its own time, whichever is later.
    run_at = max(child.run_at, now)
    state = State.SCHEDULED if run_at > now else State.PENDING
    return replace(child, state=state, blockers=0, run_at=run_at, turn=turn_at(run_at, child.priority))


async def _write(
    connection: Runner,
    before: dict[JobId, Placement],
    after: dict[JobId, Placement],
    reasons: dict[JobId, Reason],
    now: int,
) -> list[JobId]:
    """Write the new state of jobs that waited, and return those that were cancelled."""
    changed = [job_id for job_id, placement in after.items() if placement != before[job_id]]
    cancelled = [job_id for job_id in changed if after[job_id].state is State.CANCELLED]
    for reason in CANCELLING.values():
        for chunk in chunks([job_id for job_id in cancelled if reasons[job_id] is reason]):
            connection.defer(statement("cancel_dependents"), {"ids": chunk, "reason": reason.value, "now": now})
    others = [after[job_id] for job_id in changed if after[job_id].state is not State.CANCELLED]
    if others:
        rows = [(one.state.value, one.blockers, one.turn, one.run_at, now, one.id) for one in others]
        await connection.update_each(statement("update_blocked_job"), rows)
    moved = [job_id for job_id in changed if after[job_id].state is not before[job_id].state]
    await move_rows(connection, [before[job_id] for job_id in moved], [after[job_id] for job_id in moved])
    return cancelled


#: Inserts jobs that Rota itself makes.
InsertSystemJobs = Callable[[Runner, Sequence[NewJob], int], Coroutine[Any, Any, list[JobId]]]


async def follow_failures(
    connection: Runner,
    dead: Collection[JobId],
    cancelled: Sequence[JobId],
    now: int,
    insert_system_jobs: InsertSystemJobs,
) -> None:
    """Carry out what follows from failures: of jobs that were settled so, and of jobs whose dependencies failed."""
    failed = [*dead, *cancelled]
    while failed:
        if cancelled:
            rows = await _rows(connection, "failure_templates", cancelled)
            await insert_system_jobs(connection, failure_follow_ups(rows, now), now)
        others = [job_id for (job_id,) in await _rows(connection, "jobs_that_fail_fast", failed)]
        ended = await stop_jobs(connection, others, Reason.WORKFLOW_FAILED, now)
        cancelled = failed = await resolve_dependents(connection, ended, now)


async def _rows(connection: Runner, name: str, ids: Sequence[JobId]) -> list[Row]:
    rows: list[Row] = []
    for chunk in chunks(sorted(ids)):
        rows += await connection.rows(statement(name), {"ids": chunk})
    return rows


async def stop_jobs(connection: Runner, ids: Iterable[JobId], reason: Reason, now: int) -> list[JobId]:
    """Cancel jobs that wait, and ask those that run to stop; return those that were cancelled."""
    ordered = sorted(set(ids))
    if not ordered:
        return []
    waiting = [one for one in (await lock_jobs(connection, ordered)).values() if one.state in WAITING]
    unclaimed = await lock_ready(connection, [one for one in waiting if one.state is State.PENDING])
    stopped = [one for one in waiting if one.state is not State.PENDING or one.id in unclaimed]
    cancelled = [one.id for one in stopped]
    for chunk in chunks(cancelled):
        connection.defer(statement("cancel_dependents"), {"ids": chunk, "reason": reason.value, "now": now})
    await move_rows(connection, stopped, [replace(one, state=State.CANCELLED, finished_at=now) for one in stopped])
    # Those that were claimed meanwhile run now.
    for chunk in chunks(sorted(set(ordered).difference(cancelled))):
        await connection.run(statement("request_cancel_each"), {"keys": json.dumps(chunk), "now": now})
    return cancelled
