"""Everything in one process on one file, with the commands and requests of an older system."""

from __future__ import annotations

import json
import os
import signal

from journeys.system import DEMO, System


def standalone(system: System) -> None:
    system.start(
        "standalone", "--port", str(system.port), "--db", str(system.folder / "rota.db"), "--app", "tasks:app", cwd=DEMO
    )
    system.until_up()


def test_the_commands_of_the_first_document_work_literally(system: System) -> None:
    standalone(system)
    payload = '{"to":"user@example.com"}'
    job_id = system.rota("submit", "--type", "send_email", "--payload", payload, "--max-attempts", "3").strip()
    system.rota("submit", "--type", "gen_report", "--cron", "0 8 * * MON", "--max-attempts", "1")
    system.until(lambda: system.job(job_id)["status"], lambda status: status == "completed")
    assert system.job(job_id)["result"] == "sent to user@example.com"
    assert json.loads(system.rota("status", "-o", "json"))["dlq_size"] == 0

    dead = system.rota("submit", "--type", "charge_card", "--payload", '{"amount":0}').strip()
    system.until(lambda: system.job(dead)["status"], lambda status: status == "dead")
    assert system.rota("dlq", "list", "-o", "ids").split() == [dead]
    system.rota("dlq", "retry", dead)
    system.until(lambda: len(system.ask("GET", f"/v1/jobs/{dead}/attempts")["items"]), lambda number: number == 2)

    schedules = json.loads(system.rota("schedules", "list", "-o", "json"))
    assert [one["cron"] for one in schedules] == ["0 8 * * MON"]


def test_what_was_acknowledged_survives_a_kill_and_runs_after_the_restart(system: System) -> None:
    standalone(system)
    later = [system.ask("POST", "/jobs", {"type": "echo", "payload": number, "delay": 2})["id"] for number in range(20)]
    os.killpg(system.started[0].pid, signal.SIGKILL)
    system.started[0].wait()
    standalone(system)
    for number, job_id in enumerate(later):
        ended = system.until(lambda: system.job(job_id), lambda job: job["status"] == "completed")  # noqa: B023 - at once
        assert ended["result"] == number


def test_a_signal_lets_running_jobs_finish(system: System) -> None:
    standalone(system)
    job_id = system.ask("POST", "/jobs", {"type": "sleep", "payload": {"duration": 2}})["id"]
    system.until(lambda: system.job(job_id)["status"], lambda status: status == "running")
    # What came later has ended, so the first has begun: one that was only taken on would be handed back.
    later = system.ask("POST", "/jobs", {"type": "echo"})["id"]
    system.until(lambda: system.job(later)["status"], lambda status: status == "completed")
    system.started[0].send_signal(signal.SIGTERM)
    assert system.started[0].wait(30) == 0
    standalone(system)
    job = system.job(job_id)
    assert (job["status"], job["attempts"]) == ("completed", 1)
