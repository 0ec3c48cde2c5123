"""Busy workers get SIGTERM again and again: no job is lost, and no attempt is used up."""

from __future__ import annotations

import random
import signal
import time

from journeys.system import System
from proofs.processes import all_jobs, server, states, submit, worker


def prove(system: System, *, times: int, in_process: bool = False) -> str:
    server(system)
    submitted = 0
    longest = 0.0
    for number in range(times):
        submit(system, 300, type="sleep", payload={"duration": 0.02})
        submitted += 300
        process = worker(system, f"worker-{number}", in_process=in_process)
        system.until(lambda: states(system)["running"], bool)
        time.sleep(random.random() * 0.3)
        told_at = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(40) == 0
        longest = max(longest, time.monotonic() - told_at)
        assert states(system)["running"] == 0, "a job was left to its lease"
    worker(system, "last", "--concurrency", "50", in_process=in_process)
    system.until(lambda: states(system)["completed"], lambda completed: completed >= submitted, seconds=300)
    jobs = all_jobs(system, "sleep")
    burnt = [job["id"] for job in jobs if job["attempts"] != 1 or job.get("crashes")]
    assert (len(jobs), burnt) == (submitted, []), f"{submitted - len(jobs)} lost, {len(burnt)} burnt"
    return f"{times} SIGTERMs, {submitted} jobs, 0 lost, 0 attempts burnt, slowest exit {longest:.2f} s"
