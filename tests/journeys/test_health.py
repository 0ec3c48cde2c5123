"""Health says what is so: a store that takes no write, missing schedulers and workers, a paused queue."""

from __future__ import annotations

import json
import signal
import sqlite3
import urllib.error
import urllib.request
from typing import Any

import pytest

from journeys.stage import Stage


def _health(stage: Stage) -> dict[str, Any]:
    """Read /health, whatever its status."""
    try:
        health: dict[str, Any] = stage.ask("GET", "/health")
    except urllib.error.HTTPError as error:
        health = json.loads(error.read())
    return health


def _codes(stage: Stage) -> list[str]:
    return [problem["code"] for problem in _health(stage)["problems"]]


def _readiness(stage: Stage) -> int:
    try:
        with urllib.request.urlopen(f"{stage.url}/readyz", timeout=30) as response:  # noqa: S310 - our own server
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def _metric(stage: Stage, name: str) -> float:
    request = urllib.request.Request(f"{stage.url}/metrics", headers={"Accept": "text/plain"})  # noqa: S310 - as above
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - as above
        lines = response.read().decode().splitlines()
    return float(next(line.split()[-1] for line in lines if line.startswith(name)))


def test_a_store_that_takes_no_write_is_told_and_so_is_the_repair(stage: Stage) -> None:
    """The file is locked by another program here; a full disk and a read-only file have the same effect."""
    stage.start("standalone", "--port", str(stage.port), "--db", stage.store)
    stage.until_up()
    stage.until(lambda: _health(stage)["status"], lambda status: status == "healthy")
    assert (_readiness(stage), _metric(stage, "rota_store_writable")) == (200, 1)
    other = sqlite3.connect(stage.folder / stage.store, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    stage.until(lambda: _codes(stage), lambda codes: "store_not_writable" in codes, seconds=30)
    assert _health(stage)["status"] == "unhealthy"
    assert (_readiness(stage), _metric(stage, "rota_store_writable")) == (503, 0)
    assert "unhealthy" in stage.rota("status")
    other.close()
    stage.until(lambda: _health(stage)["status"], lambda status: status == "healthy", seconds=15)
    assert (_readiness(stage), _metric(stage, "rota_store_writable")) == (200, 1)


@pytest.mark.parametrize("stage", ["sqlite", "postgres", "mariadb"], indirect=True)
def test_missing_processes_and_a_paused_queue_are_told_until_they_are_there(stage: Stage) -> None:
    stage.start("api", "--port", str(stage.port), "--store", stage.store)
    stage.until_up()
    # What the dashboard names as the store.
    kinds = {"postgresql": "postgres", "mysql": "mysql"}
    assert stage.ask("GET", "/v1/system")["store"] == kinds.get(stage.store.partition(":")[0], "sqlite")
    stage.ask("POST", "/v1/jobs", {"type": "echo", "queue": "mail"})
    wrong = {"no_scheduler", "no_worker_for_queue"}
    stage.until(lambda: set(_codes(stage)), lambda codes: codes == wrong, seconds=30)
    assert _health(stage)["status"] == "degraded"
    assert "rota worker --queues mail" in json.dumps(_health(stage))
    assert _metric(stage, 'rota_queue_due{queue="mail"}') == 1
    stage.ask("POST", "/v1/queues/mail/pause", {"reason": "drill"})
    stage.until(lambda: _codes(stage), lambda codes: "queue_paused_with_backlog" in codes, seconds=15)
    assert _metric(stage, 'rota_queue_paused{queue="mail"}') == 1
    stage.start("scheduler", "--store", stage.store)
    worker = stage.start("worker", "--store", stage.store, "--queues", "mail")
    stage.until(lambda: _codes(stage), lambda codes: codes == ["queue_paused_with_backlog"], seconds=30)
    stage.ask("POST", "/v1/queues/mail/resume")
    stage.until(lambda: _health(stage)["status"], lambda status: status == "healthy", seconds=15)
    worker.send_signal(signal.SIGTERM)
    worker.wait(30)
    stage.ask("POST", "/v1/jobs", {"type": "echo", "queue": "mail"})
    stage.until(lambda: _codes(stage), lambda codes: codes == ["no_worker_for_queue"], seconds=15)
