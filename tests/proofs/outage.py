"""The database is killed under load and restarted, again and again; only the database is restarted.

Jobs are submitted at a steady rate, each with a key, so that a submission whose answer was lost can be repeated. Before
each blow the rate of completions is taken, and again in the seconds after the database is back.
"""

from __future__ import annotations

import threading
import time
import urllib.error
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from journeys.system import System
from proofs.processes import alive, all_jobs, states

BATCH, EVERY_SECONDS = 20, 0.1
HEAL_SECONDS = 10.0


class Load:
    """Submits jobs steadily, and remembers which were acknowledged."""

    def __init__(self, system: System) -> None:
        self._stage = system
        self.acknowledged: set[str] = set()
        self.refusals = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        number, due = 0, time.monotonic()
        while not self._is_over.is_set():
            jobs = [{"type": "echo", "payload": 1, "idempotency_key": f"{number}-{one}"} for one in range(BATCH)]
            self._submit({"jobs": jobs})
            number += 1
            due = max(due + EVERY_SECONDS, time.monotonic() - EVERY_SECONDS)
            self._is_over.wait(max(due - time.monotonic(), 0))

    def _submit(self, body: object) -> None:
        """Submit until it is acknowledged: the same keys make the same jobs."""
        while True:
            try:
                items = self._stage.ask("POST", "/v1/jobs:batch", body)["items"]
            except (urllib.error.URLError, TimeoutError, ConnectionError):
                self.refusals += 1
                if self._is_over.wait(0.05):
                    return
            else:
                self.acknowledged.update(item["id"] for item in items)
                return


def prove(system: System, name: str, strike: Callable[[], None], *, times: int) -> str:
    system.start("api", "--store", system.store, "--port", str(system.port))
    system.until_up()
    system.start("scheduler", "--store", system.store)
    for number in (1, 2):
        system.start("worker", "--store", system.store, "--worker-id", f"worker-{number}")
    system.until(lambda: alive(system), lambda names: len(names) == 2)
    shares: list[float] = []
    with Load(system) as load:
        completed_per_second(system, 3.0)
        for _ in range(times):
            before = completed_per_second(system, 4.0)
            strike()
            back_at = time.monotonic()
            time.sleep(HEAL_SECONDS / 2)
            shares.append(completed_per_second(system, HEAL_SECONDS - (time.monotonic() - back_at)) / before)
    assert all(process.poll() is None for process in system.started), f"a process ended\n{system.logs()}"
    system.until(
        lambda: states(system),
        lambda counts: not any(counts[one] for one in ("pending", "running", "retrying", "scheduled", "queued")),
        seconds=90,
    )
    jobs = {job["id"]: job for job in all_jobs(system, "echo")}
    lost = load.acknowledged - set(jobs)
    unfinished = [one for one in load.acknowledged if one in jobs and jobs[one]["status"] != "completed"]
    summary = (
        f"{name}: {times} blows, {len(load.acknowledged):,} acknowledged, {len(lost)} lost, {len(unfinished)} not done"
        f", {load.refusals} refusals; rate {HEAL_SECONDS / 2:.0f}-{HEAL_SECONDS:.0f} s after its return as a share of"
        f" the former: lowest {min(shares):.2f}, all {[round(one, 2) for one in shares]}"
    )
    assert not lost, summary
    assert not unfinished, summary
    assert min(shares) >= 0.9, summary
    return summary


def completed_per_second(system: System, seconds: float) -> float:
    """Measure completions per second."""
    begun, before = time.monotonic(), _completed(system)
    time.sleep(seconds)
    return (_completed(system) - before) / (time.monotonic() - begun)


def _completed(system: System) -> int:
    return system.until(lambda: _states(system), bool, seconds=30)["completed"]


def _states(system: System) -> dict[str, int]:
    with suppress(urllib.error.URLError, TimeoutError, ConnectionError):
        return states(system)
    return {}


def postgres_dies(folder: Path, *, times: int) -> str:
    """Kill a durable PostgreSQL with -9 and start it again."""
    from servers.postgres import PostgresServer, require_binaries  # noqa: PLC0415 - where it is installed

    server = PostgresServer(require_binaries(), {})

    def strike() -> None:
        server.kill()
        server.start()

    try:
        return _on(folder, server.dsn(), "PostgreSQL killed", strike, times=times)
    finally:
        server.remove()


def postgres_cuts_off(folder: Path, *, times: int) -> str:
    """Have PostgreSQL end every connection."""
    import asyncio  # noqa: PLC0415 - only here

    import asyncpg  # noqa: PLC0415 - where it is installed

    from servers.postgres import PostgresServer, require_binaries  # noqa: PLC0415 - as above

    server = PostgresServer(require_binaries(), {})

    async def cut() -> None:
        connection = await asyncpg.connect(server.dsn())
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        await connection.close()

    try:
        return _on(folder, server.dsn(), "every connection ended", lambda: asyncio.run(cut()), times=times)
    finally:
        server.remove()


def mariadb_dies(folder: Path, *, times: int) -> str:
    """Kill a durable MariaDB with -9 and start it again."""
    from servers.mariadb import MariadbServer, require_binary  # noqa: PLC0415 - where it is installed

    server = MariadbServer(require_binary())
    server.execute("CREATE DATABASE rota")

    def strike() -> None:
        server.kill()
        server.start()

    try:
        return _on(folder, server.url("rota"), "MariaDB killed", strike, times=times)
    finally:
        server.remove()


def _on(folder: Path, store: str, name: str, strike: Callable[[], None], *, times: int) -> str:
    from journeys.system import open_system  # noqa: PLC0415 - as the others

    with open_system(folder, store) as system:
        return prove(system, name, strike, times=times)
