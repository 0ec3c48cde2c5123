"""Redis dies, forgets, is emptied, hangs or refuses, under load: no job is lost, none is done twice, and it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

import pytest
import redis

from brokers.redis_environment import TYPES, RedisEnvironment, finish, until
from builders import claim
from rota.core.errors import Unavailable
from rota.core.ids import JobId
from rota.core.lease import WorkerId
from rota.core.lifecycle import State
from rota.engine import Engine, dispatch
from rota.scheduler import dispatcher

WORKERS = 3
BATCH = 40


class Crowd:
    """Workers that claim and complete, and record the answers."""

    def __init__(self, env: RedisEnvironment) -> None:
        self._stage = env
        self.completed: list[JobId] = []
        self.may_work = asyncio.Event()
        self.may_work.set()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        for number in range(WORKERS):
            engine = await self._stage.engine()
            self._tasks.append(asyncio.create_task(self._work(engine, WorkerId(f"w{number}", f"boot-{number}"))))

    async def _work(self, engine: Engine, worker: WorkerId) -> None:
        while True:
            await self.may_work.wait()
            with suppress(Unavailable):
                held = await engine.claim(claim(worker, 8, types=TYPES), wait=timedelta(seconds=1))
                self.completed += await finish(engine, held)

    async def has_done(self, number: int) -> None:
        async def done() -> int:
            return len(self.completed)

        await until(done, lambda count: count >= number)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def restart_empty(env: RedisEnvironment) -> None:
    env.server.kill()
    env.server.start()


def flush(env: RedisEnvironment) -> None:
    env.server.ask("FLUSHALL")


def delete_streams(env: RedisEnvironment) -> None:
    for band in ("high", "normal", "low"):
        env.server.ask("DEL", env.key(band))


def trim(env: RedisEnvironment) -> None:
    env.server.ask("XTRIM", env.key(), "MAXLEN", 0)


def destroy_group(env: RedisEnvironment) -> None:
    with suppress(redis.ResponseError):
        env.server.ask("XGROUP", "DESTROY", env.key(), "workers")


def delete_consumers(env: RedisEnvironment) -> None:
    with suppress(redis.ResponseError):
        for consumer in env.server.ask("XINFO", "CONSUMERS", env.key(), "workers"):
            env.server.ask("XGROUP", "DELCONSUMER", env.key(), "workers", consumer["name"])


def turn_replica(env: RedisEnvironment) -> None:
    """It is a replica of nobody and refuses writes, then a primary again."""
    env.server.ask("REPLICAOF", "127.0.0.1", 1)
    env.server.ask("REPLICAOF", "NO", "ONE")


def lines_filled(env: RedisEnvironment) -> Callable[[], Awaitable[int]]:
    async def entries() -> int:
        return env.entries()

    return entries


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what is lost found sooner than in earnest."""
    monkeypatch.setattr(dispatch, "GRACE", timedelta(seconds=0.3))
    monkeypatch.setattr(dispatcher, "AUDIT_SECONDS", 0.2)


FAULTS = (restart_empty, flush, delete_streams, trim, destroy_group, delete_consumers, turn_replica)


@pytest.mark.parametrize("strike", FAULTS, ids=lambda strike: strike.__name__)
async def test_nothing_is_lost_or_done_twice_when_redis_is_harmed_under_load(
    own_stage: RedisEnvironment, strike: Callable[[RedisEnvironment], None]
) -> None:
    env = own_stage
    await env.dispatching()
    crowd = Crowd(env)
    await crowd.start()
    submitted: list[JobId] = []
    for _ in range(4):
        submitted += [job.id for job in await env.submit(BATCH)]
        await crowd.has_done(len(submitted))
        # The dispatch queues are filled before the workers start; then the fault occurs during the work.
        crowd.may_work.clear()
        for priority in (2, 5, 9):
            submitted += [job.id for job in await env.submit(BATCH, priority=priority)]
        await until(lines_filled(env), lambda count: count >= BATCH)
        crowd.may_work.set()
        await asyncio.to_thread(strike, env)
        await crowd.has_done(len(submitted))
    await crowd.stop()
    assert sorted(crowd.completed) == sorted(submitted)
    jobs = await env.store.get(submitted)
    assert {(job.state, job.crashes) for job in jobs} == {(State.COMPLETED, 0)}
    # No lease was given in vain: each job ran exactly once.
    assert {job.fence for job in jobs} == {1}


async def test_it_is_healed_without_a_restart_and_jobs_go_through_the_streams_again(
    own_stage: RedisEnvironment,
) -> None:
    env = own_stage
    lead = await env.dispatching()
    crowd = Crowd(env)
    await crowd.start()
    await env.submit(10)
    await crowd.has_done(10)
    env.server.kill()
    await env.submit(10)
    # Unavailable: jobs still run, and health shows it.
    await crowd.has_done(20)

    async def is_up() -> bool:
        return lead.broker.is_up

    await until(is_up, lambda up: not up)
    env.server.start()
    await until(is_up, bool)

    async def delivered() -> int:
        await env.submit(5)
        with suppress(redis.ResponseError):
            groups = env.server.ask("XINFO", "GROUPS", env.key())
            return sum(int(group["entries-read"] or 0) for group in groups)
        return 0

    assert await until(delivered, lambda count: count > 0)
    await crowd.stop()


async def test_a_server_that_hangs_holds_nobody_up(own_stage: RedisEnvironment) -> None:
    env = own_stage
    await env.dispatching()
    crowd = Crowd(env)
    await crowd.start()
    await env.submit(10)
    await crowd.has_done(10)
    env.server.freeze()
    try:
        await env.submit(100)
        await crowd.has_done(110)
    finally:
        env.server.thaw()
    await env.submit(100)
    await crowd.has_done(210)
    await crowd.stop()


async def test_it_starts_and_works_without_a_server(own_stage: RedisEnvironment) -> None:
    env = own_stage
    env.server.kill()
    await env.dispatching()
    crowd = Crowd(env)
    await crowd.start()
    await env.submit(50)
    await crowd.has_done(50)
    await crowd.stop()


async def test_a_server_that_is_full_is_as_good_as_away(own_stage: RedisEnvironment) -> None:
    env = own_stage
    await env.dispatching()
    crowd = Crowd(env)
    await crowd.start()
    env.server.ask("CONFIG", "SET", "maxmemory", "1mb")
    await env.submit(50)
    await crowd.has_done(50)
    env.server.ask("CONFIG", "SET", "maxmemory", "0")
    await crowd.stop()


async def test_what_was_with_a_consumer_that_somebody_deleted_is_dispatched_again(own_stage: RedisEnvironment) -> None:
    env = own_stage
    await env.dispatching()
    dead = await env.broker()
    jobs = await env.submit(3)

    async def taken() -> int:
        ids.update(await dead.take(("default",), TYPES, 10) or ())
        return len(ids)

    ids: set[JobId] = set()
    assert await until(taken, lambda count: count == len(jobs))
    delete_consumers(env)
    crowd = Crowd(env)
    await crowd.start()
    await crowd.has_done(len(jobs))
    await until(lines_filled(env), lambda count: count == 0)
    await crowd.stop()
