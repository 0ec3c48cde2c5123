"""W3: workers are idle and one job comes each 50 ms. From before the submission to the start of the handler.

By turns with the floors, a few of each: what two bare commits and a word between two processes take at the same pace,
and on SQLite what one commit takes by the hands that have to be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from bench.ceilings.handover import handover, handover_once
from bench.environment import BenchEnvironment
from bench.measure import percentile
from bench.systems.registry import Candidate
from bench.systems.session import session
from bench.workloads.protocol import Reading, Target, at_most

_GAP_SECONDS: Final = 0.05
_WAIT_SECONDS: Final = 60.0
#: How many come before it is the floor's turn: few, since the disk changes by the second.
_TURN: Final = 10
_SHARES: Final = (("p50", 0.5), ("p99", 0.99))
TARGETS: Final[Mapping[tuple[str, str], tuple[Target, ...]]] = {
    ("sqlite", "p50"): (at_most(1),),
    ("sqlite", "p99"): (at_most(5),),
    ("postgres", "p50"): (at_most(2.5),),
    ("postgres", "p99"): (at_most(10),),
    ("http", "p99"): (at_most(15),),
}


class Start:
    name = "w3"
    title = "W3 submit to start"
    is_repeated = False

    def suits(self, candidate: Candidate) -> bool:
        return candidate.name != "sqlite-one"

    def measure(self, candidate: Candidate, env: BenchEnvironment) -> Iterator[Reading]:
        took: list[float] = []
        floor: list[float] = []
        once: list[float] = []
        with (
            session(candidate, env, "idle") as system,
            handover(candidate.store, env) as bare,
            handover_once(candidate.store, env) as bare_once,
        ):
            system.start_workers()
            system.warm_up()
            for first in range(0, env.sizes.singles, _TURN):
                count = min(_TURN, env.sizes.singles - first)
                submitted = system.ask("spaced", first=first, count=count, gap=_GAP_SECONDS)
                started = system.until_started(first, count, seconds=_WAIT_SECONDS)
                took += [(start - begun) * 1000 for begun, start in zip(submitted, started, strict=True)]
                if bare is not None:
                    floor += bare.measure(count, _GAP_SECONDS)
                if bare_once is not None:
                    once += bare_once.measure(count, _GAP_SECONDS)
        for what, share in _SHARES:
            yield Reading(what, percentile(took, share), "ms", TARGETS.get((candidate.name, what), ()))
        if once:
            for what, share in _SHARES:
                yield Reading(f"one bare commit, {what}", percentile(once, share), "ms")
        if floor:
            for what, share in _SHARES:
                yield Reading(f"the floor, {what}", percentile(floor, share), "ms")
            for what, share in _SHARES:
                yield Reading(f"{what} in floors", percentile(took, share) / percentile(floor, share), "x")
