"""Workers that are told to go, again and again, with all hands full: nothing is lost, no attempt is burnt."""

from __future__ import annotations

import random
import signal
import time

from journeys.stage import Stage
from proofs.cast import all_jobs, server, states, submit, worker


def prove(stage: Stage, *, times: int, in_process: bool = False) -> str:
    server(stage)
    submitted = 0
    longest = 0.0
    for number in range(times):
        submit(stage, 300, type="sleep", payload={"duration": 0.02})
        submitted += 300
        process = worker(stage, f"worker-{number}", in_process=in_process)
        stage.until(lambda: states(stage)["running"], bool)
        time.sleep(random.random() * 0.3)
        told_at = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(40) == 0
        longest = max(longest, time.monotonic() - told_at)
        assert states(stage)["running"] == 0, "a job was left to its lease"
    worker(stage, "last", "--concurrency", "50", in_process=in_process)
    stage.until(lambda: states(stage)["completed"], lambda completed: completed >= submitted, seconds=300)
    jobs = all_jobs(stage, "sleep")
    burnt = [job["id"] for job in jobs if job["attempts"] != 1 or job.get("crashes")]
    assert (len(jobs), burnt) == (submitted, []), f"{submitted - len(jobs)} lost, {len(burnt)} burnt"
    return f"{times} SIGTERMs, {submitted} jobs, 0 lost, 0 attempts burnt, slowest exit {longest:.2f} s"
