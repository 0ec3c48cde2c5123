"""Operators tell workers what to do, in process and over HTTP, on every store."""

from __future__ import annotations

from typing import Any

import pytest

from journeys.stage import SERVERS, Stage

on_every_store = pytest.mark.parametrize("stage", ["sqlite", *SERVERS], indirect=True)


def _worker(stage: Stage) -> dict[str, Any]:
    return dict(stage.ask("GET", "/v1/workers/ada"))


@on_every_store
@pytest.mark.parametrize("way", ["api", "store"])
def test_a_worker_is_quiet_resumes_shows_its_stacks_and_stops(stage: Stage, way: str) -> None:
    stage.start("scheduler", "--port", str(stage.port), "--db", stage.store)
    stage.until_up()
    source = ("--api-url", stage.url) if way == "api" else ("--store", stage.store)
    process = stage.start("worker", "--worker-id", "ada", "--lease", "4s", *source)
    stage.until(lambda: stage.ask("GET", "/v1/workers")["items"], bool)
    job_id = stage.ask("POST", "/jobs", {"type": "sleep", "payload": {"duration": 60}})["id"]
    stage.until(lambda: _worker(stage)["jobs"], lambda jobs: jobs == [job_id])
    assert _worker(stage)["rss"] > 1_000_000

    stage.ask("POST", "/v1/workers/ada/quiet")
    stage.until(lambda: _worker(stage)["is_quiet"], lambda is_quiet: is_quiet)
    waiting = stage.ask("POST", "/jobs", {"type": "echo", "payload": 1})["id"]

    stage.ask("POST", "/v1/workers/ada/stacks")
    stacks = stage.until(lambda: _worker(stage)["stacks"], bool)
    assert "thread MainThread" in stacks
    # By then it would have claimed the job: the answer came with a later heartbeat.
    assert stage.job(waiting)["status"] in {"pending", "queued"}
    assert stage.job(job_id)["status"] == "running"

    stage.ask("POST", "/v1/workers/ada/resume")
    stage.until(lambda: stage.job(waiting)["status"], lambda status: status == "completed")

    stage.ask("POST", f"/v1/jobs/{job_id}/cancel")
    stage.ask("POST", "/v1/workers/ada/stop")
    assert process.wait(60) == 0
    actions = [one["action"] for one in stage.ask("GET", "/v1/events")["items"]]
    assert [one for one in actions if one.startswith("workers.")] == [
        "workers.stop", "workers.resume", "workers.stacks", "workers.quiet",
    ]  # fmt: skip


def test_a_worker_that_was_killed_is_forgotten(stage: Stage) -> None:
    stage.start("scheduler", "--port", str(stage.port), "--db", stage.store)
    stage.until_up()
    process = stage.start("worker", "--worker-id", "ada", "--api-url", stage.url)
    stage.until(lambda: stage.ask("GET", "/v1/workers")["items"], lambda workers: len(workers) == 1)
    process.kill()
    process.wait()
    stage.until(lambda: _worker(stage)["is_alive"], lambda is_alive: not is_alive)
    stage.rota("workers", "forget", "ada")
    assert stage.ask("GET", "/v1/workers?all=true")["items"] == []
