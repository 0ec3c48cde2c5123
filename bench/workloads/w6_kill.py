"""W6: 30 jobs of a second on a worker with 20 slots, which is killed with all its processes while they run; another
starts at once. How many run again, and how soon, with each system's default settings.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from bench.environment import BenchEnvironment
from bench.systems.registry import Candidate
from bench.systems.session import session
from bench.workloads.protocol import Reading, at_least, at_most

_JOBS: Final = 30
_SLOTS: Final = 20
_BUSY_SECONDS: Final = 20.0


class Kill:
    name = "w6"
    title = "W6 kill -9"
    is_repeated = False

    def suits(self, candidate: Candidate) -> bool:
        return candidate.name != "sqlite-one"

    def measure(self, candidate: Candidate, env: BenchEnvironment) -> Iterator[Reading]:
        start_times = env.start_times
        with session(candidate, env, "crash") as system:
            system.start_workers()
            system.warm_up()
            system.ask("sleeping", first=0, count=_JOBS)
            give_up_at = time.monotonic() + _BUSY_SECONDS
            while (
                len(start_times.notes("start")) < _SLOTS
                and not start_times.notes("end")
                and time.monotonic() < give_up_at
            ):
                time.sleep(0.005)
            system.kill_workers()
            killed_at = time.monotonic()
            ended = start_times.notes("end")
            held = [number for number in start_times.notes("start") if number not in ended]
            system.start_workers()
            while len(start_times.notes("end")) < _JOBS and time.monotonic() < killed_at + env.sizes.crash_seconds:
                time.sleep(0.1)
            starts = start_times.notes("start")
        later = [[at - killed_at for at in starts[number] if at > killed_at] for number in held]
        again = [min(times) for times in later if times]
        is_ours = not candidate.is_peer
        yield Reading("held when killed", len(held), "jobs")
        share = len(again) / len(held) if held else 1.0
        yield Reading("of these run again", share, "x", (at_least(1),) if is_ours else ())
        if again:
            yield Reading("the last of them after", max(again), "s", (at_most(20),) if is_ours else ())
        lost = _JOBS - len(start_times.notes("end"))
        yield Reading("never ended", lost, "jobs", (at_most(0),) if is_ours else ())
