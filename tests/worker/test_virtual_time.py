"""The worker on a loop of virtual time, without threads, as in the simulation."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from rota.brokers.in_store import InStoreBroker
from rota.core.lifecycle import State
from rota.core.submission import NewJob
from rota.engine import Engine
from rota.stores.sqlite import SqliteStore
from rota.worker import Handlers, Worker, WorkerOptions, current, handler_of
from simulation.loop import run

BASE = datetime(2026, 3, 1, tzinfo=UTC)


async def live() -> list[tuple[State, int, float]]:
    loop = asyncio.get_running_loop()
    clock = lambda: BASE + timedelta(seconds=loop.time())  # noqa: E731
    store = await SqliteStore.open(":memory:", clock=clock)
    broker = InStoreBroker(store)
    engine = Engine(store, broker, clock=clock, rng=lambda: 0.5)

    async def long(seconds: float) -> int:
        await asyncio.sleep(seconds)
        return current().attempt

    options = WorkerOptions(name="ada", boot="b", concurrency=2, own_loop=False, drain_timeout=timedelta(seconds=60))
    worker = Worker(engine, Handlers([handler_of(long)]), options, rng=lambda: 0.5, clock=loop.time)
    running = asyncio.ensure_future(worker.run())
    ids = [engine.fresh_id() for _ in range(5)]
    fields = [("100", None), ("1000", 300), ("3", None), ("4", None), ("100000", None)]
    jobs = [
        NewJob(
            id=job_id, type="long", payload=f'{{"seconds": {seconds}}}', max_attempts=1,
            timeout=None if limit is None else timedelta(seconds=limit),
        )
        for job_id, (seconds, limit) in zip(ids, fields, strict=True)
    ]  # fmt: skip
    await engine.submit(jobs)
    await asyncio.sleep(500)
    worker.stop()
    await running
    found = await engine.get(ids)
    await broker.close()
    await store.close()
    return [(job.state, job.attempts, (job.updated_at - BASE).total_seconds()) for job in found]


def test_hours_of_work_pass_in_no_time_and_the_same_each_time() -> None:
    results = [run(live(), seed=3), run(live(), seed=3)]
    assert results[0] == results[1]
    states = [(state, attempts) for state, attempts, _ in results[0]]
    assert states == [
        (State.COMPLETED, 1),
        (State.DEAD, 1),
        (State.COMPLETED, 1),
        (State.COMPLETED, 1),
        (State.PENDING, 0),
    ]
    assert results[0][1][2] == 300
    assert 500 < results[0][4][2] <= 560
