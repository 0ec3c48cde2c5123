"""An operation on thousands of jobs survives the death of the scheduler that does it."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from journeys.system import System

COUNT = 10_000
BATCH = 1_000


def _claim_and_fail(system: System) -> int:
    """Claim what is due and let it fail for good; return how many jobs that were."""
    claim = {"worker_id": "ada", "boot_id": "boot", "max": BATCH}
    jobs: list[dict[str, Any]] = system.ask("POST", "/v1/leases:claim", claim)["jobs"]
    if jobs:
        error = {"kind": "OSError", "message": "disk full"}
        reports = [{"id": job["id"], "fence": job["fence"], "outcome": "failed", "error": error} for job in jobs]
        system.ask("POST", "/v1/leases:settle", {"reports": reports})
    return len(jobs)


def _dead_fences(system: System) -> list[int]:
    """Read how often each dead job was claimed."""
    fences: list[int] = []
    cursor = ""
    while True:
        page = system.ask("GET", f"/v1/jobs?status=dead&limit=500{cursor}")
        fences += [job["fence"] for job in page["items"]]
        if page["next_cursor"] is None:
            return fences
        cursor = f"&cursor={page['next_cursor']}"


def _start(system: System) -> int:
    """Start a process that is scheduler and API."""
    process = system.start("scheduler", "--port", str(system.port), "--store", system.store)
    system.until_up()
    return process.pid


@pytest.mark.parametrize("system", ["sqlite", "postgres"], indirect=True)
def test_a_replay_whose_process_is_killed_is_resumed_and_retries_each_job_once(system: System) -> None:
    pid = _start(system)
    for _ in range(COUNT // BATCH):
        jobs = [{"type": "mail", "max_attempts": 1}] * BATCH
        assert system.ask("POST", "/v1/jobs:batch", {"jobs": jobs})["created"] == BATCH
    while _claim_and_fail(system):
        pass
    assert _dead_fences(system) == [1] * COUNT
    made = system.ask("POST", "/v1/operations", {"action": "retry", "q": "status:dead", "arguments": {"rate": 4_000}})
    path = f"/v1/operations/{made['id']}"
    system.until(lambda: system.ask("GET", path)["done"], lambda done: done > 0)
    os.kill(pid, signal.SIGKILL)
    _start(system)
    seen = system.ask("GET", path)
    assert 0 < seen["done"] < COUNT, "it was killed in the midst"

    def fail_again() -> str:
        # Retried jobs die again at once: a second retry of the same job would show as a third claim.
        _claim_and_fail(system)
        return str(system.ask("GET", path)["state"])

    system.until(fail_again, lambda state: state == "completed", seconds=120)
    while _claim_and_fail(system):
        pass
    ended = system.ask("GET", path)
    assert (ended["done"], ended["refused"]) == (COUNT, 0)
    assert _dead_fences(system) == [2] * COUNT
