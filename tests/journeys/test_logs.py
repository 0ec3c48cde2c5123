"""What a handler logs says in which job it was written, wherever the handler runs."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from journeys.system import System

TASKS = {"on_the_loop": "on the loop", "in_a_thread": "in a thread", "in_a_process": "in a process"}


def test_a_handlers_lines_carry_its_job(system: System) -> None:
    system.start(
        "standalone", "--port", str(system.port), "--db", system.store, "--app", "journeys.logging_tasks:app",
        "--log-format", "json", "--worker-id", "ada",
        environment={"PYTHONPATH": str(Path(__file__).parent.parent)},
    )  # fmt: skip
    system.until_up()
    ids = {name: system.ask("POST", "/jobs", {"type": name})["id"] for name in TASKS}
    for job_id in ids.values():
        system.until(lambda: system.job(job_id)["status"], lambda status: status == "completed")  # noqa: B023 - at once
    said = {}
    for line in (system.folder / "log-0.txt").read_text().splitlines():
        with suppress(json.JSONDecodeError):
            answer = json.loads(line)
            said[answer["message"]] = {name: answer.get(name) for name in ("job_id", "job_type", "attempt", "worker")}
    for name, message in TASKS.items():
        assert said[message] == {"job_id": ids[name], "job_type": name, "attempt": 1, "worker": "ada"}


def test_every_line_is_json_when_json_is_asked_for_also_those_of_the_lease_keeper(system: System) -> None:
    """The lease-keeper process wrote text. It logs when its renewals are not answered."""
    api = system.start("api", "--port", str(system.port), "--db", system.store)
    system.until_up()
    worker = system.start("worker", "--log-format", "json", "--lease", "3s", "--drain-timeout", "1s")
    job_id = system.ask("POST", "/jobs", {"type": "sleep", "payload": {"duration": 60}})["id"]
    system.until(lambda: system.job(job_id)["status"], lambda status: status == "running")
    api.kill()
    api.wait()

    def lines() -> list[str]:
        return (system.folder / "log-1.txt").read_text().splitlines()

    system.until(lines, lambda seen: any("rota.worker.lease_keeper" in line for line in seen))
    again = system.start("api", "--port", str(system.port), "--db", system.store)
    system.until(lines, lambda seen: any("claiming jobs works again" in line for line in seen))
    worker.terminate()
    assert worker.wait(30) == 0
    said = [json.loads(line) for line in lines()]
    # Repeated lines are suppressed.
    assert sum("claiming jobs failed" in one["message"] for one in said) <= 3
    again.terminate()
    assert again.wait(30) == 0
    system.start("api", "--port", str(system.port), "--host", "203.0.113.1", "--log-format", "json").wait(30)
    refused = [json.loads(line) for line in (system.folder / "log-3.txt").read_text().splitlines()]
    assert "token" in refused[-1]["message"]
