"""Memory growth of a busy process: standalone under steady load, and the slope of its memory."""

from __future__ import annotations

import http.client
import json
import os
import time
from itertools import combinations
from pathlib import Path
from statistics import median

from journeys.system import System
from proofs.processes import server, states, submit

#: How often memory is read.
_EVERY_SECONDS = 5.0
#: How many jobs go first: SQLite's page cache grows with the database until it has 32 MB.
WARM_UP_JOBS = 80_000
#: How much of the time counts as warm-up besides.
_WARM_UP_SHARE = 0.2


def steady_load(system: System, *, seconds: float, rate: float = 25) -> str:
    """Submit jobs one by one at a rate to a standalone process, and see what it and its children hold meanwhile.

    Many jobs go first, which fill its caches. The slope is the median of the slopes of all pairs of readings after the
    warm-up (Theil and Sen): one page that is mapped late does not bend it. Anonymous memory is what the process has
    allocated; the rest are pages of files (the database's shared index grows with its log) that the kernel takes back
    when it needs them.
    """
    process = server(system, "--concurrency", "50", mode="standalone")
    submit(system, WARM_UP_JOBS, type="echo", payload={"to": "user@example.com"})
    system.until(lambda: states(system)["completed"], lambda completed: completed >= WARM_UP_JOBS, seconds=1200)
    connection = http.client.HTTPConnection("127.0.0.1", system.port, timeout=60)
    begun = read_at = time.monotonic()
    readings: list[tuple[float, float, float]] = []
    submitted = 0
    while (now := time.monotonic() - begun) < seconds:
        if time.monotonic() >= read_at:
            read_at += _EVERY_SECONDS
            readings.append((now, *_held(process.pid)))
            _show(system, readings[-1])
        body = json.dumps({"type": "echo", "payload": {"number": submitted, "to": "user@example.com"}})
        connection.request("POST", "/v1/jobs", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 201, answer.status
        submitted += 1
        time.sleep(max(0.0, begun + submitted / rate - time.monotonic()))
    warm = seconds * _WARM_UP_SHARE
    kept = [reading for reading in readings if reading[0] >= warm]
    slopes = [slope([(at, values[part]) for at, *values in kept]) * 3600 for part in range(2)]
    summary = (
        f"{submitted:,} jobs in {seconds:.0f} s; resident {readings[0][1]:.1f} MB at first, {kept[0][1]:.1f} after"
        f" {warm:.0f} s, {readings[-1][1]:.1f} at the end; from then on {slopes[0]:+.2f} MB/h resident,"
        f" {slopes[1]:+.2f} MB/h anonymous"
    )
    assert slopes[1] <= 0.5 or seconds < 3600, summary
    return summary


def slope(points: list[tuple[float, float]]) -> float:
    """Return the median slope of all pairs of points, in units per second."""
    return median((after - before) / (later - at) for (at, before), (later, after) in combinations(points, 2))


def _held(pid: int) -> tuple[float, float]:
    """Return what a process and its children hold, resident and anonymous, in MB."""
    pids = [pid, *_children(pid)]
    return sum(_status(one, "VmRSS") for one in pids) / 1e3, sum(_status(one, "RssAnon") for one in pids) / 1e3


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(child) for child in listed.split()]


def _status(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1.024
    return 0.0


def _show(system: System, reading: tuple[float, float, float]) -> None:
    path = os.environ.get("ROTA_MEMORY_READINGS", str(system.folder / "memory.txt"))
    with Path(path).open("a", encoding="ascii") as file:
        file.write("{:.1f} {:.2f} {:.2f}\n".format(*reading))
