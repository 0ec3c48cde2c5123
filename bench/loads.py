"""The further workloads, W7 to W18: `make bench LOADS=w7,w10 STORES=sqlite,postgres`.

Each figure stands beside something measured in the same run. The servers are private and sync every commit; they share
the machine with the processes that are measured.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.fresh_stores import NAMES, FreshStores, open_fresh_stores
from bench.measure import describe_machine
from bench.workloads.results import Line, show
from bench.workloads.w7_http_submits import http_submits
from bench.workloads.w8_http_drain import http_drain
from bench.workloads.w9_mixed import mixed
from bench.workloads.w10_growth import ROUNDS, claim_growth
from bench.workloads.w10_held import held
from bench.workloads.w11_threads import sync_handlers
from bench.workloads.w12_processes import busy_handlers
from bench.workloads.w13_delayed import flat_memory
from bench.workloads.w14_same_second import same_second
from bench.workloads.w15_shared_file import shared_file
from bench.workloads.w16_secured_submits import secured_submits
from bench.workloads.w17_limits import limited
from bench.workloads.w18_workflows import workflows


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    jobs: int
    rounds: int
    seconds: float
    largest: int
    schedules: int


Run = Callable[[FreshStores, Sizes], Awaitable[list[Line]]]


@dataclass(frozen=True, slots=True)
class Workload:
    title: str
    run: Run
    stores: Sequence[str] = NAMES

    async def measured(self, at: FreshStores, sizes: Sizes) -> list[Line]:
        """Run it."""
        return await self.run(at, sizes)


WORKLOADS: Final = {
    "w7": Workload(
        "submits over HTTP, 64 connections",
        lambda at, size: http_submits(at, seconds=min(size.seconds, 10), rounds=size.rounds),
    ),
    "w8": Workload("workers over HTTP only", lambda at, size: http_drain(at, jobs=size.jobs, rounds=size.rounds)),
    "w9": Workload("submit, run, read and list at once", lambda at, size: mixed(at, seconds=size.seconds)),
    "w10": Workload(
        "claims as the store grows",
        lambda at, size: claim_growth(at, largest=size.largest, rounds=min(size.largest // 10, ROUNDS)),
    ),
    "w10-held": Workload(
        "an old transaction on PostgreSQL", lambda at, size: held(at, seconds=2 * size.seconds), ("postgres",)
    ),
    "w11": Workload("sync handlers on threads", lambda at, size: sync_handlers(at, jobs=size.jobs, rounds=size.rounds)),
    "w12": Workload(
        "handlers that compute, in processes",
        lambda at, size: busy_handlers(at, jobs=max(size.jobs // 20, 10), rounds=size.rounds),
    ),
    "w13": Workload(
        "memory with many delayed jobs",
        lambda at, size: flat_memory(at, jobs=size.largest, seconds=min(size.seconds, 10)),
    ),
    "w14": Workload("schedules due in the same second", lambda at, size: same_second(at, schedules=size.schedules)),
    "w15": Workload(
        "several processes on one file", lambda at, size: shared_file(at, seconds=size.seconds), ("sqlite",)
    ),
    "w16": Workload(
        "submits over HTTP with a scoped token, TLS and a namespace",
        lambda at, size: secured_submits(at, seconds=min(size.seconds, 10), rounds=size.rounds),
    ),
    "w17": Workload("limits", lambda at, size: limited(at, jobs=size.jobs, rounds=size.rounds)),
    "w18": Workload(
        "chains, and groups with a fan-in", lambda at, size: workflows(at, jobs=size.jobs, rounds=size.rounds)
    ),
}


def measure(names: Sequence[str], stores: Sequence[str], sizes: Sizes, folder: Path | None) -> None:
    """Run workloads on stores, and print what each found as soon as it is known."""
    for store in stores:
        for name in names:
            workload = WORKLOADS[name]
            if store not in workload.stores:
                continue
            with open_fresh_stores(store, folder) as at:
                print(f"\n{describe_machine(at.described)}")
                show(f"{name}: {workload.title}", asyncio.run(workload.measured(at, sizes)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="WORKLOAD", help=f"some of {', '.join(WORKLOADS)}; all without")
    parser.add_argument("--stores", default="sqlite", help=f"some of {', '.join(NAMES)}, parted by commas")
    parser.add_argument("--jobs", type=int, default=20_000, help="jobs in each drain")
    parser.add_argument("--rounds", type=int, default=3, help="how often each rate is measured")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long a load lasts; the longest, twice as long")
    parser.add_argument("--largest", type=int, default=1_000_000, help="jobs waiting, future and kept; 5000000 at most")
    parser.add_argument("--schedules", type=int, default=10_000, help="schedules due in the same second")
    parser.add_argument("--folder", type=Path, help="where files go; a real disk, not a tmpfs")
    answer = parser.parse_args()
    names = [name for word in answer.names for name in word.split(",")]
    for name in names:
        if name not in WORKLOADS:
            parser.error(f"no workload is called {name!r}; there are {', '.join(WORKLOADS)}")
    sizes = Sizes(answer.jobs, answer.rounds, answer.seconds, answer.largest, answer.schedules)
    measure(names or list(WORKLOADS), answer.stores.split(","), sizes, answer.folder)


if __name__ == "__main__":
    main()
