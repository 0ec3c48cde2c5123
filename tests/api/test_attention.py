"""What needs attention, from the real situation on each store until its repair."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from api.environment import ApiEnvironment, api_environment, body_of
from builders import ManualClock
from conformance.stores.adapters import Adapter, Mariadb, Postgres, SqliteFile
from rota.api import ApiSettings
from rota.core.cluster import ALIVE_FOR, Member, Role
from rota.core.health import DISK_LOW_BYTES
from rota.core.health_history import MOST_DEAD, MOST_LOST, RETENTION_LATE
from rota.core.limit import Limit
from rota.core.worker_orders import WorkerFacts
from rota.ports.client import Actor
from rota.ports.store import Retention, Store
from rota.runtime.history import HistoryWriter
from rota.stores.mysql import MysqlStore
from rota.stores.postgres import PostgresStore
from rota.stores.sqlite.driver import StandardConnection

WORKER = Member(role=Role.WORKER, name="w1", boot="b", queues=("default",), types=("mail",), slots=1, version="1")
SCHEDULER = Member(role=Role.SCHEDULER, name="s1", boot="s")
ADAPTERS: tuple[Adapter, ...] = (SqliteFile(), Postgres(), Mariadb())
KEPT = timedelta(hours=24)
ME = Actor("me")


@pytest.fixture(params=ADAPTERS, ids=lambda adapter: adapter.name)
def adapter(request: pytest.FixtureRequest) -> Adapter:
    chosen: Adapter = request.param
    return chosen


@pytest.fixture
async def place(adapter: Adapter, tmp_path: Path) -> AsyncIterator[str]:
    async for place in adapter.place(tmp_path):
        yield place


@pytest.fixture
async def env(adapter: Adapter, place: str) -> AsyncIterator[ApiEnvironment]:
    async with api_environment(open_store=partial(adapter.open, place)) as env:
        yield env


@pytest.fixture(autouse=True)
def counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look anew for every answer: it may be a second old otherwise."""
    monkeypatch.setattr("rota.api.routes.health.COUNTED_WITHIN_SECONDS", 0.0)


async def codes(env: ApiEnvironment) -> dict[str, dict[str, object]]:
    answer = body_of(await env.client.get("/v1/attention"))
    return {item["code"]: item for item in answer["items"]}


async def test_nothing_needs_attention_where_all_is_well(env: ApiEnvironment) -> None:
    """The process counts as just started: the leader is not known yet."""
    await env.store.beat([WORKER, SCHEDULER])
    await env.submit(type="mail")
    assert await codes(env) == {}


async def test_a_due_job_that_waits_long_is_named_until_it_is_claimed(env: ApiEnvironment) -> None:
    await env.submit(type="mail")
    env.clock.move(timedelta(minutes=6))
    assert "oldest_due_over" not in await codes(env), "without a worker that is the cause, and has its own code"
    await env.store.beat([WORKER])
    found = (await codes(env))["oldest_due_over"]
    assert found["evidence"] == {"queue": "default", "seconds": 360.0}
    await env.claim()
    assert "oldest_due_over" not in await codes(env)


async def test_a_queue_without_a_worker_is_named_until_one_is_there(env: ApiEnvironment) -> None:
    await env.submit(type="mail")
    assert (await codes(env))["no_worker_for_queue"]["evidence"] == {"queue": "default", "due": 1}
    await env.store.beat([WORKER])
    assert "no_worker_for_queue" not in await codes(env)


async def test_a_type_that_no_worker_knows_is_named_until_one_knows_it(env: ApiEnvironment) -> None:
    await env.store.beat([WORKER])
    await env.submit(type="report")
    assert (await codes(env))["no_worker_for_type"]["evidence"] == {"queue": "default", "type": "report", "due": 1}
    await env.store.beat([replace(WORKER, name="w2", boot="c", types=("report",))])
    assert "no_worker_for_type" not in await codes(env)


async def test_a_paused_queue_with_due_jobs_is_named_until_it_is_resumed(env: ApiEnvironment) -> None:
    await env.store.beat([WORKER])
    await env.submit(type="mail")
    await env.client.post("/v1/queues/default/pause", json={"reason": "drill"})
    assert (await codes(env))["queue_paused_with_backlog"]["evidence"] == {"queue": "default", "due": 1}
    await env.client.post("/v1/queues/default/resume", json={})
    assert "queue_paused_with_backlog" not in await codes(env)


async def test_missing_schedulers_and_a_missing_leader_are_named_until_there_is_one(
    adapter: Adapter, place: str
) -> None:
    leaders: list[str] = []
    settings = ApiSettings(current_leader=lambda: leaders[0] if leaders else None)
    async with api_environment(settings, open_store=partial(adapter.open, place)) as env:
        env.clock.move(timedelta(seconds=11))
        assert (await codes(env))["no_scheduler"]["severity"] == "critical"
        await env.store.beat([SCHEDULER])
        assert set(await codes(env)) == {"no_leader"}
        await env.store.lead("scheduler", "s1", timedelta(seconds=6))
        leader = await env.store.leader("scheduler")
        assert leader is not None
        leaders.append(leader.holder)
        assert await codes(env) == {}


