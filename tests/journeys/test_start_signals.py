"""Starting and ending of processes: signals at any moment, and ports that are taken."""

from __future__ import annotations

import json
import socket

from journeys.start_signals import sweep
from journeys.system import System

TASKS = """
from rota import Rota
app = Rota()

@app.task(queue="mail")
def send() -> str:
    follow_up.submit()
    return "sent"

@app.task(queue="later")
def follow_up() -> str:
    return "followed"
"""


def test_a_signal_at_any_moment_of_the_start_ends_a_process_within_its_grace(system: System) -> None:
    endings = sweep(system, 30)
    assert [one for one in endings if not one.is_good] == []
    # Signals came before the process heard any and after.
    assert {one.is_handled for one in endings} == {True, False}


def test_a_process_whose_port_is_taken_leads_nothing_and_claims_nothing(system: System) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for role in ("standalone", "scheduler", "api"):
            process = system.start(role, "--port", port, "--store", str(system.folder / system.store))
            assert process.wait(60) == 2
        worker = system.start("worker", "--worker-address", f":{port}", "--store", str(system.folder / system.store))
        assert worker.wait(60) == 2
    # Not even the store was opened.
    assert not (system.folder / system.store).exists()


def test_an_apps_queues_are_served_and_its_jobs_go_to_the_store_of_its_process(system: System) -> None:
    (system.folder / "tasks.py").write_text(TASKS, encoding="utf-8")
    for role in ("standalone", "worker"):
        store = str(system.folder / f"{role}.db")
        if role == "worker":
            system.start("api", "--port", str(system.port), "--store", store)
            system.until_up()
            system.start("worker", "--app", "tasks:app")
        else:
            system.start("standalone", "--port", str(system.port), "--store", store, "--app", "tasks:app")
            system.until_up()
        job = system.ask("POST", "/v1/jobs", {"type": "send", "payload": None, "queue": "mail"})["id"]
        system.until(lambda: system.job(job)["status"], lambda status: status == "completed")  # noqa: B023 - at once
        listed = system.until(
            lambda: json.loads(system.rota("jobs", "list", "-o", "json")),
            lambda jobs: {one["status"] for one in jobs} == {"completed"} and len(jobs) == 2,
        )
        assert {one["type"] for one in listed} == {"send", "follow_up"}
        for process in system.started:
            process.terminate()
            assert process.wait(60) == 0
        system.started.clear()
