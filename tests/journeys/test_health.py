"""Health problems in real processes: a store that refuses writes, missing schedulers and workers, a paused queue."""

from __future__ import annotations

import json
import signal
import sqlite3
import urllib.error
import urllib.request
from typing import Any

import pytest

from journeys.system import System


def _health(system: System) -> dict[str, Any]:
    """Read /health, whatever its status."""
    try:
        health: dict[str, Any] = system.ask("GET", "/health")
    except urllib.error.HTTPError as error:
        health = json.loads(error.read())
    return health


def _codes(system: System) -> list[str]:
    return [problem["code"] for problem in _health(system)["problems"]]


def _readiness(system: System) -> int:
    try:
        with urllib.request.urlopen(f"{system.url}/readyz", timeout=30) as response:  # noqa: S310 - our own server
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def _metric(system: System, name: str) -> float:
    request = urllib.request.Request(f"{system.url}/metrics", headers={"Accept": "text/plain"})  # noqa: S310 - as above
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - as above
        lines = response.read().decode().splitlines()
    return float(next(line.split()[-1] for line in lines if line.startswith(name)))


def test_a_store_that_takes_no_write_is_told_and_so_is_the_repair(system: System) -> None:
    """The file is locked by another program here; a full disk and a read-only file have the same effect."""
    system.start("standalone", "--port", str(system.port), "--db", system.store)
    system.until_up()
    system.until(lambda: _health(system)["status"], lambda status: status == "healthy")
    assert (_readiness(system), _metric(system, "rota_store_writable")) == (200, 1)
    other = sqlite3.connect(system.folder / system.store, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    system.until(lambda: _codes(system), lambda codes: "store_not_writable" in codes, seconds=30)
    assert _health(system)["status"] == "unhealthy"
    assert (_readiness(system), _metric(system, "rota_store_writable")) == (503, 0)
    assert "unhealthy" in system.rota("status")
    other.close()
    system.until(lambda: _health(system)["status"], lambda status: status == "healthy", seconds=15)
    assert (_readiness(system), _metric(system, "rota_store_writable")) == (200, 1)


@pytest.mark.parametrize("system", ["sqlite", "postgres", "mariadb"], indirect=True)
def test_missing_processes_and_a_paused_queue_are_told_until_they_are_there(system: System) -> None:
    system.start("api", "--port", str(system.port), "--store", system.store)
    system.until_up()
    # What the dashboard names as the store.
    kinds = {"postgresql": "postgres", "mysql": "mysql"}
    assert system.ask("GET", "/v1/system")["store"] == kinds.get(system.store.partition(":")[0], "sqlite")
    system.ask("POST", "/v1/jobs", {"type": "echo", "queue": "mail"})
    wrong = {"no_scheduler", "no_worker_for_queue"}
    system.until(lambda: set(_codes(system)), lambda codes: codes == wrong, seconds=30)
    assert _health(system)["status"] == "degraded"
    assert "rota worker --queues mail" in json.dumps(_health(system))
    assert _metric(system, 'rota_queue_due{queue="mail"}') == 1
    system.ask("POST", "/v1/queues/mail/pause", {"reason": "drill"})
    system.until(lambda: _codes(system), lambda codes: "queue_paused_with_backlog" in codes, seconds=15)
    assert _metric(system, 'rota_queue_paused{queue="mail"}') == 1
    system.start("scheduler", "--store", system.store)
    worker = system.start("worker", "--store", system.store, "--queues", "mail")
    system.until(lambda: _codes(system), lambda codes: codes == ["queue_paused_with_backlog"], seconds=30)
    system.ask("POST", "/v1/queues/mail/resume")
    system.until(lambda: _health(system)["status"], lambda status: status == "healthy", seconds=15)
    worker.send_signal(signal.SIGTERM)
    worker.wait(30)
    system.ask("POST", "/v1/jobs", {"type": "echo", "queue": "mail"})
    system.until(lambda: _codes(system), lambda codes: codes == ["no_worker_for_queue"], seconds=15)
