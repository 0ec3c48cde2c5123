"""`rota bench` against real processes: what it measures, what it leaves behind, and the commands of its page."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from journeys.system import PATIENCE_SECONDS, System
from rota.cli.exits import Exit

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "measure-your-deployment.md"


def standalone(system: System, *more: str) -> None:
    system.start("standalone", "--port", str(system.port), "--db", system.store, *more)
    system.until_up()


def serving(system: System) -> None:
    """Start one whose worker serves the bench's queue too, and wait until that is known."""
    standalone(system, "--queues", "default,rota-bench")
    system.until(lambda: system.ask("GET", "/v1/queues/rota-bench")["live_workers"], bool)


def counts(system: System) -> dict[str, int]:
    states: dict[str, int] = system.ask("GET", "/v1/stats")["states"]
    return {state: count for state, count in states.items() if count}


def report_of(text: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(text)
    return report


def test_jobs_are_submitted_at_a_rate_and_their_run_is_measured(system: System) -> None:
    serving(system)
    report = report_of(system.rota("bench", "--rate", "100", "--duration", "1s", "--wait", "1m", "--json"))
    submitted, run = report["submitted"], report["run"]
    assert 0 < submitted <= 100
    assert report["errors"] == {}
    assert (run["left"], run["start"]["count"], run["finish"]["count"]) == (0, submitted, submitted)
    assert 0 < run["start"]["p50_seconds"] <= run["finish"]["p50_seconds"]
    assert run["rate"] > 0
    measured = report["measured"]
    assert all(measured[name] > 0 for name in measured), measured
    assert report["limits"]
    assert counts(system).keys() == {"completed"}


def test_what_nobody_ran_is_deleted_and_the_report_is_for_people(system: System) -> None:
    standalone(system)
    printed = system.rota("bench", "--duration", "500ms", "--batch", "20", "--connections", "3")
    assert re.search(r"^submitted  [\d,]+ jobs in [\d.]+ s: [\d,]+ a second$", printed, re.MULTILINE)
    assert re.search(r"^  p50 .+   p90 .+   p99 .+   max .+$", printed, re.MULTILINE)
    assert re.search(r"what limits it\n  .+\n    fix: ", printed)
    assert counts(system) == {}


def test_nobody_is_waited_for_where_nobody_works(system: System) -> None:
    standalone(system)
    system.rota("bench", "--wait", code=Exit.ERROR)
    assert counts(system) == {}


def test_a_full_queue_shows_as_an_error_of_that_kind(system: System) -> None:
    standalone(system)
    system.rota("queues", "set-limit", "rota-bench", "--max-depth", "20")
    for batch in ("1", "10"):
        report = report_of(system.rota("bench", "--duration", "500ms", "--batch", batch, "--json", "--keep"))
        assert set(report["errors"]) == {"429 queue_full"}
        assert report["limits"][0]["code"] == "errors"
        assert "set-limit" in report["limits"][0]["fix"]
        # What the first has left fills the queue for the second: then nothing can be made, and that is a failure.
        system.rota("bench", "--duration", "200ms", "--json", code=Exit.ERROR)
        ids = [job["id"] for job in system.ask("GET", "/v1/jobs?queue=rota-bench&status=pending&limit=500")["items"]]
        system.ask("POST", "/v1/jobs:cancel", {"ids": ids})
        assert len(ids) == 20


def test_an_interruption_gives_the_report_and_leaves_nothing(system: System) -> None:
    standalone(system)
    bench = subprocess.Popen(
        [sys.executable, "-m", "rota", "bench", "--duration", "1h", "--connections", "2", "--json"],
        env=system.environment,
        cwd=system.folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    system.until(lambda: counts(system).get("pending", 0), lambda waiting: waiting > 30)
    bench.send_signal(signal.SIGINT)
    printed, _ = bench.communicate(timeout=PATIENCE_SECONDS)
    assert bench.returncode == Exit.INTERRUPTED
    report = report_of(printed)
    assert report["is_interrupted"]
    assert report["submitted"] > 0
    # It is unknown whether the two requests that were under way made jobs.
    assert counts(system).get("pending", 0) <= 2


def test_the_commands_of_the_page_work(system: System) -> None:
    serving(system)
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    commands = [shlex.split(line) for block in blocks for line in block.splitlines()]
    benches = [command[1:] for command in commands if command[:2] == ["rota", "bench"]]
    assert len(benches) > 5
    for words in benches:
        system.rota(*words, "--duration", "200ms")
    others = [command[1:] for command in commands if command[1] not in {"bench", "worker"}]
    for words in others:
        system.rota(*words)
