"""A dependency that is down under load: how many calls reach it while its circuit breaker is open.

The dependency is a TCP server of this process, so each call is counted outside the store. Jobs are submitted all the
time. Two workers run them, one on the store and one over HTTP. Then the dependency closes every connection for a while.
"""

from __future__ import annotations

import asyncio
import math
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from journeys.system import System
from proofs.limits import TESTS, own_stage
from proofs.processes import alive, all_jobs
from servers.databases import empty_database
from servers.postgres import migrated_database, shared_server

SLOTS, WORKERS = 4, 2
#: What a loaded machine may need beyond a period of probes: a worker looks again after a second.
SLACK_SECONDS = 5.0


@dataclass(frozen=True)
class Scale:
    """How large the proof is."""

    down_seconds: float = 30
    open_seconds: float = 5
    jobs_per_second: int = 20


@dataclass
class Dependency:
    """A service that answers, or closes each connection; it notes when it was called."""

    is_up: bool = True
    calls: list[tuple[float, bool]] = field(default_factory=list)
    port: int = 0

    @contextmanager
    def served(self) -> Iterator[None]:
        with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
            self.port = server.getsockname()[1]
            threading.Thread(target=self._serve, args=(server,), daemon=True).start()
            yield

    def _serve(self, server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            self.calls.append((time.time(), self.is_up))
            threading.Thread(target=self._answer, args=(connection, self.is_up), daemon=True).start()

    def _answer(self, connection: socket.socket, is_up: bool) -> None:  # noqa: FBT001 - one of two answers
        time.sleep(0.05)
        with connection:
            if is_up:
                connection.sendall(b"ok")


@dataclass
class Submitter:
    """Submits jobs at a steady pace, until it is stopped."""

    system: System
    scale: Scale
    count: int = 0
    is_stopped: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        some = max(self.scale.jobs_per_second // 4, 1)
        while not self.is_stopped.wait(0.25):
            jobs = [{"type": "call", "queue": "calls", "payload": {}, "max_attempts": 3}] * some
            self.count += len(self.system.ask("POST", "/v1/jobs:batch", {"jobs": jobs})["items"])


def on_each_store(system: System, scale: Scale) -> str:
    """Run the proof on SQLite, PostgreSQL and MariaDB."""
    results = [f"sqlite: {prove(replace(system, store=str(system.folder / 'breaker.db')), scale)}"]
    for name, lent in (("postgres", migrated_database(shared_server())), ("mariadb", empty_database())):
        with asyncio.Runner() as runner:
            url = runner.run(lent.__aenter__())
            with own_stage(system, name, url) as own:
                results.append(f"{name}: {prove(own, scale)}")
            runner.run(lent.__aexit__(None, None, None))
    return "; ".join(results)


def prove(system: System, scale: Scale) -> str:
    dependency = Dependency()
    with dependency.served():
        system.variables |= {
            "PYTHONPATH": str(TESTS),
            "DEPENDENCY_PORT": str(dependency.port),
            "DEPENDENCY_OPEN_SECONDS": str(scale.open_seconds),
        }
        return _prove(system, scale, dependency)


def _prove(system: System, scale: Scale, dependency: Dependency) -> str:
    app = ("--app", "journeys.dependent_tasks:app")
    server = system.start("scheduler", "--store", system.store, "--port", str(system.port), *app)
    system.until_up()
    slots = ("--queues", "calls", "--concurrency", str(SLOTS))
    workers = [
        system.start("worker", "--store", system.store, "--worker-id", "on-store", *app, *slots),
        system.start("worker", "--api-url", system.url, "--worker-id", "over-http", *app, *slots),
    ]
    system.until(lambda: alive(system), lambda names: len(names) == WORKERS)
    submitter = Submitter(system, scale)
    thread = threading.Thread(target=submitter.run)
    thread.start()
    try:
        system.until(lambda: len(dependency.calls), lambda number: number >= 3 * scale.jobs_per_second)
        seen = _take_down(system, scale, dependency)
    finally:
        submitter.is_stopped.set()
        thread.join()
    system.until(lambda: _unfinished(system), lambda left: not left, seconds=120)
    for process in (*workers, server):
        process.terminate()
    return f"{submitter.count} jobs, {seen}, all completed"


def _take_down(system: System, scale: Scale, dependency: Dependency) -> str:
    """Take the dependency down for a while, and judge what reached it until the breaker closed again."""
    dependency.is_up = False
    down_at = time.time()
    system.until(lambda: _breaker(system)["state"], lambda state: state == "open")
    opened_at = _moment(_breaker(system)["since"])
    time.sleep(max(down_at + scale.down_seconds - time.time(), 0))
    waiting = [job for job in all_jobs(system, "call") if job["state"] == "pending" and _made_at(job) > opened_at + 1]
    assert waiting, "no job waits"
    assert {job["attempts"] for job in waiting} == {0}, waiting[:3]
    dependency.is_up = True
    up_at = time.time()
    system.until(lambda: _breaker(system)["state"], lambda state: state == "closed", seconds=scale.open_seconds + 30)
    closed_at = _moment(_breaker(system)["since"])
    assert _breaker(system)["opened"] == 1
    reached = [at for at, _ in dependency.calls if opened_at < at <= closed_at]
    periods = math.ceil((closed_at - opened_at) / scale.open_seconds)
    assert len(reached) <= SLOTS * WORKERS + periods, f"{len(reached)} calls in {periods} periods of probes"
    assert closed_at - up_at <= scale.open_seconds + SLACK_SECONDS, f"closed {closed_at - up_at:.1f} s after it was up"
    return (
        f"down {scale.down_seconds:.0f} s, opened after {opened_at - down_at:.1f} s, then {len(reached)} calls in"
        f" {periods} periods, {len(waiting)} jobs wait with 0 attempts, closed {closed_at - up_at:.1f} s after it was"
        " up again"
    )


def _breaker(system: System) -> dict[str, Any]:
    found: dict[str, Any] = system.ask("GET", "/v1/breakers/dependency")
    return found


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).astimezone(UTC).timestamp()


def _made_at(job: dict[str, Any]) -> float:
    return _moment(job["created_at"])


def _unfinished(system: System) -> list[str]:
    """Return what is known of the first jobs that are not completed."""
    counted = system.ask("GET", "/v1/stats")["states"]
    return [f"{state}: {number}" for state, number in counted.items() if state != "completed" and number]
