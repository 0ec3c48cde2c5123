"""The history writer: it counts the events of an engine, survives a failing store, and counts nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from builders import ManualClock
from rota.brokers.in_store import InStoreBroker
from rota.core.errors import StoreUnavailable
from rota.core.history import BucketLength, HistoryFlush, HistoryQuery, Tally
from rota.core.lease import Claim, WorkerId
from rota.core.outcome import Failed, Lost, Succeeded
from rota.core.settlement import JobError
from rota.core.submission import NewJob
from rota.engine import Engine
from rota.ports.client import AttemptReport
from rota.runtime.history import MOST_WAITING, HistoryWriter
from rota.stores.sqlite import SqliteStore

ADA = WorkerId("ada", "boot")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def engine(clock: ManualClock) -> AsyncIterator[Engine]:
    store = await SqliteStore.open(":memory:", clock=clock)
    yield Engine(store, InStoreBroker(store), clock=clock)
    await store.close()


async def submit(engine: Engine, count: int = 1, **options: Any) -> None:  # noqa: ANN401 - of a job
    await engine.submit([NewJob(id=engine.fresh_id(), type="mail", payload="{}", **options) for _ in range(count)])


async def claim(engine: Engine, limit: int = 10, **options: Any) -> Any:  # noqa: ANN401 - jobs
    return await engine.claim(Claim(worker=ADA, limit=limit, types=("mail",), lease=timedelta(minutes=1), **options))


async def total(engine: Engine) -> Tally:
    now = engine.clock()
    query = HistoryQuery(BucketLength.MINUTE, now - timedelta(hours=24), now + timedelta(hours=24))
    whole = Tally()
    for bucket in await engine.store.history(query):
        whole.add(bucket.tally)
    return whole


async def test_the_life_of_a_job_is_counted(engine: Engine, clock: ManualClock) -> None:
    writer = HistoryWriter(engine)
    await submit(engine, 3, max_attempts=1)
    clock.move(timedelta(seconds=4))
    good, bad, lost = await claim(engine)
    error = JobError("ValueError", "bad card")
    await engine.settle(
        [AttemptReport(good.id, good.fence, Succeeded("1")), AttemptReport(bad.id, bad.fence, Failed(error))]
    )
    await engine.settle([AttemptReport(lost.id, lost.fence, Lost())])
    await writer.tick()
    whole = await total(engine)
    assert {name: count for name, count in whole.counts.items() if count} == {
        "submitted": 3, "started": 3, "succeeded": 1, "failed": 1, "lost": 1, "dead": 2,
    }  # fmt: skip
    assert whole.percentile("wait", 0.5) == 5.0
    assert sum(whole.buckets("duration")) == 2


async def test_a_repeated_claim_is_counted_once(engine: Engine) -> None:
    writer = HistoryWriter(engine)
    await submit(engine)
    for _ in range(2):
        await claim(engine, claim_id="once")
    await writer.tick()
    assert (await total(engine)).counts["started"] == 1


async def test_an_idle_process_writes_nothing(engine: Engine) -> None:
    assert await HistoryWriter(engine).tick() == 0


async def test_a_flush_whose_answer_is_lost_is_counted_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = HistoryWriter(engine)
    add = engine.store.add_history

    async def lose_answer(flush: HistoryFlush) -> bool:
        await add(flush)
        raise StoreUnavailable("the answer was lost")

    monkeypatch.setattr(engine.store, "add_history", lose_answer)
    await submit(engine, 2)
    assert await writer.tick() == 0
    monkeypatch.undo()
    await submit(engine)
    assert await writer.tick() == 2
    assert (await total(engine)).counts["submitted"] == 3


async def test_counts_wait_for_a_store_that_is_away_in_bounded_memory(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = HistoryWriter(engine)

    async def fail(_flush: HistoryFlush) -> bool:
        raise StoreUnavailable("away")

    monkeypatch.setattr(engine.store, "add_history", fail)
    for _ in range(MOST_WAITING + 20):
        await submit(engine)
        await writer.tick()
    monkeypatch.undo()
    assert await writer.tick() <= MOST_WAITING + 1
    assert (await total(engine)).counts["submitted"] == MOST_WAITING + 20


async def test_the_last_counts_are_written_when_the_process_stops(engine: Engine) -> None:
    writing = asyncio.create_task(HistoryWriter(engine).run())
    await asyncio.sleep(0)
    await submit(engine)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    assert (await total(engine)).counts["submitted"] == 1
    assert not engine.telemetry.has_listeners
