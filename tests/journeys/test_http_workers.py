"""Workers over HTTP, which die in every way."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from journeys.system import SERVERS, System
from servers.private_server import free_port

on_every_store = pytest.mark.parametrize("system", ["sqlite", *SERVERS], indirect=True)


def scheduler(system: System) -> None:
    system.start("-mode", "scheduler", "-port", str(system.port), "-db", system.store)
    system.until_up()


def worker(system: System, name: str, **environment: str) -> int:
    """Start a worker in the single-dash form, and give its pid once it is known to be alive."""
    process = system.start("-mode", "worker", "-worker-id", name, "-api-url", system.url, environment=environment)
    system.until(
        lambda: [one["worker_id"] for one in system.ask("GET", "/v1/workers")["items"] if one["is_alive"]],
        lambda names: name in names,
    )
    return process.pid


def test_the_commands_of_the_second_document_work_literally(system: System) -> None:
    scheduler(system)
    worker(system, "worker-1")
    worker(system, "worker-2")
    body = {"type": "sleep", "payload": {"duration": 0.1}, "priority": 7}
    ids = [system.ask("POST", "/jobs", body)["id"] for _ in range(30)]
    for job_id in ids:
        system.until(lambda: system.job(job_id)["status"], lambda status: status == "completed")  # noqa: B023 - at once
    assert {system.job(job_id)["worker_id"] for job_id in ids} <= {"worker-1", "worker-2"}
    assert system.ask("GET", "/health")["status"] == "healthy"


def _workers(system: System) -> list[str]:
    return [one["worker_id"] for one in system.ask("GET", "/v1/workers")["items"]]


@pytest.mark.parametrize("by", ["api", "store", "standalone"])
def test_a_worker_that_ends_in_order_is_no_longer_listed(system: System, by: str) -> None:
    """It was listed as alive and draining, and counted by `rota status`, for 15 s more."""
    scheduler(system)
    port = str(free_port())
    arguments = {
        "api": ("worker", "--worker-id", "first", "--api-url", system.url),
        "store": ("worker", "--worker-id", "first", "--store", system.store),
        "standalone": ("standalone", "--worker-id", "first", "--store", system.store, "--port", port),
    }
    process = system.start(*arguments[by])
    system.until(lambda: _workers(system), lambda names: "first" in names)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert _workers(system) == []
    assert "first" not in system.rota("status")


@on_every_store
def test_the_job_of_a_killed_worker_runs_again_elsewhere_within_twenty_seconds(system: System) -> None:
    scheduler(system)
    first = worker(system, "first")
    job_id = system.ask("POST", "/jobs", {"type": "sleep", "payload": {"duration": 60}})["id"]
    system.until(lambda: system.job(job_id)["worker_id"], lambda name: name == "first")
    worker(system, "second")
    killed_at = time.monotonic()
    os.kill(first, signal.SIGKILL)
    system.until(lambda: system.job(job_id)["worker_id"], lambda name: name == "second", seconds=20)
    assert time.monotonic() - killed_at < 20
    again = system.job(job_id)
    assert (again["status"], again["attempts"], again["crashes"]) == ("running", 2, 1)


@on_every_store
def test_a_worker_that_slept_past_its_lease_changes_nothing_when_it_wakes(system: System) -> None:
    scheduler(system)
    first = worker(system, "first", ROTA_LEASE="2")
    job_id = system.ask("POST", "/jobs", {"type": "sleep", "payload": {"duration": 5}})["id"]
    system.until(lambda: system.job(job_id)["worker_id"], lambda name: name == "first")
    os.killpg(first, signal.SIGSTOP)
    worker(system, "second", ROTA_LEASE="2")
    ended = system.until(lambda: system.job(job_id), lambda job: job["status"] == "completed")
    assert (ended["worker_id"], ended["fence"]) == ("second", 2)
    os.killpg(first, signal.SIGCONT)
    # It is heard of again, so whatever it had to say about the job has been said.
    system.until(
        lambda: {one["worker_id"] for one in system.ask("GET", "/v1/workers")["items"] if one["is_alive"]},
        lambda names: "first" in names,
    )
    probe = system.ask("POST", "/jobs", {"type": "echo", "payload": 1})["id"]
    system.until(lambda: system.job(probe)["status"], lambda status: status == "completed")
    assert system.job(job_id) == ended


@on_every_store
def test_workers_that_drain_use_no_attempt_and_lose_no_job(system: System) -> None:
    scheduler(system)
    ids = [system.ask("POST", "/jobs", {"type": "sleep", "payload": {"duration": 0.3}})["id"] for _ in range(60)]
    for number in range(3):
        pid = worker(system, f"worker-{number}")
        system.until(lambda: system.ask("GET", "/v1/stats")["states"]["running"], bool)
        os.kill(pid, signal.SIGTERM)
        assert system.started[-1].wait(40) == 0
    worker(system, "last")
    for job_id in ids:
        job = system.until(lambda: system.job(job_id), lambda one: one["status"] == "completed")  # noqa: B023 - at once
        assert (job["attempts"], job.get("crashes", 0)) == (1, 0)


@on_every_store
def test_two_schedulers_and_their_workers_make_each_occurrence_once_while_being_killed(system: System) -> None:
    scheduler(system)
    second = System(system.folder, system.store)
    second.started = system.started
    second.start("-mode", "scheduler", "-port", str(second.port), "-db", second.store)
    second.until_up()
    worker(system, "one")
    worker(second, "two")
    made = system.ask(
        "POST", "/v1/schedules", {"name": "tick", "cron": "* * * * * *", "job": {"type": "echo", "payload": "tick"}}
    )
    path = f"/v1/schedules/{made['id']}/occurrences?limit=500"
    system.until(lambda: len(system.ask("GET", path)["items"]), lambda number: number >= 4)
    os.killpg(system.started[1].pid, signal.SIGKILL)
    system.until(lambda: len(system.ask("GET", path)["items"]), lambda number: number >= 9)
    times = sorted(one["fire_time"] for one in system.ask("GET", path)["items"])
    seconds = [int(text[17:19]) + 60 * int(text[14:16]) for text in times]
    steps = {(after - before) % 3600 for before, after in pairwise(seconds)}
    assert steps == {1}
    jobs = system.ask("GET", "/v1/jobs?type=echo&limit=500")["items"]
    fired = [job["fire_time"] for job in jobs]
    assert len(fired) == len(set(fired))


def test_a_worker_shows_its_health_until_its_last_job_is_done(system: System) -> None:
    scheduler(system)
    port = free_port()
    pid = worker(system, "worker-1", WORKER_HTTP_ADDR=f":{port}")
    shown = replace(system, port=port, started=[])
    shown.until_up()
    assert shown.ask("GET", "/health")["instance_id"] == "worker-1"
    (known,) = system.ask("GET", "/v1/workers")["items"]
    assert known["address"] == f"127.0.0.1:{port}"
    job_id = system.ask("POST", "/jobs", {"type": "sleep", "payload": {"duration": 5}})["id"]
    # What came later has ended, so the first has begun: one that was only taken on would be handed back.
    later = system.ask("POST", "/jobs", {"type": "echo", "payload": {}})["id"]
    system.until(lambda: system.job(later)["status"], lambda status: status == "completed")
    system.until(lambda: shown.ask("GET", "/health")["busy"], lambda busy: busy == 1)
    os.kill(pid, signal.SIGTERM)
    system.until(shown.is_up, lambda is_up: not is_up)
    assert shown.ask("GET", "/health")["status"] == "stopping"
    system.until(lambda: system.job(job_id)["status"], lambda status: status == "completed")


def test_a_cancel_reaches_a_worker_over_http_before_its_next_heartbeat(system: System) -> None:
    """It came with the next heartbeat, up to five seconds later: on average, of three cancels, more than two."""
    system.start("api", "--port", str(system.port), "--db", system.store)
    system.until_up()
    system.start("worker", "--worker-id", "ada")
    taken = []
    for _ in range(3):
        job_id = system.ask("POST", "/jobs", {"type": "sleep", "payload": {"duration": 60}})["id"]
        system.until(lambda: system.job(job_id)["status"], lambda status: status == "running")  # noqa: B023 - at once
        asked = time.monotonic()
        system.ask("POST", f"/v1/jobs/{job_id}/cancel", {})
        system.until(lambda: system.job(job_id)["status"], lambda status: status == "cancelled")  # noqa: B023 - at once
        taken.append(time.monotonic() - asked)
    assert sorted(taken)[1] < 1.5, taken


def test_lease_keepers_renew_and_hand_back_with_the_tokens_of_their_leases(system: System) -> None:
    token = "0123456789abcdef0123456789abcdef"  # noqa: S105 - a test's own
    admin = {"Authorization": f"Bearer {token}"}
    system.variables = {"ROTA_TOKEN": token}
    system.start("scheduler", "--port", str(system.port), "--store", system.store)
    system.until_up()
    secret = system.rota("token", "create", "pool", "--role", "worker", "-o", "json")
    system.variables = {"ROTA_TOKEN": json.loads(secret)["secret"]}

    def job(job_id: str) -> dict[str, Any]:
        return dict(system.ask("GET", f"/v1/jobs/{job_id}", **admin))

    first = system.start("worker", "--worker-id", "first", "--api-url", system.url, "--lease", "3s")
    kept = system.ask("POST", "/jobs", {"type": "sleep", "payload": {"duration": 8}}, **admin)["id"]
    system.until(lambda: job(kept)["status"], lambda status: status == "completed")
    assert job(kept)["attempts"] == 1, "its lease was renewed"
    first.send_signal(signal.SIGTERM)
    assert first.wait(30) == 0
    (system.folder / "slow.py").write_text(
        "import pathlib, time\nfrom rota import Rota\napp = Rota()\n"
        "@app.task\ndef nap() -> None:\n    pathlib.Path('started').touch()\n    time.sleep(60)\n",
        encoding="utf-8",
    )
    options = ("--api-url", system.url, "--lease", "5m", "--app", "slow:app")
    second = system.start("worker", "--worker-id", "second", *options)
    lost = system.ask("POST", "/jobs", {"type": "nap"}, **admin)["id"]
    # A worker that is killed before it holds its job leaves it to the lease.
    system.until((system.folder / "started").exists, bool)
    os.kill(second.pid, signal.SIGKILL)
    system.until(lambda: job(lost)["status"], lambda status: status != "running", seconds=30)
    assert job(lost)["crashes"] == 1
