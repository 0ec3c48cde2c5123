"""Workflows with workers that are killed: each part's effect once, the callback once, on every store and over HTTP."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from subprocess import Popen

import pytest

from journeys.system import SERVERS, System
from rota import Flow, Rota

PARTS = 200
TASKS = """
import os
import time
from pathlib import Path

from rota import Rota, map

app = Rota()
EFFECTS = Path(os.environ["EFFECTS"])


def once(name: str) -> None:
    # The effect: a file that can be made once. `runs` tells how often it was tried.
    with (EFFECTS / "runs").open("a") as runs:
        runs.write(f"{name} {os.getpid()}\\n")
    try:
        (EFFECTS / name).touch(exist_ok=False)
    except FileExistsError:
        pass


@app.task
def extract(part: int) -> int:
    once(f"part-{part}")
    time.sleep(0.05)
    return part * 2


@app.task
def total(values: list[int]) -> int:
    once("total")
    return sum(values)


@app.task
def report(value: int) -> str:
    once("report")
    return f"{value} in all"


def etl(parts: int):
    return map(extract, range(parts)).then(total).then(report)
"""


def worker(system: System, *where: str, effects: Path) -> Popen[bytes]:
    variables = {"EFFECTS": str(effects)}
    return system.start("worker", "--app", "tasks:app", "--concurrency", "4", *where, environment=variables)


def flow_of(system: System, effects: Path, url: str) -> tuple[Rota, Flow[str]]:
    os.environ["EFFECTS"] = str(effects)
    sys.path.insert(0, str(system.folder))
    try:
        sys.modules.pop("tasks", None)
        import tasks  # type: ignore[import-not-found]  # noqa: PLC0415 - written by this test
    finally:
        sys.path.pop(0)
        del os.environ["EFFECTS"]
    tasks.app.configure(replace(tasks.app.settings), url)
    return tasks.app, tasks.etl(PARTS)


def until_it_has_run(system: System, pid: int, runs: Path, *, seconds: float) -> None:
    """Wait so long, and until this worker has run a dozen jobs, or few are left."""
    begun = time.monotonic()

    def is_enough(lines: list[str]) -> bool:
        own = sum(line.endswith(f" {pid}") for line in lines)
        return (own >= 12 or len(lines) >= PARTS - 10) and time.monotonic() >= begun + seconds

    system.until(lambda: runs.read_text().splitlines() if runs.exists() else [], is_enough)


def until_none_has_died_twice(system: System) -> None:
    """Wait until all jobs have ended that two workers have died with.

    With the third the job is dead as poison, by design; on a busy machine workers may die with the same jobs.
    """

    def survivors() -> list[str]:
        jobs = system.ask("GET", "/v1/jobs?status=pending,running&limit=500")["items"]
        return [job["id"] for job in jobs if job["attempts"] - (job["state"] == "running") >= 2]

    system.until(survivors, lambda ids: not ids)


@pytest.mark.parametrize("over_http", [False, True], ids=["store", "http"])
@pytest.mark.parametrize("system", ["sqlite", *SERVERS], indirect=True)
def test_a_fan_out_and_fan_in_survives_a_worker_killed_every_second(system: System, *, over_http: bool) -> None:
    effects = system.folder / "effects"
    effects.mkdir()
    (system.folder / "tasks.py").write_text(TASKS)
    system.start("scheduler", "--port", str(system.port), "--store", system.store)
    system.until_up()
    where = ("--api-url", system.url) if over_http else ("--store", system.store)
    workers = [worker(system, *where, effects=effects) for _ in range(2)]
    store = system.store if "://" in system.store else str(system.folder / system.store)
    app, flow = flow_of(system, effects, system.url if over_http else store)
    handle = flow.submit(name="etl")
    for number in range(3):
        until_it_has_run(system, workers[number % 2].pid, effects / "runs", seconds=1)
        until_none_has_died_twice(system)
        os.kill(workers[number % 2].pid, signal.SIGKILL)
        workers[number % 2].wait()
        workers[number % 2] = worker(system, *where, effects=effects)
    assert handle.result("120s") == f"{PARTS * (PARTS - 1)} in all"
    assert dict(handle.progress) == {"completed": PARTS + 2}
    app.close()
    assert sorted(one.name for one in effects.iterdir()) == sorted(
        ["runs", "report", "total", *(f"part-{part}" for part in range(PARTS))]
    )
    jobs = system.ask("GET", "/v1/jobs?type=total,report&limit=10")["items"]
    assert sorted((job["type"], job["status"]) for job in jobs) == [("report", "completed"), ("total", "completed")]
