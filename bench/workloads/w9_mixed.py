"""W9: submitting, running, reading and listing at once, for a while, at a modest rate.

Requests are sent at their times, whether or not earlier ones have been answered; a delay counts from the time at which
a request was due, so that a server which stands still is seen to. Each kind is first asked alone, at the same rate.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.drain import engine_on, system_for
from bench.fresh_stores import FreshStores
from bench.http_client import JOB, Connection
from bench.measure import percentile
from bench.workloads.results import Line, at_most, spread
from rota.core.job import Job
from rota.engine import Engine
from rota.ports.store import JobQuery

CLIENTS: Final = 16
#: Requests of each kind in a second.
RATES: Final = {"submit": 400, "read": 400, "list": 40}


@dataclass(slots=True)
class Load:
    """Sends requests of all kinds to one server, and notes how long they took."""

    port: int
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=1000))
    errors: int = 0

    def request(self, kind: str) -> tuple[str, str, bytes]:
        if kind == "submit":
            return "POST", "/v1/jobs", JOB.replace(b'"mail"', b'"echo"')
        if kind == "read":
            return "GET", f"/v1/jobs/{random.choice(self.recent)}", b""
        return "GET", "/v1/jobs?limit=50", b""

    async def run(self, seconds: float, *kinds: str) -> dict[str, list[float]]:
        """Send requests of some kinds for a while; gives milliseconds by kind."""
        times: dict[str, list[float]] = {kind: [] for kind in kinds}
        begun = time.perf_counter() + 0.1
        await asyncio.gather(
            *(
                self._client(kind, begun + number / RATES[kind], CLIENTS / RATES[kind], begun + seconds, times[kind])
                for kind in kinds
                for number in range(CLIENTS)
            )
        )
        return times

    async def _client(self, kind: str, due: float, every: float, until: float, times: list[float]) -> None:
        connection = await Connection.open(self.port)
        while due < until:
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            status, body = await connection.ask(*self.request(kind))
            times.append((time.perf_counter() - due) * 1000)
            self.errors += status >= 400
            if kind == "submit" and status == 201:
                self.recent.append(json.loads(body)["id"])
            due += every
        await connection.close()


async def mixed(fresh_stores: FreshStores, *, seconds: float) -> list[Line]:
    """Load a standalone process; how long jobs took comes from the store's own record."""
    url = await fresh_stores.fresh()
    async with system_for(url) as system:
        system.start("standalone", "--store", url, "--port", str(system.port), "--concurrency", "50")
        await asyncio.to_thread(system.until_up)
        load = Load(system.port)
        alone: dict[str, list[float]] = {}
        for kind in RATES:
            alone |= await load.run(max(seconds / 6, 1), kind)
        disk = await asyncio.to_thread(bare_syncs, system.folder)
        begun = time.time()
        together = await load.run(seconds, *RATES)
        disk += await asyncio.to_thread(bare_syncs, system.folder)
        async with engine_on(url) as engine:
            jobs = await _since(engine, begun)
    assert not load.errors, f"{load.errors} requests failed"
    bare = Line("a bare sync of the disk, before and after", spread(disk))
    return [bare, *_asked(alone, together), *_ran(jobs, len(together["submit"]))]


def bare_syncs(folder: Path, number: int = 200) -> list[float]:
    """Time what every commit waits for: without it a slow server cannot be distinguished from a slow disk."""
    times = []
    with (folder / "bare").open("wb", buffering=0) as file:
        for _ in range(number):
            file.write(b"x" * 8192)
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - begun) * 1000)
    return times


async def _since(engine: Engine, begun: float) -> list[Job]:
    """Return the jobs of the load, once all have ended."""
    found: list[Job] = []
    while True:
        page = await engine.find(JobQuery(limit=500, before=found[-1].id if found else None))
        found += [job for job in page if job.created_at.timestamp() >= begun]
        if not page or page[-1].created_at.timestamp() < begun:
            return found


def _asked(alone: dict[str, list[float]], together: dict[str, list[float]]) -> list[Line]:
    lines = []
    for kind, times in together.items():
        slow = percentile(times, 0.99)
        ratio = slow / percentile(alone[kind], 0.99)
        target = at_most(15, "ms") if kind == "submit" else None
        name = f"{kind}, {RATES[kind]}/s, of {len(times):,}"
        lines.append(Line(name, spread(times), f"alone: {spread(alone[kind])}; p99:", ratio, target, slow))
    return lines


def _ran(jobs: list[Job], submitted: int) -> list[Line]:
    def times(measure: Callable[[Job], float]) -> list[float]:
        return [measure(job) * 1000 for job in jobs if job.finished_at is not None and job.started_at is not None]

    begun = times(lambda job: (job.started_at - job.created_at).total_seconds() if job.started_at else 0)
    ended = times(lambda job: (job.finished_at - job.created_at).total_seconds() if job.finished_at else 0)
    slow = percentile(begun, 0.99)
    return [
        Line("submit to start", spread(begun), target=at_most(15, "ms"), judged=slow),
        Line("submit to end", spread(ended)),
        Line("jobs ended", f"{len(ended):,}", f"{submitted:,} submitted", len(ended) / submitted),
    ]
