"""Groups with a fan-in while workers are killed: no callback is lost, none is made or run to its end twice.

Each part returns its number and each callback gets the list of them, so a callback that ran too early, or with results
of other parts, is seen by its own result. Half of the workers are over HTTP, half on the store.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from journeys.system import System
from proofs.limits import own_stage
from proofs.processes import alive, all_jobs
from servers.databases import empty_database
from servers.postgres import migrated_database, shared_server

PARTS = 100
WORKERS = 4
#: How long all groups may take.
PATIENCE_SECONDS = 1_200.0
TASKS = """
from rota import Rota

app = Rota()


@app.task(retry=50)
async def part(number: int) -> int:
    return number


@app.task(retry=50)
async def callback(numbers: list[int]) -> list[int]:
    return [len(numbers), sum(numbers)]
"""


def on_each_store(system: System, *, groups: int, stores: str | None = None) -> str:
    """Run the proof on SQLite, PostgreSQL and MariaDB, or on those that are named."""
    chosen = (stores or "sqlite,postgres,mariadb").split(",")
    summary = []
    if "sqlite" in chosen:
        summary.append(f"sqlite: {prove(replace(system, store=str(system.folder / 'groups.db')), groups=groups)}")
    for name in ("postgres", "mariadb"):
        if name not in chosen:
            continue
        lent = migrated_database(shared_server()) if name == "postgres" else empty_database()
        with asyncio.Runner() as runner:
            url = runner.run(lent.__aenter__())
            with own_stage(system, name, url) as own:
                summary.append(f"{name}: {prove(own, groups=groups)}")
            runner.run(lent.__aexit__(None, None, None))
    return "; ".join(summary)


def prove(system: System, *, groups: int) -> str:
    """Submit groups of 100 jobs with a callback, kill a worker every second, and count the callbacks."""
    (system.folder / "grouped.py").write_text(TASKS, encoding="utf-8")
    system.variables |= {"PYTHONPATH": str(system.folder)}
    system.start("scheduler", "--port", str(system.port), "--store", system.store)
    system.until_up()
    workers = [_worker(system, number) for number in range(WORKERS)]
    begun = time.monotonic()
    with ThreadPoolExecutor(1) as submitter:
        # Workers are killed while groups still come.
        submitting = submitter.submit(_submit, system, groups)
        kills = _kill_until_all_ended(system, workers, submitting.done)
        ids = submitting.result()
    seconds = time.monotonic() - begun
    states = Counter(system.ask("GET", f"/v1/workflows/{one}")["state"] for one in ids)
    callbacks = all_jobs(system, "callback")
    ends = Counter(job["state"] for job in callbacks)
    assert ends.total() == groups, ends
    assert ends["completed"] == states["completed"], (states, ends)
    poison = [job for job in all_jobs(system, "part") if job["state"] != "completed"]
    assert all(job["reason"] == "poison" for job in poison), poison[:3]
    assert states["completed"] + states["failed"] == groups, states
    assert states["failed"] <= len(poison), (states, len(poison))
    seen = [tuple(_result(system, job["id"])) for job in callbacks if job["state"] == "completed"]
    starts = sum(job["attempts"] for job in callbacks)
    assert Counter(seen) == Counter(
        (PARTS, PARTS * number + PARTS * (PARTS - 1) // 2) for number, one in enumerate(ids) if _completed(system, one)
    )
    return (
        f"{groups} groups of {PARTS} with a callback in {seconds:.0f} s, a worker killed {kills} times:"
        f" {len(seen)} callbacks ran to their end with the results of their parts ({starts} starts),"
        f" {states['failed']} groups failed (a part died with three workers), 0 lost, 0 twice"
    )


def _worker(system: System, number: int) -> tuple[str, subprocess.Popen[bytes]]:
    where = ("--store", system.store) if number % 2 else ("--api-url", system.url)
    name = f"grouped-{number}"
    return name, system.start("worker", *where, "--app", "grouped:app", "--worker-id", name, "--lease", "2s")


def _submit(system: System, groups: int) -> list[str]:
    return [system.ask("POST", "/v1/workflows", _group(number))["id"] for number in range(groups)]


def _kill_until_all_ended(
    system: System, workers: list[tuple[str, subprocess.Popen[bytes]]], are_all_there: Callable[[], bool]
) -> int:
    """Kill the oldest worker that has come up, every second, and start another one."""
    kills, number = 0, len(workers)
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while not are_all_there() or _running(system):
        assert time.monotonic() < give_up_at, f"some groups have not ended\n{system.logs()}"
        time.sleep(1)
        known = alive(system)
        victim = next((one for one in workers if one[0] in known), None)
        if victim is None:
            continue
        workers.remove(victim)
        os.kill(victim[1].pid, signal.SIGKILL)
        victim[1].wait()
        workers.append(_worker(system, number))
        number += 1
        kills += 1
    return kills


def _group(number: int) -> dict[str, object]:
    names = [f"part-{place}" for place in range(PARTS)]
    parts = [
        {"name": name, "type": "part", "payload": {"args": [number + place], "kwargs": {}}, "max_attempts": 50}
        for place, name in enumerate(names)
    ]
    callback = {"name": "callback", "type": "callback", "takes": "results", "after": names, "max_attempts": 50}
    return {"name": f"group-{number}", "nodes": [*parts, callback]}


def _completed(system: System, workflow_id: str) -> bool:
    state: str = system.ask("GET", f"/v1/workflows/{workflow_id}")["state"]
    return state == "completed"


def _result(system: System, job_id: str) -> list[int]:
    result: list[int] = system.ask("GET", f"/v1/jobs/{job_id}/result")["result"]
    return result


def _running(system: System) -> int:
    """Count the workflows that have not ended, newest first, until a page has one."""
    cursor = ""
    while True:
        page = system.ask("GET", f"/v1/workflows?limit=500{cursor}")
        left: int = sum(one["state"] == "running" for one in page["items"])
        if page["next_cursor"] is None or left:
            return left
        cursor = f"&cursor={page['next_cursor']}"
