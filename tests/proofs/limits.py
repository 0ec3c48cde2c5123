"""Limits under kills: what runs and starts is counted by a log outside the store, and is never more than allowed.

Several workers drain jobs of many keys under a limit of the queue, a rate, and a limit for each key, while one worker
after the other is killed. A line of the log is written after the claim and before the settlement, so an interval in the
log lies within the time in which the job holds its permit: if the log exceeds a limit, the store did. The job of a
killed worker ends in the log when its worker is killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from journeys.system import System
from proofs.processes import alive, all_jobs, states
from servers.databases import empty_database
from servers.postgres import migrated_database, shared_server

QUEUE_CAP, KEY_CAP, RATE = 10, 2, 50
TESTS = Path(__file__).parent.parent
#: A job whose start is logged late may be counted among those that started after it.
LATE = QUEUE_CAP


@dataclass(frozen=True)
class Scale:
    """How large the proof is."""

    seconds: float = 60
    workers: int = 8
    keys: int = 1000


def on_each_store(system: System, scale: Scale) -> str:
    """Run the proof on SQLite, PostgreSQL and MariaDB."""
    summary = [f"sqlite: {prove(replace(system, store=str(system.folder / 'limits.db')), scale)}"]
    for name, lent in (("postgres", migrated_database(shared_server())), ("mariadb", empty_database())):
        with asyncio.Runner() as runner:
            url = runner.run(lent.__aenter__())
            with own_stage(system, name, url) as own:
                summary.append(f"{name}: {prove(own, scale)}")
            runner.run(lent.__aexit__(None, None, None))
    return "; ".join(summary)


@contextmanager
def own_stage(system: System, name: str, url: str) -> Iterator[System]:
    """Open a system in a folder of its own, on another store."""
    folder = system.folder / name
    folder.mkdir()
    own = System(folder, url)
    try:
        yield own
    finally:
        for process in own.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def prove(system: System, scale: Scale) -> str:
    log = system.folder / "starts.log"
    system.variables |= {"LIMITED_TASKS_LOG": str(log), "PYTHONPATH": str(TESTS)}
    server = system.start("scheduler", "--store", system.store, "--port", str(system.port))
    system.until_up()
    system.ask("PUT", "/v1/limits/queue:limited", {"max_running": QUEUE_CAP, "rate_limit": f"{RATE}/s"})
    system.ask("PUT", "/v1/limits/task:work", {"per_key_max_running": KEY_CAP})
    count = _submit(system, scale)
    workers = [_worker(system, number) for number in range(scale.workers)]
    system.until(lambda: alive(system), lambda names: len(names) == scale.workers)
    kills = _kill_one_after_the_other(system, workers, scale)
    system.until(lambda: _left(system, count), lambda left: not left, seconds=60 + 6 * scale.seconds)
    dead = [job for job in all_jobs(system, "work") if job["state"] == "dead"]
    assert all(job["reason"] == "poison" for job in dead), dead[:3]
    held = system.ask("GET", "/v1/limits/queue:limited")
    assert (held["running"], held["waiting"]) == (0, 0), held
    # The PostgreSQL of tests is quick and not safe, which the check says.
    code = 9 if system.store.startswith("postgres") else 0
    assert "limit " not in system.rota("db", "check", "--store", system.store, code=code)
    for process in workers:
        process.terminate()
    summary = judge(log, kills)
    server.terminate()
    ends = f"{count} jobs, {len(dead)} of them dead after three kills"
    return f"{ends}, {summary}, {len(kills)} workers killed, 0 held at the end"


def _submit(system: System, scale: Scale) -> int:
    """Submit jobs for about the time of the proof; some keys have many jobs, most have few."""
    count = int(scale.seconds * RATE)
    keys = [f"work:{number % scale.keys if number % 3 else number % 7}" for number in range(count)]
    for first in range(0, count, 1000):
        jobs = [
            {"type": "work", "queue": "limited", "payload": {"key": key, "seconds": 0.05 + (number % 5) / 20},
             "concurrency_key": key, "max_attempts": 50}
            for number, key in enumerate(keys[first : first + 1000])
        ]  # fmt: skip
        system.ask("POST", "/v1/jobs:batch", {"jobs": jobs})
    return count


def _left(system: System, count: int) -> list[str]:
    """Return what is known of the jobs that have not ended, of the first ones.

    A job whose worker was killed three times is dead: it is taken for the cause.
    """
    counts = states(system)
    if counts.get("completed", 0) + counts.get("dead", 0) == count:
        return []
    found = [job for job in all_jobs(system, "work") if job["state"] not in {"completed", "dead"}]
    known = [str(counts)]
    return known + [f"{job['id']} {job['state']} attempts {job['attempts']} {job.get('error')}" for job in found[:5]]


def _worker(system: System, number: int) -> subprocess.Popen[bytes]:
    where = ("--store", system.store, "--app", "journeys.limited_tasks:app")
    return system.start("worker", *where, "--worker-id", f"limited-{number}", "--concurrency", "4")


def _kill_one_after_the_other(system: System, workers: list[subprocess.Popen[bytes]], scale: Scale) -> dict[int, int]:
    """Kill a worker every second and start another one in its place; return when each was killed, by process id."""
    kills: dict[int, int] = {}
    begun, number = time.monotonic(), scale.workers
    while time.monotonic() < begun + scale.seconds:
        time.sleep(1)
        victim = workers.pop(0)
        # Not its lease keeper, which hands its jobs back.
        kills[victim.pid] = time.monotonic_ns()
        victim.kill()
        victim.wait()
        workers.append(_worker(system, number))
        number += 1
    return kills


def judge(log: Path, kills: dict[int, int]) -> str:
    """Walk the log in the order of time, and hold it to the limits."""
    lines = [line.split(" ", 3) for line in log.read_text().splitlines()]
    moments = [(int(words[1]), words[0] == "start", int(words[2]), words[3]) for words in lines]
    moments += [(moment, False, pid, "") for pid, moment in kills.items()]
    running: list[tuple[int, str]] = []
    starts: list[int] = []
    most, most_of_key = 0, 0
    for moment, is_start, pid, key in sorted(moments):
        # Between the moment that is noted and the kill itself a worker may write another line.
        is_killed = moment > kills.get(pid, moment)
        if is_start:
            starts.append(moment)
        if is_start and not is_killed:
            running.append((pid, key))
        elif is_killed or is_start:
            continue
        elif key:
            running.remove((pid, key))
        else:
            running = [one for one in running if one[0] != pid]
        most = max(most, len(running))
        most_of_key = max(most_of_key, max(Counter(one for _, one in running).values(), default=0))
    assert most <= QUEUE_CAP, f"{most} jobs ran at once"
    assert most_of_key <= KEY_CAP, f"{most_of_key} jobs of one key ran at once"
    fastest = _most_starts(starts, 5.0)
    assert fastest <= RATE * 5 + RATE + LATE, f"{fastest} starts in 5 s"
    return f"{len(starts)} starts, at most {most} at once, {most_of_key} of one key, {fastest} in 5 s"


def _most_starts(starts: list[int], seconds: float) -> int:
    """Return the most starts in any span of so many seconds."""
    most, first = 0, 0
    for last, moment in enumerate(starts):
        while starts[first] < moment - seconds * 1e9:
            first += 1
        most = max(most, last - first + 1)
    return most
