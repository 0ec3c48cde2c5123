"""Two schedulers and four workers on one file, schedules of every second; all processes are killed again and again.

Every fire time must have made exactly one job, and every such job must have run to its end.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise

from journeys.system import System
from proofs.processes import all_jobs, kill, server, worker

SCHEDULES = 3
#: The job type of the schedules only.
TICK = "demo"


def prove(system: System, *, seconds: float, every: float = 5.0, seed: int | None = None) -> str:
    seed = random.randrange(2**32) if seed is None else seed
    rng = random.Random(seed)
    second = System(system.folder, started=system.started)
    numbers = iter(range(10**6))
    starters: list[Callable[[], subprocess.Popen[bytes]]] = [
        lambda: server(system),
        lambda: server(second),
        *(lambda one=one: worker(one, f"worker-{next(numbers)}") for one in (system, system, second, second)),
    ]
    running = [start() for start in starters]
    tick(system)
    end, kills = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        number = rng.randrange(len(running))
        kill(running[number])
        kills += 1
        # One of the two servers always lives: a worker that is started while its server is away would only wait.
        running[number] = starters[number]()
        time.sleep(max(0.0, min(rng.uniform(0.5, 1.5) * every, end - time.monotonic())))
    fired = judge(system)
    return f"seed {seed}: {kills} kills in {seconds:.0f} s, {fired} occurrences, each exactly once"


def tick(system: System) -> None:
    """Let schedules fire every second."""
    for name in range(SCHEDULES):
        job = {"type": TICK, "payload": name}
        body = {"name": f"tick-{name}", "cron": "* * * * * *", "catch_up": "all", "job": job}
        system.ask("POST", "/v1/schedules", body)


def judge(system: System) -> int:
    """Stop the schedules, and see that every fire time made exactly one job, which ran to its end."""
    for one in system.ask("GET", "/v1/schedules")["items"]:
        system.ask("POST", f"/v1/schedules/{one['id']}/pause", {})
    system.until(
        lambda: [job["status"] for job in all_jobs(system, TICK)],
        lambda seen: set(seen) == {"completed"},
        seconds=90,
    )
    jobs = all_jobs(system, TICK)
    fired = 0
    for one in system.ask("GET", "/v1/schedules")["items"]:
        times = sorted(datetime.fromisoformat(job["fire_time"]) for job in jobs if job["schedule_id"] == one["id"])
        assert len(times) == len(set(times)), "a fire time made two jobs"
        gaps = [(before, after) for before, after in pairwise(times) if after - before != timedelta(seconds=1)]
        assert not gaps, f"fire times are missing between {gaps}"
        fired += len(times)
    return fired
