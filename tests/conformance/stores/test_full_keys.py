"""`on_full`: policies for a new job whose key has as many running and pending jobs as may run at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from builders import BASE, ManualClock, after, at, claim, ids_of, key, new_job
from conformance.stores.adapters import STORES, Adapter
from conformance.stores.transitions import end, look, state
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.limit import Limit, OnFull
from rota.core.outcome import Succeeded
from rota.core.settlement import Reason
from rota.core.submission import NewJob
from rota.ports.store import Inserted, Receipt, Store


@pytest.fixture(params=STORES, ids=lambda adapter: adapter.name)
def adapter(request: pytest.FixtureRequest) -> Adapter:
    """Each real store: the reference model keeps no limits."""
    chosen: Adapter = request.param
    return chosen


async def set_limit(store: Store, on_full: OnFull, most: int = 1, name: str = "key:a") -> None:
    await store.put_limits([Limit(name, most, on_full=on_full)], now=BASE)


async def submit(store: Store, *jobs: NewJob) -> list[Inserted]:
    return list(await store.insert(jobs, now=BASE))


def keyed(**fields: Any) -> NewJob:  # noqa: ANN401 - any field
    return new_job(concurrency_key="a", **fields)


async def start(store: Store) -> Job:
    (job,) = await store.claim(claim(limit=9), now=BASE)
    return job


async def states_of(store: Store, *jobs: NewJob) -> list[State]:
    return [await state(store, job) for job in jobs]


async def test_by_default_a_job_of_a_full_key_waits(store: Store) -> None:
    await set_limit(store, OnFull.WAIT)
    jobs = [keyed(), keyed()]
    assert [one.receipt for one in await submit(store, *jobs)] == [Receipt.CREATED] * 2
    assert await states_of(store, *jobs) == [State.PENDING] * 2


async def test_drop_makes_no_job_while_others_run_or_wait(store: Store) -> None:
    await set_limit(store, OnFull.DROP, 2)
    first, second, third = keyed(), keyed(), keyed()
    await submit(store, first)
    running = await start(store)
    assert [one.receipt for one in await submit(store, second)] == [Receipt.CREATED]
    assert await submit(store, third) == [Inserted(first.id, Receipt.DROPPED, State.RUNNING)]
    assert await store.get([third.id]) == []
    await end(store, running, Succeeded())
    assert [one.receipt for one in await submit(store, keyed())] == [Receipt.CREATED]


async def test_each_job_of_a_batch_counts_for_those_behind_it(store: Store) -> None:
    await set_limit(store, OnFull.DROP, 2)
    jobs = [keyed() for _ in range(5)]
    receipts = [one.receipt for one in await submit(store, *jobs, new_job(concurrency_key="b"), new_job())]
    assert receipts == [Receipt.CREATED] * 2 + [Receipt.DROPPED] * 3 + [Receipt.CREATED] * 2


async def test_a_repeated_submission_of_a_job_that_was_made_is_not_dropped(store: Store) -> None:
    await set_limit(store, OnFull.DROP)
    job = keyed(idempotency=key("k"))
    await submit(store, job)
    again = keyed(idempotency=key("k"))
    assert await submit(store, again) == [Inserted(job.id, Receipt.REPLAYED, State.PENDING)]
    # One that was dropped is decided about anew.
    late = keyed(idempotency=key("late"))
    assert [one.receipt for one in await submit(store, late)] == [Receipt.DROPPED]
    await end(store, await start(store), Succeeded())
    assert [one.receipt for one in await submit(store, late)] == [Receipt.CREATED]


async def test_cancel_newest_keeps_the_new_job_on_record(store: Store) -> None:
    await set_limit(store, OnFull.CANCEL_NEWEST)
    first, second = keyed(), keyed()
    child = new_job(after=after(second))
    await submit(store, first)
    assert await submit(store, second) == [Inserted(second.id, Receipt.CREATED, State.CANCELLED, BASE)]
    assert (await look(store, second)).reason is Reason.LIMIT_FULL
    await submit(store, child)
    assert await state(store, child) is State.CANCELLED
    assert (await start(store)).id == first.id


async def test_cancel_oldest_stops_a_running_job_and_cancels_a_waiting_one(store: Store) -> None:
    await set_limit(store, OnFull.CANCEL_OLDEST, 2)
    jobs = [keyed() for _ in range(5)]
    await submit(store, jobs[0])
    await start(store)
    await submit(store, jobs[1])
    assert await states_of(store, *jobs[:2]) == [State.RUNNING, State.PENDING]
    await submit(store, jobs[2])
    assert (await look(store, jobs[0])).cancel_requested_at is not None
    assert await states_of(store, *jobs[:3]) == [State.RUNNING, State.PENDING, State.PENDING]
    # The first one has a stop request already: the next one makes room.
    await submit(store, *jobs[3:])
    cancelled = await states_of(store, *jobs)
    assert cancelled == [State.RUNNING, State.CANCELLED, State.CANCELLED, State.PENDING, State.PENDING]
    assert (await look(store, jobs[1])).reason is Reason.REPLACED


async def test_replace_cancels_waiting_jobs_and_lets_running_ones_go_on(store: Store) -> None:
    await set_limit(store, OnFull.REPLACE)
    jobs = [keyed() for _ in range(4)]
    await submit(store, jobs[0])
    running = await start(store)
    for job in jobs[1:]:
        await submit(store, job)
    expected = [State.RUNNING, State.CANCELLED, State.CANCELLED, State.PENDING]
    assert await states_of(store, *jobs) == expected
    assert (await look(store, jobs[0])).cancel_requested_at is None
    await end(store, running, Succeeded())
    assert (await start(store)).id == jobs[3].id


async def test_the_keys_of_a_task_have_what_the_task_says_unless_they_have_their_own(store: Store) -> None:
    await store.put_limits([Limit("task:mail", per_key_max_running=1, on_full=OnFull.DROP)], now=BASE)
    await store.put_limits([Limit("key:mail:big", 1, on_full=OnFull.WAIT)], now=BASE)
    jobs = [new_job(concurrency_key=name) for name in ("mail:1", "mail:1", "mail:big", "mail:big", "other", "other")]
    receipts = [one.receipt for one in await submit(store, *jobs)]
    assert receipts == [Receipt.CREATED, Receipt.DROPPED, *[Receipt.CREATED] * 4]


async def test_jobs_of_the_key_in_other_queues_neither_count_nor_are_stopped(store: Store) -> None:
    """A token that may use one queue must neither see nor cancel jobs in another."""
    await set_limit(store, OnFull.CANCEL_OLDEST)
    other, own = keyed(queue="other"), keyed()
    await submit(store, other)
    await submit(store, own)
    assert await states_of(store, other, own) == [State.PENDING] * 2


async def test_jobs_with_a_later_time_and_blocked_ones_wait(store: Store) -> None:
    await set_limit(store, OnFull.DROP)
    first = keyed()
    jobs = [first, keyed(run_at=at(60)), keyed(after=after(first))]
    assert [one.receipt for one in await submit(store, *jobs)] == [Receipt.CREATED] * 3


async def test_submissions_at_once_leave_no_more_than_may_run(adapter: Adapter, tmp_path: Path) -> None:
    async for place in adapter.place(tmp_path):
        stores = [await adapter.open(place, ManualClock()) for _ in range(3 if adapter.is_shared else 1)]
        await set_limit(stores[0], OnFull.DROP, 3)
        started: list[JobId] = []

        async def submit_some(store: Store) -> None:
            for _ in range(10):
                await submit(store, keyed())

        async def work(store: Store, started: list[JobId] = started) -> None:
            for _ in range(10):
                started += ids_of(await store.claim(claim(limit=2), now=BASE))

        await asyncio.gather(*(verb(store) for store in stores for verb in (submit_some, work)))
        usage = await stores[0].limit_usage(Limit("key:a", 3), now=BASE)
        assert usage.running + usage.waiting == 3
        for store in stores:
            await store.close()
