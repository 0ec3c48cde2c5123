"""W1: one client submits jobs one by one, each awaited; 256 at once, each awaiting its own; and in bulk.

A program without a loop may have another way to submit, which is measured too: on a file it commits on its own thread,
where a loop must not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from bench.ground import Ground
from bench.systems.catalogue import Contender
from bench.systems.session import session
from bench.workloads.protocol import Reading, Target, at_least

ONE, PLAINLY, CROWD, BULK = "one by one", "one by one, without a loop", "256 callers", "in bulk"
CALLERS: Final = 256
TARGETS: Final[Mapping[tuple[str, str], tuple[Target, ...]]] = {
    ("sqlite", ONE): (at_least(0.75, "C1"),),
    ("sqlite", PLAINLY): (at_least(0.75, "C1"),),
    ("sqlite", CROWD): (at_least(0.25, "C2"),),
    ("sqlite", BULK): (at_least(0.6, "C2"),),
    ("postgres", ONE): (at_least(0.75, "C1"), at_least(1, "pgqueuer")),
    ("postgres", CROWD): (at_least(0.5, "C2"),),
    ("postgres", BULK): (at_least(0.6, "C2"), at_least(1, "pgqueuer")),
    ("mysql", BULK): (at_least(0.6, "C2"),),
}


class Submit:
    name = "w1"
    title = "W1 submit"
    is_repeated = True

    def suits(self, contender: Contender) -> bool:
        # Who works is of no account here, so the same client is not measured twice.
        return contender.name not in {"sqlite-one", "redis"}

    def measure(self, contender: Contender, ground: Ground) -> Iterator[Reading]:
        jobs = ground.sizes.jobs
        with session(contender, ground, "submit") as system:
            system.ask("one_by_one", first=3 * jobs, count=20)
            alone = max(jobs // 5, 1)
            yield self._reading(contender, ONE, alone, system.ask("one_by_one", first=0, count=alone))
            if system.description.get("has_plain_way"):
                system.ask("plainly", first=3 * jobs, count=20)
                took = system.ask("plainly", first=0, count=alone)
                yield self._reading(contender, PLAINLY, alone, took)
            if system.description["is_shared"]:
                took = system.ask("together", first=jobs, count=jobs, callers=CALLERS)
                yield self._reading(contender, CROWD, jobs, took)
            if system.description["can_submit_many"]:
                yield self._reading(contender, BULK, jobs, system.ask("in_bulk", first=2 * jobs, count=jobs))

    def _reading(self, contender: Contender, what: str, jobs: int, seconds: float) -> Reading:
        return Reading(what, jobs / seconds, "/s", TARGETS.get((contender.name, what), ()))
