"""Workers that are stopped (SIGSTOP) until their leases lapse, and then continue.

Each round stops a worker that runs many jobs, lets another finish all of them, wakes the first, and waits until it has
been heard again. No job may have changed by then.
"""

from __future__ import annotations

import os
import signal

from journeys.system import System
from proofs.processes import all_jobs, server, states, submit, worker

JOBS_PER_ROUND = 20


def prove(system: System, *, trials: int, in_process: bool) -> str:
    server(system)
    changed = refused = 0
    for number in range(0, trials, JOBS_PER_ROUND):
        changed += _round(system, number, in_process=in_process)
        refused += JOBS_PER_ROUND
    where = "in process" if in_process else "over HTTP"
    assert changed == 0, f"{changed} of {refused} jobs changed {where}"
    return f"{where}: {refused} trials, {changed} state changes"


def _round(system: System, number: int, *, in_process: bool) -> int:
    quick = ("--lease", "1", "--concurrency", str(JOBS_PER_ROUND))
    first = worker(system, f"first-{number}", *quick, in_process=in_process)
    submit(system, JOBS_PER_ROUND, type="sleep", payload={"duration": 1.5}, tags=[f"round-{number}"])
    system.until(lambda: states(system)["running"], lambda running: running == JOBS_PER_ROUND)
    # Only now: what the first one holds must be what it is stopped with. Its lease keeper is stopped with it.
    os.killpg(first.pid, signal.SIGSTOP)
    second = worker(system, f"second-{number}", *quick, in_process=in_process)
    system.until(lambda: states(system)["completed"], lambda completed: completed >= number + JOBS_PER_ROUND)
    before = {job["id"]: job for job in all_jobs(system, "sleep")}
    assert {before[one]["worker_id"] for one in list(before)[:JOBS_PER_ROUND]} == {f"second-{number}"}
    second.send_signal(signal.SIGTERM)
    assert second.wait(40) == 0
    os.killpg(first.pid, signal.SIGCONT)
    # The first one is alone now: that it runs a new job shows that it goes on, and it has told all it had to tell
    # by the time it says goodbye.
    (probe,) = submit(system, 1, type="echo", payload=number)
    system.until(lambda: system.job(probe)["worker_id"], lambda name: name == f"first-{number}")
    first.send_signal(signal.SIGTERM)
    assert first.wait(40) == 0
    after = {job["id"]: job for job in all_jobs(system, "sleep")}
    return sum(before[one] != after[one] for one in before)