async def test_a_closed_limit_is_named_while_jobs_wait_for_it(env: ApiEnvironment) -> None:
    await env.store.beat([WORKER])
    await env.engine.limits.close("task:mail", None, "the provider is down", ME)
    assert "limit_closed" not in await codes(env), "no job waits"
    await env.submit(type="mail")
    found = (await codes(env))["limit_closed"]
    assert (found["evidence"], found["fix"]) == ({"limit": "task:mail", "waiting": 1}, "rota limits open task:mail")
    assert found["text"] == "limit 'task:mail' is closed (the provider is down) and 1 job waits"
    await env.engine.limits.open("task:mail", ME)
    assert "limit_closed" not in await codes(env)


async def test_a_limit_that_opens_by_itself_is_named_until_then(env: ApiEnvironment) -> None:
    await env.submit(type="mail")
    until = env.clock() + timedelta(minutes=5)
    await env.store.close_limit(Limit("queue:default", closed_until=until, reason="", set_by="me"))
    assert " until 2026-03-01 12:05:00 UTC " in str((await codes(env))["limit_closed"]["text"])
    env.clock.move(timedelta(minutes=5))
    assert "limit_closed" not in await codes(env)


async def test_a_silent_worker_is_named_until_it_is_back(env: ApiEnvironment) -> None:
    await env.store.beat([WORKER])
    assert "worker_stale" not in await codes(env)
    env.clock.move(ALIVE_FOR * 2)
    assert (await codes(env))["worker_stale"]["link"] == "/workers"
    await env.store.beat([replace(WORKER, boot="again")])
    assert "worker_stale" not in await codes(env)


async def test_a_worker_that_left_in_order_is_not_missed(env: ApiEnvironment) -> None:
    await env.store.beat([WORKER])
    await env.store.leave([WORKER.boot])
    env.clock.move(ALIVE_FOR * 2)
    assert "worker_stale" not in await codes(env)


async def test_many_dead_jobs_are_named_until_they_are_retried(env: ApiEnvironment) -> None:
    history = HistoryWriter(env.engine)
    dead = [(await env.dead())["id"] for _ in range(MOST_DEAD)]
    await history.tick()
    assert (await codes(env))["dead_growing"]["evidence"] == {"dead": MOST_DEAD}
    await env.client.post(f"/v1/jobs/{dead[0]}/retry", json={})
    assert "dead_growing" not in await codes(env)


async def test_many_dead_jobs_are_named_until_no_more_die(env: ApiEnvironment) -> None:
    history = HistoryWriter(env.engine)
    for _ in range(MOST_DEAD):
        await env.dead()
    await history.tick()
    assert "dead_growing" in await codes(env)
    env.clock.move(timedelta(minutes=17))
    assert "dead_growing" not in await codes(env)


async def test_lapsing_leases_are_named_until_they_are_renewed(env: ApiEnvironment) -> None:
    history = HistoryWriter(env.engine)
    for _ in range(MOST_LOST):
        await env.submit(type="mail")
    assert len(await env.claim(lease=10)) == MOST_LOST
    env.clock.move(timedelta(seconds=30))
    assert await env.engine.upkeep.reap(100) == MOST_LOST
    await history.tick()
    assert (await codes(env))["lease_churn"]["evidence"] == {"lost": MOST_LOST}
    env.clock.move(timedelta(minutes=17))
    assert "lease_churn" not in await codes(env)


async def test_a_schedule_that_does_not_fire_is_named_until_it_fires(env: ApiEnvironment) -> None:
    body = {"name": "often", "cron": "* * * * *", "job": {"type": "mail"}}
    assert (await env.client.post("/v1/schedules", json=body)).is_success
    env.clock.move(timedelta(minutes=3))
    assert (await codes(env))["schedule_late"]["evidence"] == {"schedule": "often"}
    await env.engine.schedules.fire(10)
    assert "schedule_late" not in await codes(env)


async def test_a_long_pause_of_a_schedule_is_information_and_leaves_health_as_it_is(env: ApiEnvironment) -> None:
    body = {"name": "often", "cron": "* * * * *", "job": {"type": "mail"}}
    await env.client.post("/v1/schedules", json=body)
    await env.client.post("/v1/schedules/often/pause", json={})
    env.clock.move(timedelta(days=8))
    assert (await codes(env))["schedule_paused_long"]["severity"] == "info"
    await env.client.post("/v1/schedules/often/resume", json={})
    assert "schedule_paused_long" not in await codes(env)


