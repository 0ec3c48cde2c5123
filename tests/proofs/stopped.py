"""Workers that are stopped past their leases, and then go on as if nothing had happened.

Each round stops a worker that runs many jobs, lets another finish all of them, wakes the first, and waits until it has
been heard again. No job may have changed by then.
"""

from __future__ import annotations

import os
import signal

from journeys.stage import Stage
from proofs.cast import all_jobs, server, states, submit, worker

JOBS_PER_ROUND = 20


def prove(stage: Stage, *, trials: int, in_process: bool) -> str:
    server(stage)
    changed = refused = 0
    for number in range(0, trials, JOBS_PER_ROUND):
        changed += _round(stage, number, in_process=in_process)
        refused += JOBS_PER_ROUND
    where = "in process" if in_process else "over HTTP"
    assert changed == 0, f"{changed} of {refused} jobs changed {where}"
    return f"{where}: {refused} trials, {changed} state changes"


def _round(stage: Stage, number: int, *, in_process: bool) -> int:
    quick = ("--lease", "1", "--concurrency", str(JOBS_PER_ROUND))
    first = worker(stage, f"first-{number}", *quick, in_process=in_process)
    submit(stage, JOBS_PER_ROUND, type="sleep", payload={"duration": 1.5}, tags=[f"round-{number}"])
    stage.until(lambda: states(stage)["running"], lambda running: running == JOBS_PER_ROUND)
    # Only now: what the first one holds must be what it is stopped with. Its lease keeper is stopped with it.
    os.killpg(first.pid, signal.SIGSTOP)
    second = worker(stage, f"second-{number}", *quick, in_process=in_process)
    stage.until(lambda: states(stage)["completed"], lambda completed: completed >= number + JOBS_PER_ROUND)
    before = {job["id"]: job for job in all_jobs(stage, "sleep")}
    assert {before[one]["worker_id"] for one in list(before)[:JOBS_PER_ROUND]} == {f"second-{number}"}
    second.send_signal(signal.SIGTERM)
    assert second.wait(40) == 0
    os.killpg(first.pid, signal.SIGCONT)
    # The first one is alone now: that it runs a new job shows that it goes on, and it has told all it had to tell
    # by the time it says goodbye.
    (probe,) = submit(stage, 1, type="echo", payload=number)
    stage.until(lambda: stage.job(probe)["worker_id"], lambda name: name == f"first-{number}")
    first.send_signal(signal.SIGTERM)
    assert first.wait(40) == 0
    after = {job["id"]: job for job in all_jobs(stage, "sleep")}
    return sum(before[one] != after[one] for one in before)
