"""The store's clock is set an hour ahead or back under running processes, on real servers.

What must hold: no running job is taken from its worker, so none begins twice, and those that run at most once are not
dead; and no schedule falls silent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from journeys.system import System, open_system
from proofs.processes import alive
from servers import mariadb, postgres
from servers.clock_shim import ClockShim, clock_shim

LEASE_SECONDS = 3
#: Several leases long.
JOB_SECONDS = 12
JOBS = 10
HOUR = 3600.0


@pytest.fixture
def clock() -> Iterator[ClockShim]:
    with clock_shim() as shim:
        yield shim


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def system(request: pytest.FixtureRequest, tmp_path: Path, clock: ClockShim) -> Iterator[System]:
    """A system on a store whose clock is the shim's: that of the server, or of all processes on a file."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            one = stack.enter_context(open_system(tmp_path))
            one.variables = dict(clock.environment)
            yield one
            return
        if request.param == "postgres":
            database = postgres.PostgresServer(postgres.require_binaries(), postgres.HASTY, clock.environment)
            stack.callback(database.remove)
            url = database.dsn()
        else:
            server = mariadb.MariadbServer(mariadb.require_binary(), mariadb.HASTY, clock.environment)
            stack.callback(server.remove)
            server.execute("CREATE DATABASE rota")
            url = server.url("rota")
        yield stack.enter_context(open_system(tmp_path, url))


def begin(system: System) -> list[str]:
    """Start processes, let a schedule fire each second, and give the ids of jobs that run."""
    system.start("scheduler", "--store", system.store, "--port", str(system.port))
    system.until_up()
    system.start(
        "worker",
        "--store",
        system.store,
        "--worker-id",
        "steady",
        "--lease",
        f"{LEASE_SECONDS}s",
        "--concurrency",
        "40",
    )
    system.until(lambda: alive(system), lambda names: "steady" in names)
    system.ask("POST", "/v1/schedules", {"name": "tick", "cron": "* * * * * *", "job": {"type": "echo", "payload": 1}})
    # A scheduler that has just started takes no lease for a while; a job is stopped for that long at most.
    system.until(lambda: fired(system), lambda count: count >= 8)
    jobs = [
        {"type": "sleep", "payload": {"duration": JOB_SECONDS}, "delivery": delivery, "tags": ["long"]}
        for delivery in ("at_least_once", "at_most_once")
        for _ in range(JOBS)
    ]
    ids = [item["id"] for item in system.ask("POST", "/v1/jobs:batch", {"jobs": jobs})["items"]]
    system.until(lambda: long_jobs(system), lambda found: all(job["status"] == "running" for job in found))
    return ids


def long_jobs(system: System) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = system.ask("GET", "/v1/jobs?tag=long&limit=100")["items"]
    assert len(found) == 2 * JOBS
    return found


def fired(system: System) -> int:
    """Count the jobs that the schedule has made."""
    return len(system.ask("GET", "/v1/jobs?type=echo&limit=500")["items"])


@pytest.mark.parametrize("step", [HOUR, -HOUR], ids=["ahead", "back"])
def test_a_step_of_the_stores_clock_neither_repeats_jobs_nor_silences_schedules(
    system: System, clock: ClockShim, step: float
) -> None:
    ids = begin(system)
    before = fired(system)
    clock.set_ahead(step)
    # By the steady clock: within five seconds, not in an hour.
    system.until(lambda: fired(system), lambda count: count >= before + 3, seconds=20)
    ended = system.until(
        lambda: long_jobs(system), lambda found: all(job["status"] not in {"running", "pending"} for job in found)
    )
    assert {job["id"] for job in ended} == set(ids)
    assert {(job["status"], job["attempts"]) for job in ended} == {("completed", 1)}, ended
    # The clock is set right again: nothing is repeated then, either.
    again = fired(system)
    clock.set_ahead(0)
    system.until(lambda: fired(system), lambda count: count >= again + 3, seconds=20)
    for job_id in ids:
        job = system.job(job_id)
        assert (job["status"], job["attempts"]) == ("completed", 1)
