"""Waits between jobs: tying them, and letting go when a job ends.

A child that is stored while its parent ends must not be overlooked by both. So whoever ties a child first marks and
holds the parent's row, and only then asks for its state; whoever ends a job first takes its row away, and only then
looks who waits for it. One of the two comes second and sees what the first has done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rota.core.identity import JobId
from rota.core.job import AGING_MICROS
from rota.core.lifecycle import FINISHED, State
from rota.core.settlement import Reason
from rota.core.submission import Dependency, Need
from rota.core.workflow import Verdict, judge
from rota.stores.postgres.statements import Runner


async def link(session: Runner, waits: Sequence[tuple[JobId, tuple[Dependency, ...]]], now: int) -> None:
    """Tie new blocked jobs to what they wait for; what has already ended lets go at once."""
    rows = [
        (dependency.on, child, dependency.need.value)
        for child, dependencies in waits
        # Named twice, the stricter need counts.
        for dependency in sorted(dependencies, key=lambda one: one.need is not Need.SUCCESS)
    ]
    if not rows:
        return
    parents, children, needs = zip(*rows, strict=True)
    await session.run("put_dependencies", parents, children, needs)
    await _hold(session, sorted(set(parents)))
    await release(session, sorted(set(parents)), now)


async def _hold(session: Runner, parents: Sequence[JobId]) -> None:
    """Mark and hold all parents that have not ended."""
    held: set[JobId] = set()
    while True:
        held.update(await session.values("await_parents", [parent for parent in parents if parent not in held]))
        states: dict[JobId, str] = dict(await session.rows("states", parents))
        # One may have been sent back to work between the two looks, and must be held too.
        if all(parent in held or State(state) in FINISHED for parent, state in states.items()):
            return


async def release(session: Runner, parents: Iterable[JobId], now: int) -> None:
    """Judge every wait for these jobs, and those for the jobs that are cancelled thereby, to the last generation."""
    ended = sorted(parents)
    while ended:
        waiters = await session.rows("waiters", ended)
        if not waiters:
            return
        states: dict[JobId, str] = dict(await session.rows("states", ended))
        verdicts = [
            (parent, child, judge(Need(need), State(states[parent]) if parent in states else None))
            for parent, child, need in waiters
        ]
        over = [(parent, child) for parent, child, verdict in verdicts if verdict is not Verdict.WAIT]
        if not over:
            return
        await session.run("meet", [parent for parent, _ in over], [child for _, child in over])
        failed = sorted({child for _, child, verdict in verdicts if verdict is Verdict.FAILED})
        met = Counter(child for _, child, verdict in verdicts if verdict is Verdict.MET and child not in failed)
        await _unblock(session, met, now)
        ended = await withdraw(session, failed, (State.BLOCKED,), Reason.DEPENDENCY_FAILED, now)


async def _unblock(session: Runner, waits: Counter[JobId], now: int) -> None:
    if waits:
        children = sorted(waits)
        counts = [waits[child] for child in children]
        await session.run("unblock", now, AGING_MICROS, children, counts, State.BLOCKED.value)


async def withdraw(
    session: Runner, ids: Sequence[JobId], states: Iterable[State], reason: Reason, now: int
) -> list[JobId]:
    """Cancel jobs that wait in one of some states, and give those that did."""
    if not ids:
        return []
    return await session.values("withdraw", now, sorted(ids), [state.value for state in states], reason.value)
