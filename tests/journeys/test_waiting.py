"""Handlers that wait, while workers are killed and the scheduler with its API is restarted, on every store."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest

from journeys.system import SERVERS, System

on_every_store = pytest.mark.parametrize("system", ["sqlite", *SERVERS], indirect=True)
TASKS = """
from pathlib import Path

from rota import Happened, Rota, current

app = Rota()


@app.task(name="double")
def double(number: int) -> int:
    return 2 * number


@app.task(name="onboard", retry=20)
def onboard(user: int, book: str) -> list:
    job = current()

    def once(key: str) -> None:
        line = f"{user} {key}"

        def perform() -> None:
            with Path(book).open("a") as file:
                file.write(line + chr(10))

        def look() -> Happened | None:
            return Happened() if line in Path(book).read_text().splitlines() else None

        job.step(key, perform, verify=look)

    once("welcome")
    job.sleep("trial", 1.5)
    once("reminder")
    paid = job.wait("paid", event=f"paid:{user}", timeout="10m")
    number = job.call("double", double, user).result()
    once("end")
    return [paid, number]
"""
USERS = range(8)


def kill(system: System, process: int) -> None:
    """Kill the process that was started so many starts ago, with all that it started."""
    os.killpg(system.started[process].pid, signal.SIGKILL)
    system.started[process].wait()


@pytest.mark.timeout(240)
@on_every_store
def test_handlers_wait_through_deaths_of_workers_and_a_restart_of_the_rest(system: System) -> None:
    (system.folder / "onboarding.py").write_text(TASKS, encoding="utf-8")
    book = system.folder / "book"
    book.touch()
    server = ("scheduler", "--port", str(system.port), "--store", system.store)
    worker = ("worker", "--api-url", system.url, "--app", "onboarding:app", "--concurrency", "2")
    variables = {"PYTHONPATH": str(system.folder)}
    system.start(*server)
    system.until_up()
    system.start(*worker, environment=variables)
    payload = [{"args": [user, str(book)], "kwargs": {}} for user in USERS]
    ids = [
        system.ask("POST", "/v1/jobs", {"type": "onboard", "payload": one, "max_attempts": 20})["id"] for one in payload
    ]
    system.until(lambda: book.read_text(encoding="utf-8"), lambda text: "welcome" in text)
    kill(system, 1)
    system.start(*worker, environment=variables)
    system.until(lambda: [system.job(one)["state"] for one in ids], lambda states: "blocked" in states)
    # Half of the events come while the worker is dead; then the scheduler, with the API, is killed too.
    kill(system, 2)
    for user in USERS[::2]:
        assert system.ask("POST", f"/v1/events/paid:{user}", {"payload": user})["is_new"]
    kill(system, 0)
    system.start(*server)
    system.until_up()
    system.start(*worker, environment=variables)
    for user in USERS:
        assert system.ask("POST", f"/v1/events/paid:{user}", {"payload": user})["is_new"] is bool(user % 2)
    for job_id in ids:
        system.until(lambda: system.job(job_id)["state"], lambda state: state == "completed")  # noqa: B023 - at once
    results = [system.ask("GET", f"/v1/jobs/{job_id}/result")["result"] for job_id in ids]
    assert results == [[user, 2 * user] for user in USERS]
    lines = Counter(book.read_text(encoding="utf-8").splitlines())
    assert lines == Counter(f"{user} {key}" for user in USERS for key in ("welcome", "reminder", "end"))
    children = system.ask("GET", "/v1/jobs?type=double&limit=100")["items"]
    assert len(children) == len(USERS)


def test_explain_names_what_a_job_waits_for(system: System) -> None:
    (system.folder / "onboarding.py").write_text(TASKS, encoding="utf-8")
    book = system.folder / "book"
    book.touch()
    port = ("--port", str(system.port))
    system.start(
        "standalone",
        *port,
        "--store",
        system.store,
        "--app",
        "onboarding:app",
        environment={"PYTHONPATH": str(system.folder)},
    )
    system.until_up()
    payload = {"args": [7, str(book)], "kwargs": {}}
    job_id = system.ask("POST", "/v1/jobs", {"type": "onboard", "payload": payload})["id"]
    system.until(lambda: system.job(job_id)["state"], lambda state: state == "scheduled")
    (asleep,) = system.ask("GET", f"/v1/jobs/{job_id}/explain")["reasons"]
    assert asleep["code"] == "sleeping"
    assert "step 'trial'" in asleep["text"]
    system.until(lambda: system.job(job_id)["state"], lambda state: state == "blocked")
    (waiting,) = system.ask("GET", f"/v1/jobs/{job_id}/explain")["reasons"]
    assert waiting["code"] == "waiting_for_event"
    assert "the event 'paid:7', for another" in waiting["text"]
    assert waiting["fix"] == "if it has happened: rota events emit paid:7"
    assert "paid:7" in system.rota("jobs", "steps", job_id)
    system.ask("POST", "/v1/queues/default/pause", {"reason": "drill"})
    system.rota("events", "emit", "paid:7")
    system.until(lambda: system.job(job_id)["state"], lambda state: state == "pending")
