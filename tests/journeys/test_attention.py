"""Faults of real processes and servers on each store: each is named within 15 s, and gone within 15 s of its repair."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import asyncmy
import asyncpg
import pytest

from journeys.system import System, open_system
from servers.databases import empty_database
from servers.etcd import shared_cluster
from servers.postgres import migrated_database, shared_server
from servers.proxies import Proxy
from servers.valkey import shared_valkey

LOST = 6


def _most_seconds() -> float:
    """Return how long a fault may stay unseen, and a repair; on a machine with far more to do than it can, longer."""
    return 15.0 if os.getloadavg()[0] < 2 * (os.cpu_count() or 1) else 30.0


class Deployment:
    """Processes on a store."""

    def __init__(self, system: System, direct: str) -> None:
        self.system, self.direct = system, direct

    def start(self, role: str, *flags: str) -> subprocess.Popen[bytes]:
        return self.system.start(role, "--store", self.system.store, *flags)

    def start_worker(self) -> subprocess.Popen[bytes]:
        return self.start("worker", "--queues", "default", "--worker-id", "w1")

    def codes(self) -> set[str]:
        return {item["code"] for item in self.system.ask("GET", "/v1/attention")["items"]}

    def names(self, *codes: str) -> None:
        """Wait until these codes are there."""

        self.system.until(self.codes, lambda found: found >= set(codes), seconds=_most_seconds())

    def names_no_more(self, *codes: str) -> None:
        self.system.until(self.codes, lambda found: not found & set(codes), seconds=_most_seconds())

    def submit(self, count: int = 1, **job: object) -> None:
        self.system.ask("POST", "/v1/jobs:batch", {"jobs": [job] * count})

    def claim(self, count: int, lease: float = 60) -> list[dict[str, Any]]:
        """Submit jobs and take them over HTTP."""
        self.submit(count, type="mail", queue="side", max_attempts=1)
        claim = {"worker_id": "ada", "boot_id": "boot", "max": count, "queues": ["side"], "wait": 10, "lease": lease}
        jobs: list[dict[str, Any]] = []
        while len(jobs) < count:
            jobs += self.system.ask("POST", "/v1/leases:claim", claim)["jobs"]
        return jobs

    def kill_jobs(self, count: int) -> None:
        """Let jobs die of a failure."""
        jobs = self.claim(count)
        error = {"kind": "OSError", "message": "disk full"}
        reports = [{"id": job["id"], "fence": job["fence"], "outcome": "failed", "error": error} for job in jobs]
        self.system.ask("POST", "/v1/leases:settle", {"reports": reports})


class Cluster(Deployment):
    """The same with etcd and Redis Streams beside it, each behind a proxy."""

    def __init__(self, system: System, direct: str, store: Proxy | None, etcd: Proxy, redis: Proxy) -> None:
        super().__init__(system, direct)
        self.store, self.etcd, self.redis = store, etcd, redis


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def deployment(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    lent: AbstractAsyncContextManager[str] | None = None
    if request.param != "sqlite":
        lent = empty_database() if request.param == "mariadb" else migrated_database(shared_server())
    node, valkey = shared_cluster(), shared_valkey()
    with ExitStack() as stack, asyncio.Runner() as runner:
        proxy: Proxy | None = None
        url = direct = "rota.db"
        if lent is not None:
            direct = runner.run(lent.__aenter__())
            proxy = stack.enter_context(Proxy(urlsplit(direct).port or 0))
            url = proxy.through(direct)
        etcd = stack.enter_context(Proxy(node.nodes[0].client_port))
        redis = stack.enter_context(Proxy(valkey.port))
        system = stack.enter_context(open_system(tmp_path, url))
        system.variables = {
            "REDIS_URL": redis.through(valkey.url),
            "REDIS_STREAM_NAME": f"attention-{system.port}",
            "ROTA_COORDINATOR": f"etcd://127.0.0.1:{etcd.port}/attention-{system.port}",
        }
        yield Cluster(system, direct, proxy, etcd, redis)
        if lent is not None:
            runner.run(lent.__aexit__(None, None, None))


def test_every_fault_is_named_in_time_and_so_is_its_repair(deployment: Cluster) -> None:
    system = deployment.system
    deployment.start("api", "--port", str(system.port))
    system.until_up()
    deployment.submit(type="echo", queue="mail")
    deployment.names("no_scheduler", "no_worker_for_queue")

    scheduler, worker = deployment.start("scheduler"), deployment.start_worker()
    deployment.start("worker", "--queues", "mail", "--worker-id", "w2")
    deployment.submit(type="nobody")
    # The processes must have started first, which takes as long as it takes.
    system.until(deployment.codes, lambda found: found == {"no_worker_for_type"})

    with writes_blocked(deployment):
        deployment.names("store_not_writable")
    deployment.names_no_more("store_not_writable")

    if deployment.store is not None:
        deployment.store.reset()
        deployment.names("store_unavailable")
        deployment.store.forward()
        deployment.names_no_more("store_unavailable")

    # Faults that do not hide each other, at the same time: each has its 15 s from here.
    os.killpg(worker.pid, signal.SIGKILL)
    # A host that is lost: these leases are neither renewed nor handed back.
    deployment.claim(LOST, lease=1)
    deployment.kill_jobs(12)
    deployment.etcd.reset()
    deployment.redis.reset()
    deployment.names("coordinator_down", "broker_down", "worker_stale", "lease_churn", "dead_growing")
    deployment.etcd.forward()
    deployment.redis.forward()
    deployment.start_worker()
    system.ask("POST", "/v1/operations", {"action": "delete", "q": "status:dead"})
    deployment.names_no_more("coordinator_down", "broker_down", "no_leader", "worker_stale", "dead_growing")

    os.killpg(scheduler.pid, signal.SIGSTOP)
    deployment.names("no_leader")
    os.killpg(scheduler.pid, signal.SIGCONT)
    deployment.names_no_more("no_leader", "no_scheduler")

    if deployment.store is None:
        # A process that has lost its file stops using it for good: it must be started again.
        for path in system.folder.glob(f"{system.store}*"):
            path.rename(path.with_name(f"moved-{path.name}"))
        deployment.names("store_unavailable")


@contextmanager
def writes_blocked(deployment: Cluster) -> Iterator[None]:
    """Block all heartbeats, as a forgotten lock does. Reads still work."""
    system = deployment.system
    if deployment.store is None:
        other = sqlite3.connect(system.folder / system.store, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.close()
        return
    with asyncio.Runner() as runner:
        release = runner.run(_lock_members(deployment.direct))
        yield
        runner.run(release())


async def _lock_members(url: str) -> Callable[[], Coroutine[None, None, None]]:
    """Lock the table of members against writes; return what ends the session that holds the lock."""
    if url.startswith("postgres"):
        session = await asyncpg.connect(url)
        await session.execute("BEGIN; LOCK TABLE rota_member IN EXCLUSIVE MODE")
        return cast("Callable[[], Coroutine[None, None, None]]", session.close)
    where = urlsplit(url)
    other = await asyncmy.connect(host="127.0.0.1", port=where.port, user="root", database=where.path.strip("/"))
    await other.cursor().execute("LOCK TABLES rota_member READ")
    return cast("Callable[[], Coroutine[None, None, None]]", other.ensure_closed)


PLAIN_TASKS = '''
import time
from rota import Rota

app = Rota()

@app.task(timeout="1s", executor="thread", retry=1)
def stubborn():
    """Ignore the timeout."""
    time.sleep(40)

@app.task
def echo(): ...
'''


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def plain(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Deployment]:
    """Give processes on a store, and nothing beside it."""
    lent: AbstractAsyncContextManager[str] | None = None
    if request.param != "sqlite":
        lent = empty_database() if request.param == "mariadb" else migrated_database(shared_server())
    with ExitStack() as stack, asyncio.Runner() as runner:
        url = "rota.db" if lent is None else runner.run(lent.__aenter__())
        system = stack.enter_context(open_system(tmp_path, url))
        (tmp_path / "plain_tasks.py").write_text(PLAIN_TASKS)
        yield Deployment(system, url)
        if lent is not None:
            runner.run(lent.__aexit__(None, None, None))


def test_faults_of_operators_handlers_and_tables_are_named_in_time_and_so_is_their_repair(plain: Deployment) -> None:
    system = plain.system
    plain.start("api", "--port", str(system.port))
    system.until_up()
    scheduler = plain.start("scheduler")
    worker = plain.start("worker", "--app", "plain_tasks:app", "--queues", "default", "--worker-id", "w1")
    system.until(lambda: system.ask("GET", "/v1/workers")["items"], bool)
    rule = {"cron": "@yearly", "job": {"type": "echo"}}
    for name in ("late", "paused"):
        system.ask("POST", "/v1/schedules", {"name": name, **rule})
    system.until(plain.codes, lambda found: found == set())

    other = {"worker_id": "old", "boot_id": "old", "queues": ["default"], "types": [], "slots": 1, "version": "0.0.1"}
    system.ask("POST", "/v1/workers:beat", {"workers": [other]})
    plain.names("version_skew")
    system.ask("POST", "/v1/workers:leave", {"boot_ids": ["old"]})
    plain.names_no_more("version_skew")

    # What operators did, and a database from an older copy: each has its 15 s from here.
    system.ask("POST", "/v1/queues/default/pause", {"reason": "drill"})
    plain.submit(type="unknown")
    system.ask("POST", "/v1/limits/task:echo/close", {"reason": "drill"})
    plain.submit(type="echo")
    system.ask("POST", "/v1/jobs", {"type": "guarded", "queue": "side", "breaker": "bank"})
    system.ask("POST", "/v1/breakers/bank/open", {"reason": "drill"})
    system.ask("POST", "/v1/schedules/paused/pause", {"reason": "drill"})
    run(plain, "UPDATE rota_schedule SET paused_at = paused_at - 691200000000 WHERE name = 'paused'")
    run(plain, "UPDATE rota_migration SET number = number + 100 WHERE number = 1")
    plain.names(
        "queue_paused_with_backlog", "limit_closed", "breaker_open", "schedule_paused_long", "migration_pending",
        "schema_too_new",
    )  # fmt: skip
    system.ask("POST", "/v1/queues/default/resume")
    system.ask("POST", "/v1/limits/task:echo/open")
    system.ask("POST", "/v1/breakers/bank/close", {"reason": "repaired"})
    system.ask("POST", "/v1/schedules/paused/resume")
    run(plain, "UPDATE rota_migration SET number = number - 100 WHERE number = 101")
    system.ask("POST", "/v1/operations", {"action": "cancel", "q": "type:unknown,guarded"})
    plain.names_no_more(
        "queue_paused_with_backlog", "limit_closed", "breaker_open", "schedule_paused_long", "migration_pending",
        "schema_too_new",
    )  # fmt: skip

    plain.submit(type="stubborn")
    system.until(lambda: system.ask("GET", "/v1/jobs?status=dead")["items"], bool)
    plain.names("threads_left_behind")
    os.killpg(worker.pid, signal.SIGKILL)
    plain.start("worker", "--app", "plain_tasks:app", "--queues", "default", "--worker-id", "w1")
    plain.names_no_more("threads_left_behind")

    os.killpg(scheduler.pid, signal.SIGSTOP)
    run(plain, "UPDATE rota_schedule SET next_fire_at = 1600000000000000 WHERE name = 'late'")
    plain.names("schedule_late")
    os.killpg(scheduler.pid, signal.SIGCONT)
    plain.names_no_more("schedule_late")


def run(plain: Deployment, text: str) -> None:
    """Run a statement on the database, beside Rota."""
    url = plain.direct
    if "://" not in url:
        connection = sqlite3.connect(plain.system.folder / url, isolation_level=None, timeout=30)
        connection.execute(text)
        connection.close()
        return
    with asyncio.Runner() as runner:
        runner.run(_run(url, text))


async def _run(url: str, text: str) -> None:
    if url.startswith("postgres"):
        session = await asyncpg.connect(url)
        await session.execute(text)
        await session.close()
        return
    where = urlsplit(url)
    other = await asyncmy.connect(
        host="127.0.0.1", port=where.port, user="root", database=where.path.strip("/"), autocommit=True
    )
    await other.cursor().execute(text)
    await other.ensure_closed()
