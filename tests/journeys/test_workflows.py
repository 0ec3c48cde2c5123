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

from journeys.stage import SERVERS, Stage
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


def worker(stage: Stage, *where: str, effects: Path) -> Popen[bytes]:
    told = {"EFFECTS": str(effects)}
    return stage.start("worker", "--app", "tasks:app", "--concurrency", "4", *where, environment=told)


def flow_of(stage: Stage, effects: Path, url: str) -> tuple[Rota, Flow[str]]:
    os.environ["EFFECTS"] = str(effects)
    sys.path.insert(0, str(stage.folder))
    try:
        sys.modules.pop("tasks", None)
        import tasks  # type: ignore[import-not-found]  # noqa: PLC0415 - written by this test
    finally:
        sys.path.pop(0)
        del os.environ["EFFECTS"]
    tasks.app.configure(replace(tasks.app.settings), url)
    return tasks.app, tasks.etl(PARTS)


def until_it_has_run(stage: Stage, pid: int, runs: Path, *, seconds: float) -> None:
    """Wait so long, and until this worker has run a dozen jobs, or few are left."""
    begun = time.monotonic()

    def is_enough(lines: list[str]) -> bool:
        own = sum(line.endswith(f" {pid}") for line in lines)
        return (own >= 12 or len(lines) >= PARTS - 10) and time.monotonic() >= begun + seconds

    stage.until(lambda: runs.read_text().splitlines() if runs.exists() else [], is_enough)


def until_none_has_died_twice(stage: Stage) -> None:
    """Wait until all jobs have ended that two workers have died with.

    With the third the job is dead as poison, by design; on a busy machine workers may die with the same jobs.
    """

    def survivors() -> list[str]:
        jobs = stage.ask("GET", "/v1/jobs?status=pending,running&limit=500")["items"]
        return [job["id"] for job in jobs if job["attempts"] - (job["state"] == "running") >= 2]

    stage.until(survivors, lambda ids: not ids)


@pytest.mark.parametrize("over_http", [False, True], ids=["store", "http"])
@pytest.mark.parametrize("stage", ["sqlite", *SERVERS], indirect=True)
def test_a_fan_out_and_fan_in_survives_a_worker_killed_every_second(stage: Stage, *, over_http: bool) -> None:
    effects = stage.folder / "effects"
    effects.mkdir()
    (stage.folder / "tasks.py").write_text(TASKS)
    stage.start("scheduler", "--port", str(stage.port), "--store", stage.store)
    stage.until_up()
    where = ("--api-url", stage.url) if over_http else ("--store", stage.store)
    workers = [worker(stage, *where, effects=effects) for _ in range(2)]
    store = stage.store if "://" in stage.store else str(stage.folder / stage.store)
    app, flow = flow_of(stage, effects, stage.url if over_http else store)
    handle = flow.submit(name="etl")
    for number in range(3):
        until_it_has_run(stage, workers[number % 2].pid, effects / "runs", seconds=1)
        until_none_has_died_twice(stage)
        os.kill(workers[number % 2].pid, signal.SIGKILL)
        workers[number % 2].wait()
        workers[number % 2] = worker(stage, *where, effects=effects)
    assert handle.result("120s") == f"{PARTS * (PARTS - 1)} in all"
    assert dict(handle.progress) == {"completed": PARTS + 2}
    app.close()
    assert sorted(one.name for one in effects.iterdir()) == sorted(
        ["runs", "report", "total", *(f"part-{part}" for part in range(PARTS))]
    )
    jobs = stage.ask("GET", "/v1/jobs?type=total,report&limit=10")["items"]
    assert sorted((job["type"], job["status"]) for job in jobs) == [("report", "completed"), ("total", "completed")]
