"""W3: workers are idle and one job comes each 50 ms. From before the submission to the start of the handler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from bench.disk import beside, disk_beside
from bench.ground import Ground
from bench.measure import percentile
from bench.systems.catalogue import Contender
from bench.systems.session import session
from bench.workloads.protocol import Reading, Target, at_most

_GAP_SECONDS: Final = 0.05
_WAIT_SECONDS: Final = 60.0
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

    def suits(self, contender: Contender) -> bool:
        return contender.name != "sqlite-one"

    def measure(self, contender: Contender, ground: Ground) -> Iterator[Reading]:
        count = ground.sizes.singles
        with session(contender, ground, "idle") as system:
            system.start_workers()
            system.warm_up()
            with disk_beside(ground.folder) as syncs:
                submitted = system.ask("spaced", first=0, count=count, gap=_GAP_SECONDS)
                started = system.until_started(0, count, seconds=_WAIT_SECONDS)
            took = [(start - begun) * 1000 for begun, start in zip(submitted, started, strict=True)]
            for what, share in (("p50", 0.5), ("p99", 0.99)):
                yield Reading(what, percentile(took, share), "ms", TARGETS.get((contender.name, what), ()))
            yield from beside(took, syncs)
