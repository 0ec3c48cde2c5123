"""Limits: what runs and starts is never more than a limit allows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from builders import ADA, BASE, BEN, HOUR, ManualClock, at, claim, entry, ids_of, means, new_job, new_jobs
from conformance.stores.adapters import STORES, Adapter
from conformance.stores.transitions import call_off, end
from rota.core.decision import decide
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import WorkerId
from rota.core.lifecycle import State
from rota.core.limit import Limit
from rota.core.outcome import Failed, Succeeded
from rota.core.queue import Lane
from rota.core.settlement import JobError
from rota.ports.store import Store
from rota.stores.limited_lanes import MOST_KEYS_AT_ONCE, MOST_KEYS_SEEN


@pytest.fixture(params=STORES, ids=lambda adapter: adapter.name)
def adapter(request: pytest.FixtureRequest) -> Adapter:
    """Each real store: the reference model keeps no limits."""
    chosen: Adapter = request.param
    return chosen


async def keyed(store: Store, **counts: int) -> None:
    """Submit so many jobs of each key."""
    for key, count in counts.items():
        await store.insert(new_jobs(count, concurrency_key=key), now=BASE)


async def start(store: Store, limit: int = 100, seconds: float = 0, **fields: Any) -> list[Job]:  # noqa: ANN401 - any field of a claim
    return list(await store.claim(claim(limit=limit, **fields), now=at(seconds)))


def keys_of(jobs: list[Job]) -> list[str | None]:
    return [job.concurrency_key for job in jobs]


async def test_a_key_without_a_limit_runs_one_at_a_time(store: Store) -> None:
    await keyed(store, a=3)
    (first,) = await start(store)
    assert await start(store) == []
    await end(store, first, Succeeded())
    assert len(await start(store)) == 1


async def test_a_key_runs_as_many_as_its_limit_says(store: Store) -> None:
    await store.put_limits([Limit("key:a", 2)], now=BASE)
    await keyed(store, a=5, b=5)
    assert sorted(keys_of(await start(store)), key=str) == ["a", "a", "b"]


async def test_keys_of_a_task_have_its_limit_for_each_key(store: Store) -> None:
    await store.put_limits([Limit("task:mail", per_key_max_running=3)], now=BASE)
    await store.insert([*new_jobs(5, concurrency_key="mail:7"), *new_jobs(5, concurrency_key="own")], now=BASE)
    assert sorted(keys_of(await start(store)), key=str) == ["mail:7"] * 3 + ["own"]


async def test_a_key_that_a_task_makes_has_its_limit_whatever_the_type_of_the_job(store: Store) -> None:
    await store.put_limits([Limit("task:report", per_key_max_running=2)], now=BASE)
    await store.insert(
        [*new_jobs(3, concurrency_key="report:7"), *new_jobs(3, "report", concurrency_key="report:7")], now=BASE
    )
    assert len(await start(store, types=("mail",))) == 2
    assert await start(store) == []


async def test_a_queue_runs_as_many_as_its_limit_says_with_and_without_keys(store: Store) -> None:
    await store.put_limits([Limit("queue:default", 3)], now=BASE)
    await store.insert(new_jobs(5), now=BASE)
    await keyed(store, a=2, b=2)
    running = await start(store)
    assert len(running) == 3
    assert await start(store) == []
    await end(store, running[0], Succeeded())
    assert len(await start(store)) == 1


async def test_a_task_runs_as_many_as_its_limit_says_over_all_queues(store: Store) -> None:
    await store.put_limits([Limit("task:mail", 2)], now=BASE)
    await store.insert([*new_jobs(3, queue="p"), *new_jobs(3, queue="q"), *new_jobs(2, "report", queue="q")], now=BASE)
    types = [job.type for job in await start(store, queues=("p", "q"))]
    assert (types.count("mail"), types.count("report")) == (2, 2)


async def test_a_full_limit_keeps_no_other_lane_from_starting(store: Store) -> None:
    await store.put_limits([Limit("task:mail", 1)], now=BASE)
    await store.insert([*new_jobs(50), *new_jobs(3, "report")], now=BASE)
    assert [job.type for job in await start(store)].count("report") == 3


async def test_a_job_passes_all_its_limits_or_takes_nothing(store: Store) -> None:
    await store.put_limits([Limit("queue:default", 2, "2/h"), Limit("key:a", 1)], now=BASE)
    await keyed(store, a=4, b=1)
    assert sorted(keys_of(await start(store)), key=str) == ["a", "b"]


async def test_keys_take_turns(store: Store) -> None:
    await store.put_limits([Limit("task:mail", per_key_max_running=100)], now=BASE)
    await store.insert(new_jobs(50, concurrency_key="mail:big"), now=BASE)
    await store.insert([new_job(concurrency_key=f"mail:{number}") for number in range(3)], now=at(1))
    first = keys_of(await start(store, 4, 2))
    assert sorted(first, key=str) == ["mail:0", "mail:1", "mail:2", "mail:big"]


async def test_a_key_with_one_job_starts_within_one_round_behind_three_thousand(store: Store) -> None:
    await store.put_limits([Limit("task:mail", per_key_max_running=100), Limit("queue:default", 3)], now=BASE)
    await store.insert(new_jobs(3000, concurrency_key="mail:a"), now=BASE)
    running = await start(store, 1)
    await store.insert(new_jobs(1, concurrency_key="mail:b"), now=at(1))
    await store.insert(new_jobs(10, concurrency_key="mail:c"), now=at(1))
    served = []
    for _ in range(6):
        await end(store, running.pop(), Succeeded(), at(2))
        running = await start(store, 1, 2)
        served += keys_of(running)
    assert "mail:b" in served[:3]
    assert served.count("mail:c") >= 2


async def test_keys_start_by_their_weights(store: Store) -> None:
    await store.put_limits([Limit("key:heavy", 5000, weight=3), Limit("key:light", 5000)], now=BASE)
    await keyed(store, heavy=1900, light=900)
    started = [key for _ in range(40) for key in keys_of(await start(store, 50))]
    assert len(started) == 2000
    assert started.count("heavy") / started.count("light") == pytest.approx(3, rel=0.05)


async def test_jobs_in_strict_order_wait_for_one_that_is_tried_again(store: Store) -> None:
    await store.put_limits([Limit("key:a", order="strict")], now=BASE)
    first, second = new_job(concurrency_key="a"), new_job(concurrency_key="a", priority=9)
    await store.insert([first, second, new_job(concurrency_key="b")], now=BASE)
    running = {job.concurrency_key: job for job in await start(store)}
    assert running["a"].id == first.id
    await end(store, running["a"], Failed(JobError("E", "again")))
    assert await start(store, seconds=1) == []
    await store.promote(10, now=at(60))
    (again,) = await start(store, seconds=60)
    assert again.id == first.id
    await end(store, again, Succeeded(), at(60))
    assert ids_of(await start(store, seconds=60)) == [second.id]


async def test_a_job_in_strict_order_that_is_cancelled_lets_the_next_one_start(store: Store) -> None:
    await store.put_limits([Limit("key:a", order="strict")], now=BASE)
    first, second = new_job(concurrency_key="a", run_at=at(60)), new_job(concurrency_key="a")
    await store.insert([first, second], now=BASE)
    assert await start(store, seconds=1) == []
    await call_off(store, first)
    assert ids_of(await start(store, seconds=1)) == [second.id]


async def test_a_worker_with_one_slot_goes_round_the_keys(store: Store) -> None:
    await keyed(store, a=3, b=3, c=1)
    served = []
    for _ in range(7):
        (job,) = await start(store, 1)
        served.append(job.concurrency_key)
        await end(store, job, Succeeded())
    assert served[:3] == ["a", "b", "c"]
    assert sorted(served, key=str) == ["a"] * 3 + ["b"] * 3 + ["c"]


async def test_the_most_urgent_of_the_keys_goes_first(store: Store) -> None:
    await store.insert([new_job(concurrency_key="a"), new_job(concurrency_key="z", priority=9)], now=BASE)
    assert keys_of(await start(store, 1)) == ["z"]


async def test_neither_limited_nor_other_jobs_keep_the_others_from_starting(store: Store) -> None:
    await store.put_limits([Limit("task:mail", 100)], now=BASE)
    await store.insert([*new_jobs(20), *new_jobs(20, "report")], now=BASE)
    types = [job.type for _ in range(4) for job in await start(store, 3)]
    assert (types.count("mail"), types.count("report")) == (6, 6)


async def test_a_permit_that_is_freed_is_given_although_ordinary_jobs_wait(store: Store) -> None:
    """While a key is full, claims take ordinary jobs without looking at it; not any longer."""
    await keyed(store, a=2)
    await store.insert(new_jobs(40, "report"), now=BASE)
    started = [job for _ in range(6) for job in await start(store, 1)]
    (keyed_job,) = [job for job in started if job.concurrency_key == "a"]
    await end(store, keyed_job, Succeeded())
    assert store.frees_permit([keyed_job.id])
    assert "a" in keys_of([job for _ in range(2) for job in await start(store, 1)])


async def test_a_rate_lets_a_burst_start_and_then_one_for_each_interval(store: Store) -> None:
    await store.put_limits([Limit("task:mail", rate_limit="10/s")], now=BASE)
    await store.insert(new_jobs(30), now=BASE)
    assert len(await start(store)) == 10
    assert await start(store, seconds=0.099) == []
    assert len(await start(store, seconds=0.1)) == 1
    assert len(await start(store, seconds=0.5)) == 4
    assert len(await start(store, seconds=100)) == 10


async def test_the_slower_of_two_rates_counts(store: Store) -> None:
    await store.put_limits([Limit("queue:default", rate_limit="5/s, 7/h")], now=BASE)
    await store.insert(new_jobs(30), now=BASE)
    assert [len(await start(store, seconds=seconds)) for seconds in (0, 1, 2, 3)] == [5, 2, 0, 0]


async def test_a_rate_of_a_key_is_the_keys_own(store: Store) -> None:
    await store.put_limits([Limit("task:mail", per_key_rate_limit="1/m")], now=BASE)
    await store.insert([new_job(concurrency_key=f"mail:{number % 2}") for number in range(6)], now=BASE)
    assert [len(await start(store, seconds=seconds)) for seconds in (0, 30, 60)] == [2, 0, 2]


async def test_a_claim_that_a_rate_keeps_waiting_looks_again_when_it_opens(store: Store) -> None:
    await store.put_limits([Limit("task:mail", rate_limit="10/s burst 1")], now=BASE)
    await store.insert(new_jobs(3), now=BASE)
    assert len(await start(store)) == 1
    assert await start(store) == []
    assert store.limit_pause(claim()) == timedelta(milliseconds=100)
    assert store.limit_pause(claim()) is None


async def test_a_closed_limit_starts_nothing_until_its_time(store: Store) -> None:
    await store.close_limit(Limit("queue:default", closed_until=at(60), reason="maintenance"), now=BASE)
    await store.insert(new_jobs(1), now=BASE)
    assert await start(store, seconds=59) == []
    assert len(await start(store, seconds=60)) == 1


async def test_a_closed_key_starts_nothing_and_others_do(store: Store) -> None:
    await store.close_limit(Limit("key:a", closed_until=at(60)), now=BASE)
    await keyed(store, a=1, b=1)
    assert keys_of(await start(store)) == ["b"]
    await store.close_limit(Limit("key:a"), now=BASE)
    assert keys_of(await start(store)) == ["a"]
    assert await store.limits() == []


async def test_closing_keeps_what_a_limit_allows_and_setting_keeps_it_closed(store: Store) -> None:
    await store.put_limits([Limit("queue:q", 3)], now=BASE)
    await store.close_limit(Limit("queue:q", closed_until=at(60), reason="why"), now=BASE)
    await store.put_limits([Limit("queue:q", 4)], now=BASE)
    (limit,) = await store.limits(["queue:q"])
    assert (limit.max_running, limit.closed_until, limit.reason) == (4, at(60), "why")


async def test_lowering_a_limit_stops_new_starts_only(store: Store) -> None:
    await store.put_limits([Limit("queue:default", 3)], now=BASE)
    await store.insert(new_jobs(6), now=BASE)
    running = await start(store)
    await store.put_limits([Limit("queue:default", 1)], now=BASE)
    for job in running[:2]:
        await end(store, job, Succeeded())
        assert await start(store) == []
    await end(store, running[2], Succeeded())
    assert len(await start(store)) == 1


async def test_a_deleted_limit_limits_nothing(store: Store) -> None:
    await store.put_limits([Limit("queue:default", 1)], now=BASE)
    await store.insert(new_jobs(3), now=BASE)
    assert len(await start(store)) == 1
    assert await store.drop_limit("queue:default", now=BASE)
    assert not await store.drop_limit("queue:default", now=BASE)
    assert len(await start(store)) == 2


async def test_a_limited_job_is_not_claimed_ahead_of_its_time(store: Store) -> None:
    await store.put_limits([Limit("task:mail", 5)], now=BASE)
    await store.insert([new_job(run_at=at(0.05)), new_job("other", run_at=at(0.05), concurrency_key="a")], now=BASE)
    assert await start(store, ahead=timedelta(milliseconds=100)) == []


async def test_a_limited_job_is_not_dispatched_and_not_claimed_by_its_id(store: Store) -> None:
    free, limited, with_key = new_job("free"), new_job("mail"), new_job("free", concurrency_key="a")
    await store.insert([free, limited, with_key], now=BASE)
    await store.put_limits([Limit("task:mail", 1)], now=BASE)
    room = {Lane("default", "free"): 10, Lane("default", "mail"): 10}
    assert [one.job_id for one in await store.dispatch(room, now=BASE)] == [free.id]
    ids = (free.id, limited.id, with_key.id)
    assert ids_of(await store.claim(claim(ids=ids), now=BASE)) == [free.id]


async def test_a_paused_queue_starts_no_keyed_jobs_and_an_expired_one_is_passed_over(store: Store) -> None:
    late, fine = new_job(concurrency_key="a", expires_at=at(5)), new_job(concurrency_key="a")
    await store.insert([late, fine], now=BASE)
    assert ids_of(await start(store, seconds=10)) == [fine.id]


async def test_a_permit_of_a_lapsed_lease_is_free_once_the_job_is_taken_from_its_worker(store: Store) -> None:
    await keyed(store, a=1, b=0)
    (job,) = await start(store)
    assert await start(store, seconds=3600) == []
    (lost,) = await store.lost(10, now=BASE + HOUR)
    assert lost.id == job.id


async def test_waiting_jobs_with_a_key_are_counted_and_bound_a_queue(store: Store) -> None:
    await keyed(store, a=3)
    await store.insert(new_jobs(2), now=BASE)
    (lane,) = (await store.census()).lanes
    assert (lane.count, lane.state, lane.due_since) == (5, State.PENDING, BASE)
    (refused,) = await store.insert(new_jobs(1), bound=5, now=BASE)
    assert refused.receipt.value == "queue_full"


async def test_the_usage_of_a_limit_names_running_jobs_and_counts_waiting_ones(store: Store) -> None:
    await keyed(store, a=3)
    await store.insert(new_jobs(2, "report"), now=BASE)
    await store.put_limits([Limit("queue:default", 2)], now=BASE)
    running = await start(store)
    usage = await store.limit_usage(Limit("queue:default", 2), now=BASE)
    assert (usage.running, usage.waiting, set(usage.holders)) == (2, 3, {job.id for job in running})
    of_key = await store.limit_usage(Limit("key:a", 1), now=BASE)
    assert (of_key.running, of_key.waiting) == (1, 2)
    of_task = await store.limit_usage(Limit("task:report"), now=BASE)
    assert of_task.running + of_task.waiting == 2


async def test_a_ledger_entry_is_written_with_a_limit(store: Store) -> None:
    await store.put_limits([Limit("queue:q", 1)], entry=entry("limits.set", "queue:q"), now=BASE)
    assert [one.action for one in await store.ledger()] == ["limits.set"]


async def test_a_repeated_claim_of_a_limited_job_gives_the_same(store: Store) -> None:
    await keyed(store, a=2)
    first = await start(store, claim_id="c")
    assert ids_of(await start(store, claim_id="c")) == ids_of(first)


async def test_the_check_finds_a_limit_that_is_exceeded(store: Store) -> None:
    await store.insert(new_jobs(3), now=BASE)
    await start(store)
    assert list(await store.check()) == []
    await store.put_limits([Limit("queue:default", 2)], now=BASE)
    assert list(await store.check()) == ["limit queue:default: 3 jobs run and max_running is 2"]


async def test_many_claims_at_once_never_exceed_their_limits(adapter: Adapter, tmp_path: Path) -> None:
    """Several stores, as in several processes, claim and settle as fast as they can."""
    async for place in adapter.place(tmp_path):
        stores = [await adapter.open(place, ManualClock()) for _ in range(3 if adapter.is_shared else 1)]
        await stores[0].put_limits([Limit("queue:default", 7), Limit("task:mail", per_key_max_running=2)], now=BASE)
        await stores[0].insert(new_jobs(40), now=BASE)
        await stores[0].insert([new_job(concurrency_key=f"mail:{number % 20}") for number in range(60)], now=BASE)
        ended: list[JobId] = []

        async def work(store: Store, name: str, ended: list[JobId] = ended) -> None:
            while len(ended) < 100:
                jobs = await store.claim(claim(WorkerId(name, name), 3), now=BASE)
                await asyncio.sleep(0)
                assert list(await store.check()) == [] or not adapter.is_shared
                for job in jobs:
                    await store.settle([decide(job, Succeeded(), means(BASE))], now=BASE)
                    ended.append(job.id)

        await asyncio.wait_for(asyncio.gather(*(work(one, f"w{n}") for n, one in enumerate(stores * 2))), 60)
        assert sorted(ended) == sorted(set(ended))
        for store in stores:
            await store.close()


async def test_two_workers_together_never_exceed_a_limit(adapter: Adapter, tmp_path: Path) -> None:
    places: AsyncIterator[str] = adapter.place(tmp_path)
    async for place in places:
        store = await adapter.open(place, ManualClock())
        await store.put_limits([Limit("queue:default", 5)], now=BASE)
        await store.insert([*new_jobs(20), *new_jobs(20, concurrency_key="a")], now=BASE)
        claimed = [job for worker in (ADA, BEN, ADA) for job in await store.claim(claim(worker, 3), now=BASE)]
        assert len(claimed) == 5
        assert sum(job.concurrency_key == "a" for job in claimed) <= 1
        await store.close()


async def test_keys_behind_many_that_cannot_start_do_start(store: Store) -> None:
    """A claim looks at a bounded number of keys of each task, and the next one goes on behind them."""
    for name in ("mail", "report"):
        await store.put_limits([Limit(f"task:{name}", order="strict")], now=BASE)
        for run_at in (at(60), None):
            keys = [f"{name}:{number:04}" for number in range(MOST_KEYS_SEEN + MOST_KEYS_AT_ONCE)]
            await store.insert([new_job(name, concurrency_key=key, run_at=run_at) for key in keys], now=BASE)
        await store.insert([new_job(name, concurrency_key=f"{name}:last")], now=BASE)
    started = [key for _ in range(3) for key in keys_of(await start(store, seconds=1))]
    assert sorted(started, key=str) == ["mail:last", "report:last"]


async def test_a_claim_that_waits_for_the_first_of_a_strict_order_looks_again(store: Store) -> None:
    await store.put_limits([Limit("key:a", order="strict")], now=BASE)
    await store.insert([new_job(concurrency_key="a", run_at=at(60)), new_job(concurrency_key="a")], now=BASE)
    assert await start(store, seconds=1) == []
    assert store.limit_pause(claim()) == timedelta(seconds=1)


async def test_all_claims_that_come_at_once_look_again_when_a_rate_opens(store: Store) -> None:
    await store.put_limits([Limit("task:mail", rate_limit="10/s burst 1")], now=BASE)
    await store.insert(new_jobs(9), now=BASE)
    claims = [claim(WorkerId(f"w{number}", f"boot-{number}"), 1) for number in range(8)]
    answers = await asyncio.gather(*(store.claim(one, now=at(0)) for one in claims))
    assert sorted(map(len, answers)) == [0] * 7 + [1]
    idle = [one for one, jobs in zip(claims, answers, strict=True) if not jobs]
    assert all(store.limit_pause(one) for one in idle)
