"""API, scheduler and workers as processes of their own on one database, started as in older systems.

Workers are given the store itself here; over HTTP they are in test_http_workers.py.
"""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime, timedelta

import pytest

from journeys.system import SERVERS, System
from proofs.processes import alive

on_servers = pytest.mark.parametrize("system", SERVERS, indirect=True)


def go_style(url: str) -> str:
    """Write a URL as Go programs do."""
    user, place = url.removeprefix("mysql://").split("@")
    host, database = place.split("/")
    return f"{user}:@tcp({host})/{database}?parseTime=true"


@on_servers
def test_separate_services_run_what_the_third_document_schedules(system: System) -> None:
    system.start("api", "--store", system.store, "--port", str(system.port))
    system.until_up()
    system.start("scheduler", "--store", system.store)
    for name in ("worker-1", "worker-2"):
        system.start("worker", "--store", system.store, "--worker-id", name)
    system.until(lambda: alive(system), lambda names: names == {"worker-1", "worker-2"})
    due_at = (datetime.now(UTC) + timedelta(seconds=2)).replace(microsecond=0)
    body = {"due_at": due_at.isoformat(), "payload": {"action": "email_user", "user_id": 42}}
    task = system.ask("POST", "/tasks", body)
    done = system.until(lambda: system.ask("GET", f"/tasks/{task['id']}"), lambda one: one["status"] == "completed")
    assert done["payload"] == body["payload"]
    assert datetime.fromisoformat(done["started_at"]) >= due_at
    ids = [system.ask("POST", "/tasks", {"payload": number})["id"] for number in range(50)]
    for one in ids:
        system.until(lambda: system.job(one)["status"], lambda status: status == "completed")  # noqa: B023 - at once


@pytest.mark.parametrize("system", ["mariadb"], indirect=True)
def test_the_lines_of_the_fourth_document_work_literally(system: System) -> None:
    environment = {"DB_DSN": go_style(system.store), "PORT": str(system.port)}
    system.start("api", environment=environment)
    system.until_up()
    system.start("scheduler", environment={"DB_DSN": environment["DB_DSN"]})
    system.start("worker", environment={"DB_DSN": environment["DB_DSN"], "WORKER_ID": "worker-local"})
    system.until(lambda: alive(system), lambda names: names == {"worker-local"})
    assert system.ask("GET", "/healthz")["status"] in {"ok", "healthy"}
    body = {"type": "demo", "payload": {"msg": "hello"}, "max_attempts": 3}
    job = system.ask("POST", "/jobs", body, **{"Idempotency-Key": "demo-1"})
    assert system.ask("POST", "/jobs", body, **{"Idempotency-Key": "demo-1"})["id"] == job["id"]
    done = system.until(lambda: system.ask("GET", f"/jobs/{job['id']}"), lambda one: one["status"] == "completed")
    assert (done["attempts"], done["max_attempts"], done["payload"]) == (1, 3, {"msg": "hello"})


@on_servers
def test_a_killed_worker_on_the_database_itself_is_replaced(system: System) -> None:
    system.start("api", "--store", system.store, "--port", str(system.port))
    system.until_up()
    system.start("scheduler", "--store", system.store)
    first = system.start("worker", "--store", system.store, "--worker-id", "first")
    system.until(lambda: alive(system), lambda names: "first" in names)
    job_id = system.ask("POST", "/jobs", {"type": "sleep", "payload": {"duration": 60}})["id"]
    system.until(lambda: system.job(job_id)["worker_id"], lambda name: name == "first")
    system.start("worker", "--store", system.store, "--worker-id", "second")
    os.kill(first.pid, signal.SIGKILL)
    system.until(lambda: system.job(job_id)["worker_id"], lambda name: name == "second", seconds=20)
    assert system.job(job_id)["crashes"] == 1


@on_servers
def test_the_store_says_which_migrations_it_has_seen_and_whether_it_is_sound(system: System) -> None:
    system.rota("db", "migrate", "--store", system.store)
    output = system.rota("db", "status", "--store", system.store)
    assert "0001" in output
    assert "no" not in output.split()
    # The tests' own servers do not wait for the disk, and the check says so.
    system.rota("db", "check", "--store", system.store, code=0 if system.store.startswith("mysql") else 9)
