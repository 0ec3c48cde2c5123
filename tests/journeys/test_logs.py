"""What a handler logs says in which job it was written, wherever the handler runs."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from journeys.stage import Stage

TASKS = {"on_the_loop": "on the loop", "in_a_thread": "in a thread", "in_a_process": "in a process"}


def test_a_handlers_lines_carry_its_job(stage: Stage) -> None:
    stage.start(
        "standalone", "--port", str(stage.port), "--db", stage.store, "--app", "journeys.logging_tasks:app",
        "--log-format", "json", "--worker-id", "ada",
        environment={"PYTHONPATH": str(Path(__file__).parent.parent)},
    )  # fmt: skip
    stage.until_up()
    ids = {name: stage.ask("POST", "/jobs", {"type": name})["id"] for name in TASKS}
    for job_id in ids.values():
        stage.until(lambda: stage.job(job_id)["status"], lambda status: status == "completed")  # noqa: B023 - at once
    said = {}
    for line in (stage.folder / "log-0.txt").read_text().splitlines():
        with suppress(json.JSONDecodeError):
            told = json.loads(line)
            said[told["message"]] = {name: told.get(name) for name in ("job_id", "job_type", "attempt", "worker")}
    for name, message in TASKS.items():
        assert said[message] == {"job_id": ids[name], "job_type": name, "attempt": 1, "worker": "ada"}
