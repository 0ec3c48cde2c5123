"""Attempts to exceed a limit: by every way in which a job starts, by races, changes, cancelled calls, clock steps."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from builders import BASE, HOUR, MINUTE, ManualClock, after, at, claim, ids_of, means, new_job, new_jobs
from conformance.stores.adapters import STORES, Adapter
from conformance.stores.transitions import complete, end, kill, look
from rota.brokers.in_store import InStoreBroker
from rota.core.decision import decide
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.job_edit import JobEdit, change_of
from rota.core.lease import WorkerId
from rota.core.limit import Limit, parse_rates
from rota.core.outcome import Failed, Lost, Released, Snoozed, Succeeded
from rota.core.queue import Lane
from rota.core.settlement import JobError
from rota.core.time import to_micros
from rota.engine import Engine
from rota.ports.client import Actor
from rota.ports.store import Store

OPERATOR = Actor("ada")
QUEUE = "queue:default"


@pytest.fixture(params=STORES, ids=lambda adapter: adapter.name)
def adapter(request: pytest.FixtureRequest) -> Adapter:
    """Each real store: the reference model keeps no limits."""
    chosen: Adapter = request.param
    return chosen


@asynccontextmanager
async def several(
    adapter: Adapter, folder: Path, clock: Callable[[], datetime] | None = None
) -> AsyncIterator[list[Store]]:
    """Open one database as often as several processes would."""
    async for place in adapter.place(folder):
        stores = [await adapter.open(place, clock or ManualClock()) for _ in range(3 if adapter.is_shared else 1)]
        try:
            yield stores
        finally:
            for store in stores:
                await store.close()


# Changes of a rate, and of the clock


async def test_a_rate_that_is_raised_holds_at_once(store: Store) -> None:
    await store.put_limits([Limit("task:mail", rate_limit="1/h")], now=BASE)
    await store.insert(new_jobs(30), now=BASE)
    assert len(await store.claim(claim(limit=9), now=BASE)) == 1
    await store.put_limits([Limit("task:mail", rate_limit="10/s")], now=at(1))
    # A burst counts as started just now: one more for each interval.
    assert len(await store.claim(claim(limit=9), now=at(1.1))) == 1
    assert len(await store.claim(claim(limit=9), now=at(1.3))) == 2


async def test_a_rate_for_each_key_that_is_raised_holds_at_once_for_keys_that_have_used_it_up(store: Store) -> None:
    await store.put_limits([Limit("task:mail", per_key_rate_limit="1/h")], now=BASE)
    await store.insert(new_jobs(9, concurrency_key="mail:7"), now=BASE)
    assert len(await store.claim(claim(limit=9), now=BASE)) == 1
    await store.put_limits([Limit("task:mail", per_key_rate_limit="10/s burst 1")], now=at(1))
    assert len(await store.claim(claim(limit=9), now=at(1.1))) == 1


async def test_a_rate_that_is_set_once_more_has_no_new_burst(store: Store) -> None:
    limit = Limit("task:mail", rate_limit="5/m")
    await store.put_limits([limit], now=BASE)
    await store.insert(new_jobs(30), now=BASE)
    assert len(await store.claim(claim(limit=9), now=BASE)) == 5
    for second in range(5):
        await store.put_limits([limit], now=at(second))
        assert await store.claim(claim(limit=9), now=at(second)) == []


async def test_a_rate_goes_on_after_the_clock_was_set_back(store: Store) -> None:
    await store.put_limits([Limit("task:mail", rate_limit="10/s")], now=BASE)
    await store.insert(new_jobs(60), now=BASE)
    assert len(await store.claim(claim(limit=60), now=BASE + HOUR)) == 10
    # A burst counts as started just now.
    assert [len(await store.claim(claim(limit=60), now=at(second))) for second in (0, 0.1, 0.3, 9)] == [0, 1, 2, 10]


async def test_claims_whose_times_are_out_of_order_do_not_exceed_a_rate(store: Store) -> None:
    """A process that stood still between two statements claims with a time that is past."""
    (rate,) = parse_rates("10/s burst 5")
    await store.put_limits([Limit("task:mail", rate_limit="10/s burst 5")], now=BASE)
    await store.insert(new_jobs(300), now=BASE)
    starts: list[int] = []
    for second in (0, 3, 0.1, 1, 4, 3.2, 0.5, 4.1, 9, 5, 6, 2, 9.5, 9.1):
        moment = at(second)
        starts += [to_micros(moment)] * len(await store.claim(claim(limit=20), now=moment))
    starts.sort()
    for first, begun in enumerate(starts):
        for last in range(first, len(starts)):
            assert last - first + 1 <= rate.burst + (starts[last] - begun) / rate.interval


# Every way in


async def _retried(engine: Engine, store: Store) -> JobId:
    job = new_job()
    await store.insert([job], now=BASE)
    await kill(store, job)
    await engine.jobs.retry([job.id], OPERATOR)
    return job.id


async def _run_now(engine: Engine, store: Store) -> JobId:
    job = new_job(run_at=BASE + HOUR)
    await store.insert([job], now=BASE)
    await engine.jobs.run_now([job.id], OPERATOR)
    return job.id


async def _failed_once(_engine: Engine, store: Store) -> JobId:
    job = new_job()
    await store.insert([job], now=BASE)
    (held,) = await store.claim(claim(ids=(job.id,)), now=BASE)
    await end(store, held, Failed(JobError("E", "again")))
    await store.promote(10, now=BASE + HOUR)
    return job.id


async def _snoozed(_engine: Engine, store: Store) -> JobId:
    job = new_job()
    await store.insert([job], now=BASE)
    (held,) = await store.claim(claim(ids=(job.id,)), now=BASE)
    await end(store, held, Snoozed(MINUTE))
    await store.promote(10, now=BASE + HOUR)
    return job.id


async def _released(_engine: Engine, store: Store) -> JobId:
    job = new_job()
    await store.insert([job], now=BASE)
    (held,) = await store.claim(claim(ids=(job.id,)), now=BASE)
    await end(store, held, Released())
    return job.id


async def _lost(_engine: Engine, store: Store) -> JobId:
    job = new_job()
    await store.insert([job], now=BASE)
    (held,) = await store.claim(claim(ids=(job.id,)), now=BASE)
    await store.settle([decide(held, Lost(), means(BASE))], now=BASE)
    return job.id


async def _edited(engine: Engine, store: Store) -> JobId:
    job = new_job(queue="side")
    await store.insert([job], now=BASE)
    await engine.jobs.edit(job.id, JobEdit(queue="default"), OPERATOR)
    return job.id


async def _recalled(_engine: Engine, store: Store) -> JobId:
    job = new_job()
    await store.insert([job], now=BASE)
    (handed,) = await store.dispatch({Lane("default", "mail"): 10}, now=BASE)
    await store.recall([handed.job_id], now=BASE)
    return job.id


async def _dependent(_engine: Engine, store: Store) -> JobId:
    first = new_job(queue="side")
    second = new_job(after=after(first))
    await store.insert([first], now=BASE)
    await store.insert([second], now=BASE)
    await complete(store, first)
    return second.id


WAYS: dict[str, Callable[[Engine, Store], Awaitable[JobId]]] = {
    "retry of a dead letter": _retried,
    "run now": _run_now,
    "retry after a failure": _failed_once,
    "snooze": _snoozed,
    "hand-back": _released,
    "lapsed lease": _lost,
    "move from another queue": _edited,
    "recall from a broker": _recalled,
    "end of the job before it": _dependent,
}


@pytest.mark.parametrize("way", WAYS)
async def test_no_way_in_passes_a_full_limit(store: Store, way: str) -> None:
    broker = InStoreBroker(store)
    engine = Engine(store, broker, clock=ManualClock())
    job_id = await WAYS[way](engine, store)
    await store.put_limits([Limit(QUEUE, 1)], now=BASE)
    # Another one holds the permit.
    other = new_job("report", priority=10)
    await store.insert([other], now=BASE)
    later = BASE + 2 * HOUR
    assert ids_of(await store.claim(claim(types=("report",), limit=1), now=later)) == [other.id]
    for wanted in (
        claim(),
        claim(limit=1),
        claim(types=None),
        claim(ids=(job_id,)),
        claim(ahead=2 * HOUR),
        claim(queues=("side", "default"), types=("mail", "other")),
    ):
        assert await store.claim(wanted, now=later) == [], wanted
    assert [one.job_id for one in await store.dispatch({Lane("default", "mail"): 10}, now=later)] == []
    held = await look(store, other)
    await store.settle([decide(held, Succeeded(), means(later))], now=later)
    assert ids_of(await store.claim(claim(), now=later)) == [job_id]
    await broker.close()


async def test_a_job_for_a_waiting_worker_is_not_handed_over_past_a_limit(adapter: Adapter, tmp_path: Path) -> None:
    async with several(adapter, tmp_path) as stores:
        worker, submitter = stores[0], stores[-1]
        await submitter.put_limits([Limit(QUEUE, 1)], now=BASE)
        wanted = claim(limit=5, claim_id="c1", waits=timedelta(seconds=5), types=("mail", "report"))
        assert await worker.claim(wanted, now=BASE) == []
        for _ in range(4):
            await submitter.insert([new_job()], now=BASE)
        seen: set[JobId] = set()
        for number in range(4):
            seen.update(ids_of(await worker.claim(claim(limit=5, claim_id=f"d{number}"), now=BASE)))
        assert len(seen) <= 1
        assert list(await submitter.check()) == []


async def test_a_job_that_was_dispatched_before_its_queue_had_a_limit_starts_within_it(store: Store) -> None:
    jobs = new_jobs(3)
    await store.insert(jobs, now=BASE)
    handed = await store.dispatch({Lane("default", "mail"): 10}, now=BASE)
    assert len(handed) == 3
    await store.put_limits([Limit(QUEUE, 1)], now=BASE)
    assert await store.claim(claim(ids=tuple(one.id for one in jobs)), now=BASE) == []
    # The audit of the dispatcher makes jobs pending that the broker no longer has.
    await store.recall([one.id for one in jobs], now=BASE)
    assert len(await store.claim(claim(), now=BASE)) == 1


async def test_claims_of_different_kinds_at_once_share_a_limit(store: Store) -> None:
    """Claims that come together may be one transaction: each must see what the one before it has leased."""
    await store.put_limits([Limit(QUEUE, 5, "6/h")], now=BASE)
    await store.insert([*new_jobs(10), *new_jobs(10, "report"), *new_jobs(10, "report", concurrency_key="k")], now=BASE)
    wanted = [
        claim(WorkerId(f"w{number}", f"boot-{number}"), 4, types=types)
        for number in range(12)
        for types in (("mail",), ("report",), ("mail", "report"), None)
    ]
    answers = await asyncio.gather(*(store.claim(one, now=BASE) for one in wanted))
    assert sum(map(len, answers)) <= 5
    assert list(await store.check()) == []
    for jobs in answers:
        for job in jobs:
            await store.settle([decide(job, Succeeded(), means(BASE))], now=BASE)
    again = await asyncio.gather(*(store.claim(one, now=BASE) for one in wanted))
    assert sum(map(len, again)) <= 1


async def test_cancelled_calls_leak_no_permit_and_exceed_nothing(adapter: Adapter, tmp_path: Path) -> None:
    """A caller may be cancelled between any two statements of a claim; its claim is repeated by its id."""
    async with several(adapter, tmp_path) as stores:
        first = stores[0]
        await first.put_limits([Limit(QUEUE, 4), Limit("task:mail", per_key_max_running=1)], now=BASE)
        await first.insert(new_jobs(20), now=BASE)
        await first.insert([new_job(concurrency_key=f"mail:{number % 3}") for number in range(20)], now=BASE)
        ended: list[JobId] = []
        for number in range(400):
            store = stores[number % len(stores)]
            wanted = claim(limit=3, claim_id=f"c{number}", is_new=False)
            task = asyncio.ensure_future(store.claim(wanted, now=BASE))
            for _ in range(number % 13):
                await asyncio.sleep(0)
            task.cancel()
            try:
                jobs = list(await task)
            except asyncio.CancelledError:
                jobs = list(await store.claim(wanted, now=BASE))
            running = Counter(job.concurrency_key for job in jobs if job.concurrency_key)
            assert max(running.values(), default=0) <= 1
            for job in jobs:
                await store.settle([decide(job, Succeeded(), means(BASE))], now=BASE)
                ended.append(job.id)
            if len(ended) == 40:
                break
        assert sorted(ended) == sorted(set(ended))
        assert len(ended) == 40
        usage = await first.limit_usage(Limit(QUEUE, 4), now=BASE)
        assert (usage.running, usage.waiting) == (0, 0)


async def test_jobs_that_move_between_queues_while_they_are_claimed_exceed_no_limit(
    adapter: Adapter, tmp_path: Path
) -> None:
    async with several(adapter, tmp_path) as stores:
        await stores[0].put_limits([Limit("queue:default", 30), Limit("queue:side", 1)], now=BASE)
        jobs = new_jobs(60)
        await stores[0].insert(jobs, now=BASE)

        async def move(store: Store) -> None:
            for job in jobs:
                found = await look(store, job)
                if found.state == "pending":
                    await store.edit(change_of(found, JobEdit(queue="side"), BASE), now=BASE)

        async def work(store: Store, name: str) -> list[Job]:
            return [
                job
                for _ in range(15)
                for job in await store.claim(claim(WorkerId(name, name), 2, queues=("default", "side")), now=BASE)
            ]

        await asyncio.gather(move(stores[-1]), *(work(one, f"w{n}") for n, one in enumerate(stores)))
        assert list(await stores[0].check()) == []


async def test_rates_hold_over_several_processes_on_the_stores_clock(adapter: Adapter, tmp_path: Path) -> None:
    (rate,) = parse_rates("200/s burst 10")
    async with several(adapter, tmp_path, lambda: datetime.now(UTC)) as stores:
        await stores[0].put_limits([Limit("task:mail", rate_limit="200/s burst 10")])
        await stores[0].insert(new_jobs(150))
        starts: list[int] = []

        async def work(store: Store, name: str) -> None:
            while len(starts) < 150:
                for job in await store.claim(claim(WorkerId(name, name), 7)):
                    assert job.started_at is not None
                    starts.append(to_micros(job.started_at))
                await asyncio.sleep(0.002)

        await asyncio.wait_for(asyncio.gather(*(work(one, f"w{n}") for n, one in enumerate(stores))), 60)
        starts.sort()
        for first, begun in enumerate(starts):
            for last in range(first, len(starts)):
                assert last - first + 1 <= rate.burst + (starts[last] - begun) / rate.interval
