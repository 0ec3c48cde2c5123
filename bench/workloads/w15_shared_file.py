"""W15: several processes on one SQLite file at a modest load: how long the slowest of all operations takes.

Each process submits, claims, settles, reads and lists ten times a second, on a store of its own. What each operation
took stands beside how long bare syncs of the same disk took meanwhile: who waits for a commit waits for that first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Final, TypeVar

from bench.disk import disk_beside
from bench.fresh_stores import FreshStores
from bench.workloads.results import Line, at_most, spread
from bench.workloads.w10_growth import claimed, new_job, settle
from rota.ports.store import JobQuery
from rota.runtime.store import open_store

PROCESSES: Final = 4
GAP_SECONDS: Final = 0.1
LONGEST: Final = at_most(50, "ms")
T = TypeVar("T")
Times = dict[str, list[float]]


async def shared_file(fresh_stores: FreshStores, *, seconds: float) -> list[Line]:
    """Start the processes, and return how long their operations took."""
    url = await fresh_stores.fresh()
    store = await open_store(url)
    program = [sys.executable, "-m", __spec__.name, url, str(seconds)]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with disk_beside(Path(url).parent) as syncs:
        processes = [
            await asyncio.create_subprocess_exec(*program, env=paths, stdout=asyncio.subprocess.PIPE)
            for _ in range(PROCESSES)
        ]
        answer = [json.loads((await process.communicate())[0]) for process in processes]
    await store.close()
    times: Times = {}
    for one in answer:
        for name, took in one.items():
            times.setdefault(name, []).extend(took)
    slowest, slowest_sync = max(map(max, times.values())), max(syncs)
    beside = f"a bare sync: {spread(syncs)}, at most {slowest_sync:.1f}"
    return [
        *(Line(f"{PROCESSES} processes: {name}", _shown(took)) for name, took in times.items()),
        Line("the slowest of all", f"{slowest:.1f} ms", beside, slowest / slowest_sync, LONGEST, judged=slowest),
    ]


def _shown(took: list[float]) -> str:
    return f"{spread(took)}, at most {max(took):.1f}, {len(took):,} times"


async def use(url: str, seconds: float) -> Times:
    """Do a little of everything, again and again, and note how many milliseconds each took."""
    times: Times = {}

    async def timed(name: str, act: Awaitable[T]) -> T:
        begun = time.perf_counter()
        answer = await act
        times.setdefault(name, []).append((time.perf_counter() - begun) * 1000)
        return answer

    store = await open_store(url)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        job = new_job()
        await timed("submit", store.insert([job]))
        leased = await timed("claim", claimed(store, 5))
        if leased:
            await timed("settle", settle(store, leased))
        await timed("read", store.get([job.id]))
        await timed("list", store.find(JobQuery(limit=50)))
        await asyncio.sleep(GAP_SECONDS)
    await store.close()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("seconds", type=float)
    answer = parser.parse_args()
    print(json.dumps(asyncio.run(use(answer.url, answer.seconds))))


if __name__ == "__main__":
    main()
