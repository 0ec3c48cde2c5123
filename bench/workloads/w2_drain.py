"""W2: jobs wait, then workers start. From the first handler's start until the store shows that every job has ended;
until the last start where the store shows nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Final

from bench.environment import BenchEnvironment
from bench.systems.processes import memory_of
from bench.systems.registry import Candidate
from bench.systems.session import Session, SystemFailed, session
from bench.workloads.protocol import Reading, Target, at_least

_DRAIN_SECONDS: Final = 300.0
_RECORD_SECONDS: Final = 60.0
TARGETS: Final[Mapping[str, tuple[Target, ...]]] = {
    "sqlite": (at_least(0.15, "C2"),),
    "sqlite-one": (at_least(0.15, "C2"),),
    "postgres": (at_least(0.3, "C2"), at_least(1, "graphile"), at_least(1.5, "pgqueuer")),
    "mysql": (at_least(8, "C1"),),
    "http": (at_least(0.5, "sqlite"),),
}


class Drain:
    name = "w2"
    title = "W2 drain a backlog"
    is_repeated = True

    def suits(self, candidate: Candidate) -> bool:  # noqa: ARG002 - everyone works
        return True

    def measure(self, candidate: Candidate, env: BenchEnvironment) -> Iterator[Reading]:
        jobs = env.sizes.jobs
        with session(candidate, env, "drain") as system:
            verb = "in_bulk" if system.description["can_submit_many"] else "one_by_one"
            system.ask(verb, first=0, count=jobs)
            system.start_workers()
            starts = system.until_started(0, jobs, seconds=_DRAIN_SECONDS)
            last = max(starts)
            ended = max(last, until_recorded(system, jobs))
            yield Reading("drain", jobs / (ended - min(starts)), "/s", TARGETS.get(candidate.name, ()))
            yield Reading("memory after", memory_of(system.worker_pids()).proportional, "MB")


def until_recorded(system: Session, jobs: int) -> float:
    """Wait until the store shows so many jobs as ended, and say when; 0 if it never shows any."""
    give_up_at = time.monotonic() + _RECORD_SECONDS
    while True:
        seen = system.ask("finished")
        if seen is None:
            return 0.0
        if seen >= jobs:
            return time.monotonic()
        if time.monotonic() > give_up_at:
            raise SystemFailed(f"{system.candidate.name}: {seen} of {jobs} jobs ended, by its own record")
        time.sleep(0.005)
