"""The processes of a proof, and what is asked of them again and again."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

from journeys.stage import Stage


def server(stage: Stage, *arguments: str, mode: str = "scheduler") -> subprocess.Popen[bytes]:
    """Start a process that serves the API on the stage's port."""
    process = stage.start(mode, "--port", str(stage.port), "--db", str(stage.folder / "rota.db"), *arguments)
    stage.until_up()
    return process


def worker(stage: Stage, name: str, *arguments: str, in_process: bool = False) -> subprocess.Popen[bytes]:
    """Start a worker over HTTP, or straight on the file, and wait until it is known to be alive."""
    where = ("--store", str(stage.folder / "rota.db")) if in_process else ("--api-url", stage.url)
    process = stage.start("worker", "--worker-id", name, *where, *arguments)
    stage.until(lambda: alive(stage), lambda names: name in names)
    return process


def alive(stage: Stage) -> set[str]:
    return {one["worker_id"] for one in stage.ask("GET", "/v1/workers")["items"] if one["is_alive"]}


def submit(stage: Stage, count: int, **fields: object) -> list[str]:
    """Submit many jobs, and give their ids."""
    ids: list[str] = []
    while len(ids) < count:
        batch = {"jobs": [fields] * min(count - len(ids), 1000)}
        ids += [item["id"] for item in stage.ask("POST", "/v1/jobs:batch", batch)["items"]]
    return ids


def states(stage: Stage) -> dict[str, int]:
    counted: dict[str, int] = stage.ask("GET", "/v1/stats")["states"]
    return counted


def all_jobs(stage: Stage, job_type: str) -> list[dict[str, Any]]:
    """Give every job of a type, page by page."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = stage.ask("GET", f"/v1/jobs?type={job_type}&limit=500{cursor}")
        found += page["items"]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that belong to it, without a word."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
