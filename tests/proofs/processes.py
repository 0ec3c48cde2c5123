"""Helpers of the proofs: start processes, submit, count states, kill."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

from journeys.system import System


def server(system: System, *arguments: str, mode: str = "scheduler") -> subprocess.Popen[bytes]:
    """Start a process that serves the API on the system's port."""
    process = system.start(mode, "--port", str(system.port), "--db", str(system.folder / "rota.db"), *arguments)
    system.until_up()
    return process


def worker(system: System, name: str, *arguments: str, in_process: bool = False) -> subprocess.Popen[bytes]:
    """Start a worker over HTTP, or straight on the file, and wait until its first heartbeat is recorded."""
    where = ("--store", str(system.folder / "rota.db")) if in_process else ("--api-url", system.url)
    process = system.start("worker", "--worker-id", name, *where, *arguments)
    system.until(lambda: alive(system), lambda names: name in names)
    return process


def alive(system: System) -> set[str]:
    return {one["worker_id"] for one in system.ask("GET", "/v1/workers")["items"] if one["is_alive"]}


def submit(system: System, count: int, **fields: object) -> list[str]:
    """Submit many jobs, and return their ids."""
    ids: list[str] = []
    while len(ids) < count:
        batch = {"jobs": [fields] * min(count - len(ids), 1000)}
        ids += [item["id"] for item in system.ask("POST", "/v1/jobs:batch", batch)["items"]]
    return ids


def states(system: System) -> dict[str, int]:
    counted: dict[str, int] = system.ask("GET", "/v1/stats")["states"]
    return counted


def all_jobs(system: System, job_type: str) -> list[dict[str, Any]]:
    """Return every job of a type, page by page."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = system.ask("GET", f"/v1/jobs?type={job_type}&limit=500{cursor}")
        found += page["items"]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its group with SIGKILL."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
