"""Systems C and D: API, scheduler and workers as processes of their own on one database, as their documents start them.

Workers are given the store itself here; over HTTP they are in test_http_workers.py.
"""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime, timedelta

import pytest

from journeys.stage import SERVERS, Stage
from proofs.cast import alive

on_servers = pytest.mark.parametrize("stage", SERVERS, indirect=True)


def go_style(url: str) -> str:
    """Write a URL as Go programs do."""
    user, place = url.removeprefix("mysql://").split("@")
    host, database = place.split("/")
    return f"{user}:@tcp({host})/{database}?parseTime=true"


@on_servers
def test_separate_services_run_what_the_third_document_schedules(stage: Stage) -> None:
    stage.start("api", "--store", stage.store, "--port", str(stage.port))
    stage.until_up()
    stage.start("scheduler", "--store", stage.store)
    for name in ("worker-1", "worker-2"):
        stage.start("worker", "--store", stage.store, "--worker-id", name)
    stage.until(lambda: alive(stage), lambda names: names == {"worker-1", "worker-2"})
    due_at = (datetime.now(UTC) + timedelta(seconds=2)).replace(microsecond=0)
    body = {"due_at": due_at.isoformat(), "payload": {"action": "email_user", "user_id": 42}}
    task = stage.ask("POST", "/tasks", body)
    done = stage.until(lambda: stage.ask("GET", f"/tasks/{task['id']}"), lambda one: one["status"] == "completed")
    assert done["payload"] == body["payload"]
    assert datetime.fromisoformat(done["started_at"]) >= due_at
    ids = [stage.ask("POST", "/tasks", {"payload": number})["id"] for number in range(50)]
    for one in ids:
        stage.until(lambda: stage.job(one)["status"], lambda status: status == "completed")  # noqa: B023 - at once


@pytest.mark.parametrize("stage", ["mariadb"], indirect=True)
def test_the_lines_of_the_fourth_document_work_literally(stage: Stage) -> None:
    environment = {"DB_DSN": go_style(stage.store), "PORT": str(stage.port)}
    stage.start("api", environment=environment)
    stage.until_up()
    stage.start("scheduler", environment={"DB_DSN": environment["DB_DSN"]})
    stage.start("worker", environment={"DB_DSN": environment["DB_DSN"], "WORKER_ID": "worker-local"})
    stage.until(lambda: alive(stage), lambda names: names == {"worker-local"})
    assert stage.ask("GET", "/healthz")["status"] in {"ok", "healthy"}
    body = {"type": "demo", "payload": {"msg": "hello"}, "max_attempts": 3}
    job = stage.ask("POST", "/jobs", body, **{"Idempotency-Key": "demo-1"})
    assert stage.ask("POST", "/jobs", body, **{"Idempotency-Key": "demo-1"})["id"] == job["id"]
    done = stage.until(lambda: stage.ask("GET", f"/jobs/{job['id']}"), lambda one: one["status"] == "completed")
    assert (done["attempts"], done["max_attempts"], done["payload"]) == (1, 3, {"msg": "hello"})


@on_servers
def test_a_killed_worker_on_the_database_itself_is_replaced(stage: Stage) -> None:
    stage.start("api", "--store", stage.store, "--port", str(stage.port))
    stage.until_up()
    stage.start("scheduler", "--store", stage.store)
    first = stage.start("worker", "--store", stage.store, "--worker-id", "first")
    stage.until(lambda: alive(stage), lambda names: "first" in names)
    job_id = stage.ask("POST", "/jobs", {"type": "sleep", "payload": {"duration": 60}})["id"]
    stage.until(lambda: stage.job(job_id)["worker_id"], lambda name: name == "first")
    stage.start("worker", "--store", stage.store, "--worker-id", "second")
    os.kill(first.pid, signal.SIGKILL)
    stage.until(lambda: stage.job(job_id)["worker_id"], lambda name: name == "second", seconds=20)
    assert stage.job(job_id)["crashes"] == 1


@on_servers
def test_the_store_says_which_migrations_it_has_seen_and_whether_it_is_sound(stage: Stage) -> None:
    stage.rota("db", "migrate", "--store", stage.store)
    told = stage.rota("db", "status", "--store", stage.store)
    assert "0001" in told
    assert "no" not in told.split()
    # The tests' own servers do not wait for the disk, and the check says so.
    stage.rota("db", "check", "--store", stage.store, code=0 if stage.store.startswith("mysql") else 9)
