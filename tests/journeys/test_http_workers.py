"""System B: workers that know nothing but the API's address, and that die in every way."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from journeys.stage import SERVERS, Stage
from servers.housing import free_port

on_every_store = pytest.mark.parametrize("stage", ["sqlite", *SERVERS], indirect=True)


def scheduler(stage: Stage) -> None:
    stage.start("-mode", "scheduler", "-port", str(stage.port), "-db", stage.store)
    stage.until_up()


def worker(stage: Stage, name: str, **environment: str) -> int:
    """Start a worker in the single-dash form, and give its pid once it is known to be alive."""
    process = stage.start("-mode", "worker", "-worker-id", name, "-api-url", stage.url, environment=environment)
    stage.until(
        lambda: [one["worker_id"] for one in stage.ask("GET", "/v1/workers")["items"] if one["is_alive"]],
        lambda names: name in names,
    )
    return process.pid


def test_the_commands_of_the_second_document_work_literally(stage: Stage) -> None:
    scheduler(stage)
    worker(stage, "worker-1")
    worker(stage, "worker-2")
    body = {"type": "sleep", "payload": {"duration": 0.1}, "priority": 7}
    ids = [stage.ask("POST", "/jobs", body)["id"] for _ in range(30)]
    for job_id in ids:
        stage.until(lambda: stage.job(job_id)["status"], lambda status: status == "completed")  # noqa: B023 - at once
    assert {stage.job(job_id)["worker_id"] for job_id in ids} <= {"worker-1", "worker-2"}
    assert stage.ask("GET", "/health")["status"] == "healthy"


def _workers(stage: Stage) -> list[str]:
    return [one["worker_id"] for one in stage.ask("GET", "/v1/workers")["items"]]


@pytest.mark.parametrize("by", ["api", "store", "standalone"])
def test_a_worker_that_ends_in_order_is_no_longer_listed(stage: Stage, by: str) -> None:
    """It was listed as alive and draining, and counted by `rota status`, for 15 s more."""
    scheduler(stage)
    port = str(free_port())
    arguments = {
        "api": ("worker", "--worker-id", "first", "--api-url", stage.url),
        "store": ("worker", "--worker-id", "first", "--store", stage.store),
        "standalone": ("standalone", "--worker-id", "first", "--store", stage.store, "--port", port),
    }
    process = stage.start(*arguments[by])
    stage.until(lambda: _workers(stage), lambda names: "first" in names)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert _workers(stage) == []
    assert "first" not in stage.rota("status")


@on_every_store
def test_the_job_of_a_killed_worker_runs_again_elsewhere_within_twenty_seconds(stage: Stage) -> None:
    scheduler(stage)
    first = worker(stage, "first")
    job_id = stage.ask("POST", "/jobs", {"type": "sleep", "payload": {"duration": 60}})["id"]
    stage.until(lambda: stage.job(job_id)["worker_id"], lambda name: name == "first")
    worker(stage, "second")
    killed_at = time.monotonic()
    os.kill(first, signal.SIGKILL)
    stage.until(lambda: stage.job(job_id)["worker_id"], lambda name: name == "second", seconds=20)
    assert time.monotonic() - killed_at < 20
    again = stage.job(job_id)
    assert (again["status"], again["attempts"], again["crashes"]) == ("running", 2, 1)


@on_every_store
def test_a_worker_that_slept_past_its_lease_changes_nothing_when_it_wakes(stage: Stage) -> None:
    scheduler(stage)
    first = worker(stage, "first", ROTA_LEASE="2")
    job_id = stage.ask("POST", "/jobs", {"type": "sleep", "payload": {"duration": 5}})["id"]
    stage.until(lambda: stage.job(job_id)["worker_id"], lambda name: name == "first")
    os.killpg(first, signal.SIGSTOP)
    worker(stage, "second", ROTA_LEASE="2")
    ended = stage.until(lambda: stage.job(job_id), lambda job: job["status"] == "completed")
    assert (ended["worker_id"], ended["fence"]) == ("second", 2)
    os.killpg(first, signal.SIGCONT)
    # It is heard of again, so whatever it had to say about the job has been said.
    stage.until(
        lambda: {one["worker_id"] for one in stage.ask("GET", "/v1/workers")["items"] if one["is_alive"]},
        lambda names: "first" in names,
    )
    probe = stage.ask("POST", "/jobs", {"type": "echo", "payload": 1})["id"]
    stage.until(lambda: stage.job(probe)["status"], lambda status: status == "completed")
    assert stage.job(job_id) == ended


@on_every_store
def test_workers_that_drain_use_no_attempt_and_lose_no_job(stage: Stage) -> None:
    scheduler(stage)
    ids = [stage.ask("POST", "/jobs", {"type": "sleep", "payload": {"duration": 0.3}})["id"] for _ in range(60)]
    for number in range(3):
        pid = worker(stage, f"worker-{number}")
        stage.until(lambda: stage.ask("GET", "/v1/stats")["states"]["running"], bool)
        os.kill(pid, signal.SIGTERM)
        assert stage.started[-1].wait(40) == 0
    worker(stage, "last")
    for job_id in ids:
        job = stage.until(lambda: stage.job(job_id), lambda one: one["status"] == "completed")  # noqa: B023 - at once
        assert (job["attempts"], job.get("crashes", 0)) == (1, 0)


@on_every_store
def test_two_schedulers_and_their_workers_make_each_occurrence_once_while_being_killed(stage: Stage) -> None:
    scheduler(stage)
    second = Stage(stage.folder, stage.store)
    second.started = stage.started
    second.start("-mode", "scheduler", "-port", str(second.port), "-db", second.store)
    second.until_up()
    worker(stage, "one")
    worker(second, "two")
    made = stage.ask(
        "POST", "/v1/schedules", {"name": "tick", "cron": "* * * * * *", "job": {"type": "echo", "payload": "tick"}}
    )
    path = f"/v1/schedules/{made['id']}/occurrences?limit=500"
    stage.until(lambda: len(stage.ask("GET", path)["items"]), lambda number: number >= 4)
    os.killpg(stage.started[1].pid, signal.SIGKILL)
    stage.until(lambda: len(stage.ask("GET", path)["items"]), lambda number: number >= 9)
    times = sorted(one["fire_time"] for one in stage.ask("GET", path)["items"])
    seconds = [int(text[17:19]) + 60 * int(text[14:16]) for text in times]
    steps = {(after - before) % 3600 for before, after in pairwise(seconds)}
    assert steps == {1}
    jobs = stage.ask("GET", "/v1/jobs?type=echo&limit=500")["items"]
    fired = [job["fire_time"] for job in jobs]
    assert len(fired) == len(set(fired))


def test_a_worker_shows_its_health_until_its_last_job_is_done(stage: Stage) -> None:
    scheduler(stage)
    port = free_port()
    pid = worker(stage, "worker-1", WORKER_HTTP_ADDR=f":{port}")
    shown = replace(stage, port=port, started=[])
    shown.until_up()
    assert shown.ask("GET", "/health")["instance_id"] == "worker-1"
    (known,) = stage.ask("GET", "/v1/workers")["items"]
    assert known["address"] == f"127.0.0.1:{port}"
    job_id = stage.ask("POST", "/jobs", {"type": "sleep", "payload": {"duration": 5}})["id"]
    # What came later has ended, so the first has begun: one that was only taken on would be handed back.
    later = stage.ask("POST", "/jobs", {"type": "echo", "payload": {}})["id"]
    stage.until(lambda: stage.job(later)["status"], lambda status: status == "completed")
    stage.until(lambda: shown.ask("GET", "/health")["busy"], lambda busy: busy == 1)
    os.kill(pid, signal.SIGTERM)
    stage.until(shown.is_up, lambda is_up: not is_up)
    assert shown.ask("GET", "/health")["status"] == "stopping"
    stage.until(lambda: stage.job(job_id)["status"], lambda status: status == "completed")


def test_a_cancel_reaches_a_worker_over_http_before_its_next_heartbeat(stage: Stage) -> None:
    """It came with the next heartbeat, up to five seconds later: on average, of three cancels, more than two."""
    stage.start("api", "--port", str(stage.port), "--db", stage.store)
    stage.until_up()
    stage.start("worker", "--worker-id", "ada")
    taken = []
    for _ in range(3):
        job_id = stage.ask("POST", "/jobs", {"type": "sleep", "payload": {"duration": 60}})["id"]
        stage.until(lambda: stage.job(job_id)["status"], lambda status: status == "running")  # noqa: B023 - at once
        asked = time.monotonic()
        stage.ask("POST", f"/v1/jobs/{job_id}/cancel", {})
        stage.until(lambda: stage.job(job_id)["status"], lambda status: status == "cancelled")  # noqa: B023 - at once
        taken.append(time.monotonic() - asked)
    assert sorted(taken)[1] < 1.5, taken


def test_lease_keepers_renew_and_hand_back_with_the_tokens_of_their_leases(stage: Stage) -> None:
    token = "0123456789abcdef0123456789abcdef"  # noqa: S105 - a test's own
    admin = {"Authorization": f"Bearer {token}"}
    stage.told = {"ROTA_TOKEN": token}
    stage.start("scheduler", "--port", str(stage.port), "--store", stage.store)
    stage.until_up()
    secret = stage.rota("token", "create", "pool", "--role", "worker", "-o", "json")
    stage.told = {"ROTA_TOKEN": json.loads(secret)["secret"]}

    def job(job_id: str) -> dict[str, Any]:
        return dict(stage.ask("GET", f"/v1/jobs/{job_id}", **admin))

    first = stage.start("worker", "--worker-id", "first", "--api-url", stage.url, "--lease", "3s")
    kept = stage.ask("POST", "/jobs", {"type": "sleep", "payload": {"duration": 8}}, **admin)["id"]
    stage.until(lambda: job(kept)["status"], lambda status: status == "completed")
    assert job(kept)["attempts"] == 1, "its lease was renewed"
    first.send_signal(signal.SIGTERM)
    assert first.wait(30) == 0
    (stage.folder / "slow.py").write_text(
        "import pathlib, time\nfrom rota import Rota\napp = Rota()\n"
        "@app.task\ndef nap() -> None:\n    pathlib.Path('started').touch()\n    time.sleep(60)\n",
        encoding="utf-8",
    )
    options = ("--api-url", stage.url, "--lease", "5m", "--app", "slow:app")
    second = stage.start("worker", "--worker-id", "second", *options)
    lost = stage.ask("POST", "/jobs", {"type": "nap"}, **admin)["id"]
    # A worker that is killed before it holds its job leaves it to the lease.
    stage.until((stage.folder / "started").exists, bool)
    os.kill(second.pid, signal.SIGKILL)
    stage.until(lambda: job(lost)["status"], lambda status: status != "running", seconds=30)
    assert job(lost)["crashes"] == 1
