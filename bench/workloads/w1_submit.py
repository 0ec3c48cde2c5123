"""W1: one client submits jobs one by one, each awaited; 256 at once, each awaiting its own; and in bulk.

A program without a loop may have another way to submit, which is measured too: on a file it commits on its own thread,
where a loop must not.

Whoever submits one by one takes turns with bare commits, some of each: the disk changes by the second, and a ratio to
what it was a minute ago says more about the disk than about us. On a file so does a floor of a loop: bare commits that
another thread does for it, which is the most that a loop can have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Final

from bench.ceilings import sqlite
from bench.ceilings.measure import bare_on
from bench.environment import BenchEnvironment
from bench.measure import TURN
from bench.systems.registry import Candidate
from bench.systems.session import Session, session
from bench.workloads.protocol import Reading, Target, at_least

ONE, PLAINLY, CROWD, BULK = "one by one", "one by one, without a loop", "256 callers", "in bulk"
ONE_BESIDE, PLAINLY_BESIDE = (f"{what}, beside bare commits in turn" for what in (ONE, PLAINLY))
LOOPS_FLOOR = "the floor of a loop, beside bare commits in turn"
CALLERS: Final = 256
TARGETS: Final[Mapping[tuple[str, str], tuple[Target, ...]]] = {
    ("sqlite", ONE_BESIDE): (at_least(0.75),),
    ("sqlite", PLAINLY_BESIDE): (at_least(0.75),),
    ("sqlite", CROWD): (at_least(0.25, "C2"),),
    ("sqlite", BULK): (at_least(0.6, "C2"),),
    ("postgres", ONE): (at_least(1, "pgqueuer"),),
    ("postgres", ONE_BESIDE): (at_least(0.75),),
    ("postgres", CROWD): (at_least(0.5, "C2"),),
    ("postgres", BULK): (at_least(0.6, "C2"), at_least(1, "pgqueuer")),
    ("mysql", BULK): (at_least(0.6, "C2"),),
}


class Submit:
    name = "w1"
    title = "W1 submit"
    is_repeated = True

    def suits(self, candidate: Candidate) -> bool:
        # Who works is of no account here, so the same client is not measured twice.
        return candidate.name not in {"sqlite-one", "redis"}

    def measure(self, candidate: Candidate, env: BenchEnvironment) -> Iterator[Reading]:
        jobs = env.sizes.jobs
        with session(candidate, env, "submit") as system:
            yield from self._one_by_one(candidate, env, system, "one_by_one", (ONE, ONE_BESIDE))
            if system.description.get("has_plain_way"):
                yield from self._one_by_one(candidate, env, system, "plainly", (PLAINLY, PLAINLY_BESIDE))
            if system.description["is_shared"]:
                took = system.ask("together", first=jobs, count=jobs, callers=CALLERS)
                yield self._reading(candidate, CROWD, jobs, took)
            if system.description["can_submit_many"]:
                yield self._reading(candidate, BULK, jobs, system.ask("in_bulk", first=2 * jobs, count=jobs))

    def _one_by_one(
        self, candidate: Candidate, env: BenchEnvironment, system: Session, way: str, names: tuple[str, str]
    ) -> Iterator[Reading]:
        jobs = env.sizes.jobs
        alone = max(jobs // 5, 1)
        name, beside = names
        spent = spent_bare = spent_handed = 0.0
        has_floor = (candidate.name, name) == ("sqlite", ONE)
        # Of all that are on the same store: whoever has to pause meanwhile finds the machine as cold.
        # The floor has a file of its own: each makes its log longer at first.
        with (
            bare_on(candidate.store, env) as bare,
            bare_on(candidate.store, env) if has_floor else nullcontext() as floor,
        ):
            system.ask(way, first=3 * jobs, count=20)
            for first in range(0, alone, TURN):
                count = min(TURN, alone - first)
                spent += system.ask(way, first=first, count=count)
                if bare is not None:
                    spent_bare += count / bare.single_commits(count)
                if isinstance(floor, sqlite.Bare):
                    spent_handed += count / floor.handed_commits(count)
        yield self._reading(candidate, name, alone, spent)
        if bare is not None:
            yield Reading(beside, spent_bare / spent, "x", TARGETS.get((candidate.name, beside), ()))
        if spent_handed:
            yield Reading(LOOPS_FLOOR, spent_bare / spent_handed, "x")

    def _reading(self, candidate: Candidate, what: str, jobs: int, seconds: float) -> Reading:
        return Reading(what, jobs / seconds, "/s", TARGETS.get((candidate.name, what), ()))
