"""System A: everything in one process on one file, driven as its first document drives it."""

from __future__ import annotations

import json
import os
import signal

from journeys.stage import DEMO, Stage


def standalone(stage: Stage) -> None:
    stage.start(
        "standalone", "--port", str(stage.port), "--db", str(stage.folder / "rota.db"), "--app", "tasks:app", cwd=DEMO
    )
    stage.until_up()


def test_the_commands_of_the_first_document_work_literally(stage: Stage) -> None:
    standalone(stage)
    payload = '{"to":"user@example.com"}'
    job_id = stage.rota("submit", "--type", "send_email", "--payload", payload, "--max-attempts", "3").strip()
    stage.rota("submit", "--type", "gen_report", "--cron", "0 8 * * MON", "--max-attempts", "1")
    stage.until(lambda: stage.job(job_id)["status"], lambda status: status == "completed")
    assert stage.job(job_id)["result"] == "sent to user@example.com"
    assert json.loads(stage.rota("status", "-o", "json"))["dlq_size"] == 0

    dead = stage.rota("submit", "--type", "charge_card", "--payload", '{"amount":0}').strip()
    stage.until(lambda: stage.job(dead)["status"], lambda status: status == "dead")
    assert stage.rota("dlq", "list", "-o", "ids").split() == [dead]
    stage.rota("dlq", "retry", dead)
    stage.until(lambda: len(stage.ask("GET", f"/v1/jobs/{dead}/attempts")["items"]), lambda number: number == 2)

    schedules = json.loads(stage.rota("schedules", "list", "-o", "json"))
    assert [one["cron"] for one in schedules] == ["0 8 * * MON"]


def test_what_was_acknowledged_survives_a_kill_and_runs_after_the_restart(stage: Stage) -> None:
    standalone(stage)
    later = [stage.ask("POST", "/jobs", {"type": "echo", "payload": number, "delay": 2})["id"] for number in range(20)]
    os.killpg(stage.started[0].pid, signal.SIGKILL)
    stage.started[0].wait()
    standalone(stage)
    for number, job_id in enumerate(later):
        ended = stage.until(lambda: stage.job(job_id), lambda job: job["status"] == "completed")  # noqa: B023 - at once
        assert ended["result"] == number


def test_a_signal_lets_running_jobs_finish(stage: Stage) -> None:
    standalone(stage)
    job_id = stage.ask("POST", "/jobs", {"type": "sleep", "payload": {"duration": 2}})["id"]
    stage.until(lambda: stage.job(job_id)["status"], lambda status: status == "running")
    # What came later has ended, so the first has begun: one that was only taken on would be handed back.
    later = stage.ask("POST", "/jobs", {"type": "echo"})["id"]
    stage.until(lambda: stage.job(later)["status"], lambda status: status == "completed")
    stage.started[0].send_signal(signal.SIGTERM)
    assert stage.started[0].wait(30) == 0
    standalone(stage)
    job = stage.job(job_id)
    assert (job["status"], job["attempts"]) == ("completed", 1)
