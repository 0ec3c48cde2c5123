"""Orders of operators to workers, in process and over HTTP, on every store."""

from __future__ import annotations

from typing import Any

import pytest

from journeys.system import SERVERS, System

on_every_store = pytest.mark.parametrize("system", ["sqlite", *SERVERS], indirect=True)


def _worker(system: System) -> dict[str, Any]:
    return dict(system.ask("GET", "/v1/workers/ada"))


@on_every_store
@pytest.mark.parametrize("way", ["api", "store"])
def test_a_worker_is_quiet_resumes_shows_its_stacks_and_stops(system: System, way: str) -> None:
    system.start("scheduler", "--port", str(system.port), "--db", system.store)
    system.until_up()
    source = ("--api-url", system.url) if way == "api" else ("--store", system.store)
    process = system.start("worker", "--worker-id", "ada", "--lease", "4s", *source)
    system.until(lambda: system.ask("GET", "/v1/workers")["items"], bool)
    job_id = system.ask("POST", "/jobs", {"type": "sleep", "payload": {"duration": 60}})["id"]
    system.until(lambda: _worker(system)["jobs"], lambda jobs: jobs == [job_id])
    assert _worker(system)["rss"] > 1_000_000

    system.ask("POST", "/v1/workers/ada/quiet")
    system.until(lambda: _worker(system)["is_quiet"], lambda is_quiet: is_quiet)
    waiting = system.ask("POST", "/jobs", {"type": "echo", "payload": 1})["id"]

    system.ask("POST", "/v1/workers/ada/stacks")
    stacks = system.until(lambda: _worker(system)["stacks"], bool)
    assert "thread MainThread" in stacks
    # By then it would have claimed the job: the answer came with a later heartbeat.
    assert system.job(waiting)["status"] in {"pending", "queued"}
    assert system.job(job_id)["status"] == "running"

    system.ask("POST", "/v1/workers/ada/resume")
    system.until(lambda: system.job(waiting)["status"], lambda status: status == "completed")

    system.ask("POST", f"/v1/jobs/{job_id}/cancel")
    system.ask("POST", "/v1/workers/ada/stop")
    assert process.wait(60) == 0
    actions = [one["action"] for one in system.ask("GET", "/v1/events")["items"]]
    assert [one for one in actions if one.startswith("workers.")] == [
        "workers.stop", "workers.resume", "workers.stacks", "workers.quiet",
    ]  # fmt: skip


def test_a_worker_that_was_killed_is_forgotten(system: System) -> None:
    system.start("scheduler", "--port", str(system.port), "--db", system.store)
    system.until_up()
    process = system.start("worker", "--worker-id", "ada", "--api-url", system.url)
    system.until(lambda: system.ask("GET", "/v1/workers")["items"], lambda workers: len(workers) == 1)
    process.kill()
    process.wait()
    system.until(lambda: _worker(system)["is_alive"], lambda is_alive: not is_alive)
    system.rota("workers", "forget", "ada")
    assert system.ask("GET", "/v1/workers?all=true")["items"] == []