async def test_processes_of_two_releases_are_named_until_one_leaves(env: ApiEnvironment) -> None:
    await env.store.beat([WORKER, replace(WORKER, name="w2", boot="c", version="2")])
    assert (await codes(env))["version_skew"]["evidence"] == {"w1": "1", "w2": "2"}
    await env.store.leave(["c"])
    assert "version_skew" not in await codes(env)


async def test_threads_left_behind_are_named_until_the_worker_is_started_again(env: ApiEnvironment) -> None:
    await env.store.beat([replace(WORKER, facts=WorkerFacts(threads_left_behind=1))])
    assert (await codes(env))["threads_left_behind"]["evidence"] == {"worker": "w1", "threads": 1}
    await env.store.leave([WORKER.boot])
    await env.store.beat([replace(WORKER, boot="again")])
    assert "threads_left_behind" not in await codes(env)


async def test_a_clock_that_differs_from_the_stores_is_named_until_it_is_set(adapter: Adapter, place: str) -> None:
    clocks: list[ManualClock] = []

    async def open_with_own_clock(clock: ManualClock) -> Store:
        clocks.append(ManualClock(clock.moment))
        return await adapter.open(place, clocks[0])

    async with api_environment(open_store=open_with_own_clock) as env:
        assert "clock_skew" not in await codes(env)
        env.clock.step(timedelta(seconds=3))
        assert (await codes(env))["clock_skew"]["evidence"] == {"seconds": 3.0}
        env.clock.step(timedelta(seconds=-3))
        assert "clock_skew" not in await codes(env)


async def test_jobs_that_retention_leaves_behind_are_named_until_they_are_deleted(env: ApiEnvironment) -> None:
    await env.submit(type="mail")
    (job,) = await env.claim()
    await env.settle(job, "succeeded")
    env.clock.move(KEPT + RETENTION_LATE - timedelta(seconds=1))
    assert "retention_behind" not in await codes(env)
    env.clock.move(timedelta(seconds=2))
    assert (await codes(env))["retention_behind"]["since"] == "2026-03-01T12:00:00.123457Z"
    await env.engine.upkeep.prune(Retention(completed=KEPT), 100)
    assert "retention_behind" not in await codes(env)


Run = Callable[[str], Awaitable[object]]


@pytest.fixture
async def run(env: ApiEnvironment, place: str) -> Run:
    """Return what runs a statement on the database beside the store."""

    async def run(text: str) -> object:
        store = env.store
        if isinstance(store, PostgresStore):
            return await store._database.write(lambda session: session.execute(text))
        if isinstance(store, MysqlStore):
            return await store._writers.run(lambda connection: connection.run(text))
        connection = StandardConnection(place)
        try:
            return connection.run(text)
        finally:
            connection.close()

    return run


async def test_a_missing_migration_is_named_until_it_is_applied(env: ApiEnvironment, run: Run) -> None:
    """A database that was restored from a copy of an earlier release, under a running process."""
    await run("UPDATE rota_migration SET number = number + 100 WHERE number = 1")
    found = await codes(env)
    assert str(found["migration_pending"]["text"]).startswith("migration 0001_")
    await run("UPDATE rota_migration SET number = number - 100 WHERE number = 101")
    assert "migration_pending" not in await codes(env)


async def test_a_migration_of_a_newer_release_is_named(env: ApiEnvironment, run: Run) -> None:
    await run("INSERT INTO rota_migration (number, name, digest, applied_at) VALUES (9000, '9000_later', '', 0)")
    assert (await codes(env))["schema_too_new"]["evidence"] == {"migration": "9000_later"}
    await run("DELETE FROM rota_migration WHERE number = 9000")
    assert "schema_too_new" not in await codes(env)


async def test_a_disk_that_fills_up_is_named_until_space_is_freed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threshold lies below the free space of this disk; a file takes what lies between. Servers show no disk."""
    margin, ballast = 2 * DISK_LOW_BYTES // 5, tmp_path / "ballast"
    usage = os.statvfs(tmp_path)
    monkeypatch.setattr("rota.core.health.DISK_LOW_BYTES", usage.f_bavail * usage.f_frsize - margin)
    async with api_environment(location=str(tmp_path / "rota.db")) as env:
        assert "disk_low" not in await codes(env)
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 2 * margin)
        assert (await codes(env))["disk_low"]["severity"] == "critical"
        ballast.unlink()
        assert "disk_low" not in await codes(env)


async def test_an_exposed_api_without_a_token_is_named() -> None:
    async with api_environment(ApiSettings(is_exposed=True)) as env:
        assert (await codes(env))["insecure"]["severity"] == "critical"
    async with api_environment(ApiSettings()) as env:
        assert "insecure" not in await codes(env)


async def test_many_callers_cost_the_store_one_look(env: ApiEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.api.routes.health.COUNTED_WITHIN_SECONDS", 60.0)
    assert await codes(env) == {}
    await env.submit(type="mail")
    assert await codes(env) == {}, "the answer is still young enough"
