"""Waits between jobs: tying them, and letting go when a job ends.

Both lock the rows of the jobs that are waited for: so either the end of a job sees the new wait, or the new wait sees
the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rota.core.identity import JobId
from rota.core.job import turn_at
from rota.core.lifecycle import State
from rota.core.submission import Dependency, Need
from rota.core.workflow import Verdict, judge
from rota.stores.mysql.driver import Runner, lists
from rota.stores.mysql.places import Standing, lock, shift
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row


async def link(connection: Runner, waits: Sequence[tuple[JobId, tuple[Dependency, ...]]], now: int) -> None:
    """Tie new blocked jobs to what they wait for; what has already ended lets go at once."""
    needs: dict[tuple[JobId, JobId], Need] = {}
    for child, dependencies in waits:
        # Named twice, the stricter need counts.
        for dependency in sorted(dependencies, key=lambda one: one.need is not Need.SUCCESS):
            needs.setdefault((dependency.on, child), dependency.need)
    if not needs:
        return
    rows = [(parent, child, need.value) for (parent, child), need in sorted(needs.items())]
    await connection.many(statement("put_dependency"), rows)
    parents = sorted({parent for parent, _ in needs})
    await release(connection, parents, now)


async def release(connection: Runner, parents: Iterable[JobId], now: int) -> None:
    """Judge every wait for these jobs, and those for the jobs that are cancelled thereby, to the last generation."""
    ended = list(parents)
    states = {job_id: standing.state for job_id, standing in (await lock(connection, ended)).items()}
    while ended and (waiters := await _waiters(connection, ended)):
        children = await lock(connection, list({child for _, child, _ in waiters}))
        after, met = dict(children), []
        for parent, child, need in waiters:
            verdict = judge(Need(need), states.get(parent))
            if verdict is not Verdict.WAIT:
                met.append((parent, child))
                if child in after:
                    after[child] = _judged(after[child], verdict, now)
        for some in lists(met):
            connection.defer(statement("meet"), {"waits": some})
        ended = await _write(connection, children, after, now)
        states = dict.fromkeys(ended, State.CANCELLED)


async def _waiters(connection: Runner, parents: Sequence[JobId]) -> list[Row]:
    found: list[Row] = []
    for some in lists(sorted(parents)):
        found += await connection.rows(statement("waiters"), {"ids": some})
    return found


def _judged(child: Standing, verdict: Verdict, now: int) -> Standing:
    """Say how a job stands after one of its waits is over."""
    if child.state is not State.BLOCKED:
        return child
    if verdict is Verdict.FAILED:
        return replace(child, state=State.CANCELLED, finished_at=now)
    if child.blockers > 1:
        return replace(child, blockers=child.blockers - 1)
    # With the last wait it becomes due, now or at its own time, whichever is later.
    run_at = max(child.run_at, now)
    state = State.SCHEDULED if run_at > now else State.PENDING
    return replace(child, state=state, blockers=0, run_at=run_at, turn=turn_at(run_at, child.priority))


async def _write(
    connection: Runner, before: dict[JobId, Standing], after: dict[JobId, Standing], now: int
) -> list[JobId]:
    """Write down what became of jobs that waited, and give those that were cancelled."""
    changed = [job_id for job_id, standing in after.items() if standing != before[job_id]]
    cancelled = [job_id for job_id in changed if after[job_id].state is State.CANCELLED]
    for some in lists(cancelled):
        connection.defer(statement("drop_waiter"), {"ids": some, "now": now})
    let_go = [after[job_id] for job_id in changed if after[job_id].state is not State.CANCELLED]
    if let_go:
        rows = [(one.state.value, one.blockers, one.turn, one.run_at, now, one.id) for one in let_go]
        await connection.each(statement("unblock"), rows)
    moved = [job_id for job_id in changed if after[job_id].state is not before[job_id].state]
    await shift(connection, [before[job_id] for job_id in moved], [after[job_id] for job_id in moved])
    return cancelled
