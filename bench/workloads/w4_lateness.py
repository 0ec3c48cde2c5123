"""W4: jobs are due one after the other within two seconds, three seconds from now. How late each starts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from bench.disk import beside, disk_beside
from bench.environment import BenchEnvironment
from bench.measure import percentile
from bench.systems.registry import Candidate
from bench.systems.session import session
from bench.workloads.protocol import Reading, at_most

_AHEAD_SECONDS: Final = 3.0
_WITHIN_SECONDS: Final = 2.0
_WAIT_SECONDS: Final = 75.0
_LIMITS: Final = {"p50": 2.0, "p99": 10.0}


class Lateness:
    name = "w4"
    title = "W4 lateness of scheduled jobs"
    is_repeated = False

    def suits(self, candidate: Candidate) -> bool:
        return candidate.name != "sqlite-one"

    def measure(self, candidate: Candidate, env: BenchEnvironment) -> Iterator[Reading]:
        count = env.sizes.singles
        with session(candidate, env, "idle") as system:
            if not system.description["can_submit_at"]:
                return
            system.start_workers()
            system.warm_up()
            offset = time.time() - time.monotonic()
            begin = time.time() + _AHEAD_SECONDS
            due = [begin + _WITHIN_SECONDS * number / count for number in range(count)]
            system.ask("at", first=0, whens=due)
            with disk_beside(env.folder) as syncs:
                started = system.until_started(0, count, seconds=_WAIT_SECONDS)
            late = [(start + offset - when) * 1000 for when, start in zip(due, started, strict=True)]
            for what, share in (("p50", 0.5), ("p99", 0.99)):
                targets = () if candidate.is_peer else (at_most(_LIMITS[what]),)
                yield Reading(what, percentile(late, share), "ms", targets)
            # One that starts before its time is worse than one that is late.
            yield Reading("earliest", min(late), "ms")
            yield from beside(late, syncs)
