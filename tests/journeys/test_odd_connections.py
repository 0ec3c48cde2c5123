"""Connections of running processes that fail: reset as soon as they are accepted, or half-open.

Nobody restarts anything. What must hold: every process lives, no request gets a 500, and after the failure a job that
is submitted is finished within `BUDGET_SECONDS`.
"""

from __future__ import annotations

import threading
import time
import urllib.error
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import pytest

from journeys.system import System
from proofs.processes import alive
from servers.proxies import Proxy

BUDGET_SECONDS = 10.0
#: What a busy machine may add.
SLACK_SECONDS = 2.0
OUTAGE_SECONDS = 4.0

on_servers = pytest.mark.parametrize("system", ["postgres", "mariadb"], indirect=True)


class Load:
    """Submits a job every 50 ms from two threads, and counts the answers by their status; 0 for none."""

    def __init__(self, system: System) -> None:
        self._stage = system
        self.statuses: Counter[int] = Counter()
        self.longest_seconds = 0.0
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(2)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(0.05):
            begun = time.monotonic()
            self.statuses[self._submit()] += 1
            self.longest_seconds = max(self.longest_seconds, time.monotonic() - begun)

    def _submit(self) -> int:
        try:
            self._stage.ask("POST", "/v1/jobs", {"type": "echo", "payload": 1})
        except urllib.error.HTTPError as error:
            return error.code
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return 0
        return 201

    def until(self, status: int) -> None:
        """Wait until more answers with this status have come."""
        before = self.statuses[status]
        self._stage.until(lambda: self.statuses[status], lambda count: count > before + 3)


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


def seconds_to_finish_a_job(system: System) -> float:
    """Submit a job, again if that is refused, and say how long it took until it was finished."""
    begun = time.monotonic()

    def submitted() -> str:
        try:
            return str(system.ask("POST", "/v1/jobs", {"type": "echo", "payload": 2})["id"])
        except urllib.error.HTTPError:
            return ""

    job_id = system.until(submitted, bool)

    def state() -> str:
        try:
            return str(system.job(job_id)["state"])
        except urllib.error.HTTPError:
            return ""

    system.until(state, lambda one: one == "completed", seconds=150)
    return time.monotonic() - begun


def ended(system: System) -> int:
    """Count the processes that are gone."""
    return sum(process.poll() is not None for process in system.started)


@contextmanager
def services_behind_a_proxy(system: System) -> Iterator[Proxy]:
    """Start an API, a scheduler and two workers, all of which reach the database through a proxy."""
    with Proxy(port_of(system.store)) as proxy:
        store = proxy.through(system.store)
        system.start("api", "--store", store, "--port", str(system.port))
        system.until_up()
        system.start("scheduler", "--store", store)
        for name in ("worker-1", "worker-2"):
            system.start("worker", "--store", store, "--worker-id", name)
        system.until(lambda: alive(system), lambda names: names == {"worker-1", "worker-2"})
        yield proxy


@contextmanager
def workers_behind_a_proxy(system: System) -> Iterator[Proxy]:
    """Start an API with a scheduler, and two workers that reach it through a proxy."""
    system.start("scheduler", "--db", system.store, "--port", str(system.port))
    system.until_up()
    with Proxy(system.port) as proxy:
        for name in ("worker-1", "worker-2"):
            system.start("worker", "--worker-id", name, "--api-url", proxy.through(system.url))
        system.until(lambda: alive(system), lambda names: names == {"worker-1", "worker-2"})
        yield proxy


def report(what: str, system: System, seconds: float, load: Load | None = None) -> str:
    summary = "" if load is None else f", answers {dict(load.statuses)}, slowest {load.longest_seconds:.1f} s"
    return f"{what}: next job finished after {seconds:.1f} s, {ended(system)} of {len(system.started)} ended{summary}"


def prove_reset(system: System, proxy: Proxy, what: str) -> None:
    with Load(system) as load:
        load.until(201)
        proxy.reset()
        time.sleep(OUTAGE_SECONDS)  # how long the outage lasts
        proxy.forward()
        seconds = seconds_to_finish_a_job(system)
    said = report(what, system, seconds, load)
    assert ended(system) == 0, f"{said}\n{system.logs()}"
    assert load.statuses[500] == 0, f"{said}\n{system.logs()}"
    assert seconds < BUDGET_SECONDS, said


def prove_half_open(system: System, proxy: Proxy, what: str) -> None:
    seconds_to_finish_a_job(system)
    with Load(system) as load:
        load.until(201)
        proxy.lose_all()
        seconds = seconds_to_finish_a_job(system)
    said = report(what, system, seconds, load)
    assert ended(system) == 0, f"{said}\n{system.logs()}"
    assert load.statuses[500] == 0, said
    assert seconds < BUDGET_SECONDS + SLACK_SECONDS, f"{said}\n{system.logs()}"
    assert load.longest_seconds < BUDGET_SECONDS + SLACK_SECONDS, said


@on_servers
def test_a_database_behind_what_accepts_and_resets_ends_no_process(system: System) -> None:
    """A plain RuntimeError of the driver ended every scheduler, and one in seven requests was answered with 500."""
    with services_behind_a_proxy(system) as proxy:
        prove_reset(system, proxy, f"accept and reset, {system.store}")


@on_servers
def test_half_open_connections_to_a_database_cost_no_more_than_the_budget(system: System) -> None:
    with services_behind_a_proxy(system) as proxy:
        prove_half_open(system, proxy, f"half-open, {system.store}")


def test_workers_over_http_outlive_an_api_that_accepts_and_resets(system: System) -> None:
    with workers_behind_a_proxy(system) as proxy:
        prove_reset(system, proxy, "accept and reset, HTTP")


def test_half_open_connections_of_workers_over_http_cost_no_more_than_the_budget(system: System) -> None:
    with workers_behind_a_proxy(system) as proxy:
        prove_half_open(system, proxy, "half-open, HTTP")


def test_a_half_open_connection_over_http_costs_no_attempt(system: System) -> None:
    """The keeper of its lease waited for an answer for longer than the lease lasts."""
    with workers_behind_a_proxy(system) as proxy:
        job_id = system.ask("POST", "/v1/jobs", {"type": "sleep", "payload": {"duration": 22}})["id"]
        system.until(lambda: system.job(job_id)["state"], lambda state: state == "running")
        started_at = system.job(job_id)["started_at"]
        # Once the lease was renewed, there is a connection for that which can be lost.
        expiry = system.job(job_id)["lease_until"]
        system.until(lambda: system.job(job_id)["lease_until"], lambda at: at != expiry)
        proxy.lose_all()
        system.until(lambda: system.job(job_id)["state"], lambda state: state == "completed")
        assert (system.job(job_id)["attempts"], system.job(job_id)["started_at"]) == (1, started_at)


@on_servers
def test_processes_that_start_before_their_database_wait_for_it(system: System) -> None:
    """They exited at once, and only a supervisor that starts them again and again helped."""
    with Proxy(port_of(system.store)) as proxy:
        proxy.reset()
        store = proxy.through(system.store)
        system.start("api", "--store", store, "--port", str(system.port))
        system.start("scheduler", "--store", store)
        system.start("worker", "--store", store, "--worker-id", "worker-1")
        system.until(system.logs, lambda logs: logs.count("the store is unavailable; trying again") >= 3)
        assert ended(system) == 0, system.logs()
        proxy.forward()
        system.until_up()
        assert seconds_to_finish_a_job(system) < BUDGET_SECONDS + SLACK_SECONDS
