"""Dependencies between jobs: stored with the child, and resolved when the parent ends.

A child that is stored while its parent ends must not be missed by both transactions. So the child's transaction first
marks and locks the parent's row, and only then reads its state; the parent's settlement first deletes its row, and only
then reads the dependencies on it. One of the two comes second and sees what the first has done.

When jobs have failed, more follows in the same transaction (`follow_failures`): jobs that were cancelled because a
dependency failed have their `on_failure` job made, as dead jobs have; and if a workflow is to fail fast, its other jobs
are cancelled. Both may make further jobs fail, so it goes on until none does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from rota.core.dependencies import CANCELLING, DependencyStatus, dependency_status
from rota.core.ids import JobId
from rota.core.job import AGING_MICROS
from rota.core.lifecycle import FINISHED, WAITING, State
from rota.core.settlement import Reason
from rota.core.submission import Dependency, Need, NewJob
from rota.stores.base.workflows import failure_follow_ups
from rota.stores.postgres.statements import StatementRunner
from rota.stores.rows import unique_dependencies

#: The states and reasons of jobs that have ended.
Ends = Mapping[JobId, tuple[str, str | None]]


async def link(
    session: StatementRunner, waits: Sequence[tuple[JobId, tuple[Dependency, ...]]], now: int
) -> list[JobId]:
    """Store the dependencies of new blocked jobs; those on jobs that have already ended are resolved at once."""
    rows = [
        (parent, child, need.value, position)
        for child, dependencies in waits
        for parent, need, position in unique_dependencies(dependencies)
    ]
    if not rows:
        return []
    parents, children, needs, positions = zip(*rows, strict=True)
    await session.run("insert_dependencies", parents, children, needs, positions)
    await lock_parents(session, sorted(set(parents)))
    return await resolve(session, sorted(set(parents)), now)


async def lock_parents(session: StatementRunner, parents: Sequence[JobId]) -> None:
    """Mark and lock all parents that have not ended."""
    locked: set[JobId] = set()
    while True:
        locked.update(await session.values("lock_parents", [parent for parent in parents if parent not in locked]))
        states: dict[JobId, str] = dict(await session.rows("job_states", parents))
        # One may have been retried between the two statements, and must be locked too.
        if all(parent in locked or State(state) in FINISHED for parent, state in states.items()):
            return


async def resolve(
    session: StatementRunner, parents: Iterable[JobId], now: int, *, ends: Ends | None = None
) -> list[JobId]:
    """Resolve the dependencies on these jobs, and on the jobs that are cancelled by that, recursively.

    `ends` says how the jobs ended, if this transaction has ended them; otherwise it is read. Return the jobs that were
    cancelled because a dependency failed.
    """
    ended = sorted(parents)
    failed: list[JobId] = []
    while ended:
        unmet = await session.rows("unmet_dependencies", ended)
        if not unmet:
            break
        if ends is None:
            ends = {job_id: (state, reason) for job_id, state, reason in await session.rows("job_ends", ended)}
        decisions = [(parent, child, _status(need, *ends.get(parent, (None, None)))) for parent, child, need in unmet]
        over = [(parent, child) for parent, child, decision in decisions if decision is not DependencyStatus.WAIT]
        if not over:
            break
        # Reversed: if several parents rule a child out, the first gives the reason.
        cancelled = {
            child: CANCELLING[decision] for _, child, decision in reversed(decisions) if decision in CANCELLING
        }
        met = Counter(
            child for _, child, decision in decisions if decision is DependencyStatus.MET and child not in cancelled
        )
        await _meet(session, over, met, now)
        ended = []
        for reason in set(cancelled.values()):
            children = [child for child, why in cancelled.items() if why is reason]
            ended += await cancel_waiting(session, children, (State.BLOCKED,), reason, now)
        failed += [child for child in ended if cancelled[child] is Reason.DEPENDENCY_FAILED]
        ends = {child: (State.CANCELLED.value, cancelled[child].value) for child in ended}
    return failed


def _status(need: str, state: str | None, reason: str | None) -> DependencyStatus:
    why = None if reason is None else Reason(reason)
    return dependency_status(Need(need), None if state is None else State(state), reason=why)


async def _meet(session: StatementRunner, over: Sequence[tuple[JobId, JobId]], waits: Counter[JobId], now: int) -> None:
    children = sorted(waits)
    counts = [waits[child] for child in children]
    parents, followers = zip(*over, strict=True)
    await session.run("meet_dependencies", now, AGING_MICROS, parents, followers, children, counts, State.BLOCKED.value)


async def cancel_waiting(
    session: StatementRunner, ids: Sequence[JobId], states: Iterable[State], reason: Reason, now: int
) -> list[JobId]:
    """Cancel jobs that wait in one of some states, and return those that were cancelled."""
    if not ids:
        return []
    return await session.values("cancel_waiting", now, sorted(ids), [state.value for state in states], reason.value)


#: Stores jobs that Rota itself makes.
InsertMade = Callable[[StatementRunner, Sequence[NewJob], int], Coroutine[Any, Any, list[JobId]]]


async def follow_failures(
    session: StatementRunner,
    dead: Collection[JobId],
    cancelled: Sequence[JobId],
    now: int,
    insert_made: InsertMade,
) -> None:
    """Carry out what follows from failures: of jobs that were settled so, and of jobs whose dependencies failed."""
    failed = [*dead, *cancelled]
    while failed:
        if cancelled:
            rows = await session.rows("failure_templates", sorted(cancelled))
            await insert_made(session, failure_follow_ups(rows, now), now)
        others = await session.values("jobs_that_fail_fast", sorted(failed))
        ended = await stop_jobs(session, others, Reason.WORKFLOW_FAILED, now)
        cancelled = failed = await resolve(session, ended, now)


async def stop_jobs(session: StatementRunner, ids: Iterable[JobId], reason: Reason, now: int) -> list[JobId]:
    """Cancel jobs that wait, and request those that run to stop; return those that were cancelled.

    A job may be claimed, or be taken from its worker, between the two statements; hence the last one.
    """
    ordered = sorted(ids)
    if not ordered:
        return []
    cancelled = await cancel_waiting(session, ordered, WAITING, reason, now)
    left = sorted(set(ordered).difference(cancelled))
    if left:
        await session.run("request_cancel_any_fence", now, left)
        cancelled += await cancel_waiting(session, left, WAITING, reason, now)
    return cancelled
