"""Waits between jobs: tying them, and letting go when a job ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rota.core.identity import JobId
from rota.core.job import AGING_MICROS
from rota.core.lifecycle import State
from rota.core.submission import Dependency, Need
from rota.core.workflow import Verdict, judge
from rota.stores.rows import ids_text
from rota.stores.sqlite.driver import Connection
from rota.stores.sqlite.statements import statement


def link(connection: Connection, waits: Sequence[tuple[JobId, tuple[Dependency, ...]]], now: int) -> None:
    """Tie new blocked jobs to what they wait for; what has already ended lets go at once."""
    parents = set()
    for child, dependencies in waits:
        # Named twice, the stricter need counts.
        for dependency in sorted(dependencies, key=lambda one: one.need is not Need.SUCCESS):
            connection.run(statement("put_dependency"), (dependency.on, child, dependency.need.value))
            parents.add(dependency.on)
    if parents:
        release(connection, sorted(parents), now)


def release(connection: Connection, parents: Iterable[JobId], now: int) -> None:
    """Judge every wait for these jobs, and those for the jobs that are cancelled thereby, to the last generation."""
    ended = list(parents)
    while ended:
        text = ids_text(ended)
        waiters = connection.rows(statement("waiters"), (text,))
        if not waiters:
            return
        states: dict[JobId, str] = dict(connection.rows(statement("states"), (text,)))
        ended = []
        for parent, child, need in waiters:
            state = states.get(parent)
            match judge(Need(need), None if state is None else State(state)):
                case Verdict.MET:
                    connection.run(statement("meet"), (parent, child))
                    connection.run(statement("unblock"), {"id": child, "now": now, "aging": AGING_MICROS})
                    connection.has_made_work = connection.has_set_times = True
                case Verdict.FAILED:
                    connection.run(statement("meet"), (parent, child))
                    if connection.run(statement("drop_waiter"), {"id": child, "now": now}):
                        ended.append(child)
                case Verdict.WAIT:
                    pass
