"""Why a job waits, in real situations: the right reason comes first, and the command that it advises helps."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from journeys.system import System, open_system

TASKS = """
from datetime import timedelta
from pathlib import Path

from rota import OutcomeUnknown, Retry, Rota, current

app = Rota()


@app.task(name="once_mended", retry=Retry(5, base=3600))
def once_mended() -> str:
    if not Path("mended").exists():
        raise RuntimeError("not mended")
    return "done"


@app.task(name="hopeless", retry=1)
def hopeless() -> str:
    if not Path("mended").exists():
        raise RuntimeError("not mended")
    return "done"


@app.task(name="at_most_once", delivery="at_most_once")
def at_most_once() -> str:
    raise OutcomeUnknown("the card may have been charged")


@app.task(name="stepping", retry=1)
def stepping() -> str:
    return current().step("charge", charge)


def charge() -> str:
    raise OutcomeUnknown("the card may have been charged")
"""


def submitted(system: System, **wanted: Any) -> str:  # noqa: ANN401 - JSON
    return str(system.ask("POST", "/v1/jobs", wanted)["id"])


def reasons(system: System, job_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = system.ask("GET", f"/v1/jobs/{job_id}/explain")["reasons"]
    return found


def until_first(system: System, job_id: str, code: str) -> dict[str, Any]:
    """Wait until a reason comes first, and give it."""
    found = system.until(lambda: reasons(system, job_id), lambda seen: seen[0]["code"] == code, seconds=30)
    assert "about_to_start" not in {reason["code"] for reason in found}, found
    return found[0]


def follow(system: System, fix: str) -> list[str]:
    """Run the commands that a remedy names, and give them; one that starts a process is left running."""
    commands = [command.strip() for command in re.findall(r"rota [^;,()]+", fix)]
    assert commands, fix
    for command in commands:
        words = shlex.split(command)[1:]
        if words[0] in {"worker", "scheduler"}:
            system.start(*words, "--store", system.store)
        else:
            system.rota(*words)
    return commands


def until_completed(system: System, job_id: str) -> None:
    system.until(lambda: system.job(job_id)["status"], lambda status: status == "completed")


SQLITE_AND_SERVERS = pytest.mark.parametrize("system", ["sqlite", "postgres", "mariadb"], indirect=True)


@pytest.fixture
def served(system: System) -> System:
    (system.folder / "tasks.py").write_text(TASKS)
    system.start(
        "standalone", "--port", str(system.port), "--store", system.store, "--app", "tasks:app", "--concurrency", "1",
        "--worker-id", "w1",
    )  # fmt: skip
    system.until_up()
    return system


@SQLITE_AND_SERVERS
def test_the_advice_for_a_waiting_job_helps(served: System) -> None:
    later = submitted(served, type="echo", delay="1h")
    follow(served, until_first(served, later, "scheduled_future")["fix"])
    until_completed(served, later)

    backing_off = submitted(served, type="once_mended")
    reason = until_first(served, backing_off, "retry_backoff")
    assert "not mended" in reason["evidence"]["error"]
    Path(served.folder, "mended").touch()
    follow(served, reason["fix"])
    until_completed(served, backing_off)

    served.ask("POST", "/v1/queues/default/pause", {"reason": "drill"})
    paused = submitted(served, type="echo")
    reason = until_first(served, paused, "queue_paused")
    assert "drill" in reason["text"]
    follow(served, reason["fix"])
    until_completed(served, paused)


@SQLITE_AND_SERVERS
def test_a_blocked_job_names_the_jobs_that_it_waits_for(served: System) -> None:
    parents = [submitted(served, type="echo", delay="1h") for _ in range(2)]
    child = submitted(served, type="echo", after=parents)
    reason = until_first(served, child, "blocked_by_dependency")
    assert reason["evidence"]["waits_for"] == dict.fromkeys(parents, "scheduled")
    assert all(parent in reason["text"] for parent in parents)
    assert follow(served, reason["fix"]) == [f"rota jobs explain {min(parents)}"]
    served.rota("jobs", "run-now", min(parents))
    until_completed(served, min(parents))
    reason = until_first(served, child, "blocked_by_dependency")
    assert reason["evidence"] == {"blockers": 1, "waits_for": {max(parents): "scheduled"}}


@SQLITE_AND_SERVERS
def test_the_advice_for_an_ended_job_is_not_refused(served: System) -> None:
    hopeless = submitted(served, type="hopeless")
    reason = until_first(served, hopeless, "ended_exhausted")
    Path(served.folder, "mended").touch()
    follow(served, reason["fix"])
    until_completed(served, hopeless)

    once = submitted(served, type="at_most_once")
    reason = until_first(served, once, "ended_outcome_unknown")
    assert follow(served, reason["fix"]) == ["rota submit --type at_most_once"]

    stepping = submitted(served, type="stepping")
    reason = until_first(served, stepping, "ended_outcome_unknown")
    resolved, retried = follow(served, reason["fix"])
    assert (resolved, retried) == (f"rota jobs resolve {stepping} charge --happened", f"rota jobs retry {stepping}")
    until_completed(served, stepping)


@SQLITE_AND_SERVERS
def test_the_advice_for_want_of_a_worker_or_a_slot_helps(served: System) -> None:
    other = submitted(served, type="echo", queue="other")
    reason = until_first(served, other, "no_live_worker_for_queue")
    follow(served, reason["fix"])
    until_completed(served, other)

    busy = submitted(served, type="sleep", payload={"duration": 60})
    served.until(lambda: served.job(busy)["status"], lambda status: status == "running")
    waiting = submitted(served, type="echo")
    reason = until_first(served, waiting, "workers_saturated")
    assert reason["evidence"]["busy"] >= reason["evidence"]["slots"] == 1
    follow(served, reason["fix"])
    until_completed(served, waiting)


def test_a_job_whose_queue_has_no_slot_left_is_not_about_to_start(tmp_path: Path) -> None:
    """A worker may give a queue fewer slots than it has: `--queues default:1,other:3`."""
    with open_system(tmp_path) as system:
        system.start("standalone", "--port", str(system.port), "--store", system.store, "--queues", "default:1,other:3")
        system.until_up()
        busy = submitted(system, type="sleep", payload={"duration": 60})
        system.until(lambda: system.job(busy)["status"], lambda status: status == "running")
        waiting = submitted(system, type="echo")
        reason = system.until(
            lambda: reasons(system, waiting)[0], lambda seen: seen["code"] == "workers_saturated", seconds=15
        )
        assert reason["evidence"]["running_in_queue"] == 1
        follow(system, reason["fix"])
        until_completed(system, waiting)


def test_a_due_job_without_a_scheduler_says_so(tmp_path: Path) -> None:
    with open_system(tmp_path) as system:
        system.start("api", "--port", str(system.port), "--store", system.store)
        system.until_up()
        system.start("worker", "--store", system.store)
        unknown = submitted(system, type="unheard_of")
        until_first(system, unknown, "no_worker_registers_type")
        soon = submitted(system, type="echo", queue="side", delay="0.5s")
        reason = until_first(system, soon, "no_live_scheduler")
        follow(system, reason["fix"])
        reason = until_first(system, soon, "no_live_worker_for_queue")
        follow(system, reason["fix"])
        until_completed(system, soon)
