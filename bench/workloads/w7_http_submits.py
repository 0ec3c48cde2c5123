"""W7: one job per request over 64 connections to one API process, each durable when it is answered.

Beside two servers without a store: a bare handler on the same uvicorn, and our own API on a store that forgets.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from bench.drain import ROOT, start_api, system_for
from bench.fresh_stores import FreshStores
from bench.measure import Sample
from bench.workloads.results import Line, at_least, at_most
from journeys.system import System

CONNECTIONS: Final = 64
DURABLE: Final = "durable"
BARE: Final = "bare"
FORGETFUL: Final = "forgetful"


@dataclass(frozen=True, slots=True)
class Seen:
    rate: float
    p50: float
    p99: float


async def http_submits(fresh_stores: FreshStores, *, seconds: float, rounds: int) -> list[Line]:
    """Measure the three servers in turn; only one of them runs at a time."""
    seen: dict[str, list[Seen]] = {BARE: [], FORGETFUL: [], DURABLE: []}
    for _ in range(rounds):
        for kind, found in seen.items():
            url = await fresh_stores.fresh()
            async with system_for(url) as system, _serving(system, kind):
                await _load(system.port, min(seconds, 1.0))
                found.append(await _load(system.port, seconds))
    rates = {kind: Sample(tuple(one.rate for one in found)) for kind, found in seen.items()}
    slow = {kind: Sample(tuple(one.p99 for one in found)).median for kind, found in seen.items()}
    figures = {
        kind: f"{sample.median:,.0f}/s ({sample.spread}), p99 {slow[kind]:.1f} ms" for kind, sample in rates.items()
    }
    ours = rates[DURABLE].median
    return [
        Line("uvicorn, bare handler, no store", figures[BARE]),
        Line("our API, a store that forgets", figures[FORGETFUL], "bare", rates[FORGETFUL].median / rates[BARE].median),
        Line("our API, durable", figures[DURABLE], "bare", ours / rates[BARE].median, at_least(0.6)),
        Line("", "", "our API that forgets", ours / rates[FORGETFUL].median, at_least(0.6)),
        Line("p99 of the durable submit", f"{slow[DURABLE]:.1f} ms", target=at_most(15, "ms"), judged=slow[DURABLE]),
    ]


@asynccontextmanager
async def _serving(system: System, kind: str) -> AsyncIterator[None]:
    if kind == DURABLE:
        await start_api(system)
        yield
        return
    server = subprocess.Popen(  # noqa: ASYNC220 - it is only started
        [sys.executable, "-m", "bench.http_baseline", kind, str(system.port)], cwd=ROOT, start_new_session=True
    )
    try:
        await asyncio.to_thread(system.until_up)
        yield
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


async def _load(port: int, seconds: float) -> Seen:
    """Send as fast as answers come, by wrk where there is one."""
    wrk = shutil.which("wrk")
    whole = max(round(seconds), 1)
    if wrk is None:
        command = [sys.executable, "-m", "bench.http_client", str(port), str(CONNECTIONS), str(whole)]
    else:
        url = f"http://127.0.0.1:{port}/v1/jobs"
        script = str(ROOT / "bench" / "submit.lua")
        command = [wrk, "-t1", f"-c{CONNECTIONS}", f"-d{whole}s", "-s", script, url]
    running = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    said, _ = await running.communicate()
    answer = json.loads(said.splitlines()[-1])
    assert not answer["errors"], f"{answer['errors']:.0f} requests failed"
    return Seen(answer["requests"] / answer["seconds"], answer["p50"], answer["p99"])
