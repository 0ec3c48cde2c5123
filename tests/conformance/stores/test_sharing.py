"""Several stores on one database, in one process and in many."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from datetime import timedelta

import pytest

from builders import (
    ADA,
    BASE,
    BEN,
    MINUTE,
    SECOND,
    claim,
    entry,
    failure,
    fresh_id,
    ids_of,
    key,
    means,
    new_job,
    new_jobs,
    schedule,
)
from conformance.stores.adapters import SHARED, Adapter
from conformance.stores.conftest import OpenStore
from conformance.stores.test_ledger import breaks, oldest_first
from conformance.stores.transitions import EVERYTHING, begin, look, snapshot
from rota.brokers.in_store import InStoreBroker
from rota.core.decision import decide
from rota.core.lifecycle import State
from rota.core.outcome import Lost, Succeeded
from rota.core.schedule import CatchUp, plan
from rota.ports.store import JobQuery, Receipt, Store
from rota.ports.wakeup import ANY_CHANGE

pytestmark = pytest.mark.parametrize("adapter", SHARED, ids=lambda adapter: adapter.name, indirect=True)

LONG = 60 * SECOND
SHORT = timedelta(milliseconds=20)
PROCESSES = 4
JOBS_EACH = 60


async def test_what_one_store_writes_the_other_reads(store: Store, open_store: OpenStore) -> None:
    other = await open_store()
    jobs = new_jobs(10)
    await store.insert(jobs, now=BASE)
    assert ids_of(await other.get(ids_of(jobs))) == ids_of(jobs)


async def test_what_was_answered_is_there_after_a_restart(store: Store, open_store: OpenStore) -> None:
    jobs = [*new_jobs(5), new_job(idempotency=key("k"), tags=("t",))]
    await store.insert(jobs, now=BASE)
    held = await begin(store, jobs[0])
    await store.intend(held.id, held.fence, "s", now=BASE)
    await store.settle([decide(held, failure(), means())], entry=entry(), now=BASE)
    await store.put_schedules([schedule()], now=BASE)
    before = await snapshot(store)
    await store.close()
    assert await snapshot(await open_store()) == before


async def test_what_was_begun_before_the_close_is_finished(store: Store, open_store: OpenStore) -> None:
    jobs = new_jobs(50)
    calls = [asyncio.ensure_future(store.insert([job], now=BASE)) for job in jobs]
    await asyncio.sleep(0)
    await store.close()
    assert {answer.receipt for (answer,) in await asyncio.gather(*calls)} == {Receipt.CREATED}
    assert (await (await open_store()).census()).total() == 50


async def test_two_stores_never_claim_the_same_job(store: Store, open_store: OpenStore) -> None:
    other = await open_store()
    await store.insert(new_jobs(200), now=BASE)
    got = await asyncio.gather(
        *(each.claim(claim(worker, 12), now=BASE) for _ in range(10) for each, worker in ((store, ADA), (other, BEN)))
    )
    counts = Counter(job.id for batch in got for job in batch)
    assert (len(counts), set(counts.values())) == (200, {1})


async def test_one_key_makes_one_job_in_two_stores(store: Store, open_store: OpenStore) -> None:
    other = await open_store()
    answers = await asyncio.gather(
        *(each.insert([new_job(idempotency=key("k"))], now=BASE) for _ in range(5) for each in (store, other))
    )
    assert sorted(answer.receipt for (answer,) in answers) == [Receipt.CREATED] + 9 * [Receipt.REPLAYED]


async def test_one_of_two_settlements_in_two_stores_holds(store: Store, open_store: OpenStore) -> None:
    other = await open_store()
    await store.insert(new_jobs(30), now=BASE)
    held = await store.claim(claim(ADA), now=BASE)
    moves = [
        (each, decide(job, outcome, means()))
        for job in held
        for each, outcome in ((store, Succeeded()), (other, Lost()))
    ]
    answers = await asyncio.gather(*(each.settle([move], now=BASE) for each, move in moves))
    assert Counter(job_id for answer in answers for job_id in answer) == dict.fromkeys(ids_of(held), 1)


async def test_a_fire_time_makes_one_job_in_two_stores(store: Store, open_store: OpenStore) -> None:
    other = await open_store()
    new = schedule(catch_up=CatchUp.ALL)
    await store.put_schedules([new], now=BASE)
    (found,) = await store.schedules([new.id])
    now = BASE + 10 * MINUTE
    firings = [plan(found, now, previous_is_active=False, fresh_id=fresh_id) for _ in range(6)]
    await asyncio.gather(*(each.fire([one], now=now) for one, each in zip(firings, (store, other) * 3, strict=True)))
    assert len(await store.find(JobQuery(schedule_id=new.id))) == 10


async def test_two_stores_write_one_ledger(store: Store, open_store: OpenStore) -> None:
    other = await open_store()
    await asyncio.gather(*(each.record([entry()], now=BASE) for _ in range(20) for each in (store, other)))
    chain = await oldest_first(store)
    assert len(chain) == 40
    assert breaks(chain) == []


async def test_a_lead_taken_in_one_store_is_not_taken_in_the_other(store: Store, open_store: OpenStore) -> None:
    other = await open_store()
    leads = await asyncio.gather(
        *(each.lead("upkeep", name, 10 * SECOND, now=BASE) for each, name in ((store, "a"), (other, "b")))
    )
    assert len({lead.holder for lead in leads}) == 1


async def test_stores_can_be_opened_on_a_new_database_at_once(open_store: OpenStore) -> None:
    """The first process makes the tables; the others must neither fail nor make them again."""
    stores = await asyncio.gather(*(open_store() for _ in range(4)))
    await asyncio.gather(*(each.insert([new_job()], now=BASE) for each in stores))
    assert (await stores[0].census()).total() == 4


async def test_a_closed_store_does_not_hinder_the_other(store: Store, open_store: OpenStore) -> None:
    other = await open_store()
    await store.insert([new_job()], now=BASE)
    await store.close()
    await other.insert([new_job()], now=BASE)
    assert (await other.census()).total() == 2


async def test_a_watch_tells_that_another_store_has_written(store: Store, open_store: OpenStore) -> None:
    other = await open_store()
    await store.claim(claim(), now=BASE)
    watching = asyncio.ensure_future(store.watch(LONG))
    await other.insert([new_job()], now=BASE)
    assert await watching


async def test_what_was_written_before_a_watch_began_is_told_at_once(store: Store, open_store: OpenStore) -> None:
    """A change came between the last query and the watch: without a report there would be no wake-up for it."""
    other = await open_store()
    await other.insert([new_job()], now=BASE)
    assert await store.watch(LONG)


async def test_every_watch_returns_after_a_change(store: Store, open_store: OpenStore) -> None:
    other = await open_store()
    await store.claim(claim(), now=BASE)
    watching = [asyncio.ensure_future(store.watch(2 * SECOND)) for _ in range(3)]
    await asyncio.sleep(0)
    await other.insert([new_job()], now=BASE)
    assert all(await asyncio.gather(*watching))


async def test_a_watch_returns_for_work_from_the_moment_when_work_is_asked_for(
    store: Store, open_store: OpenStore
) -> None:
    """Until then a store may keep it to itself."""
    other = await open_store()
    async with asyncio.timeout(LONG.total_seconds()):
        while await store.watch(SHORT):
            pass
        watching = asyncio.ensure_future(store.watch(LONG))
        await asyncio.sleep(0)
        await store.claim(claim(), now=BASE)
        await other.insert([new_job()], now=BASE)
        while not await store.claim(claim(), now=BASE):
            await watching
            watching = asyncio.ensure_future(store.watch(LONG))
    watching.cancel()


async def test_a_watch_for_work_alone_returns_at_once(store: Store, open_store: OpenStore) -> None:
    """A page of the dashboard, which takes none: it had to look by itself, every two seconds."""
    other = await open_store()
    broker = InStoreBroker(store)
    async with asyncio.timeout(LONG.total_seconds()):
        with broker.subscribe(ANY_CHANGE) as subscription:
            # A new listener is woken, since something may have come before.
            while await subscription.wait(10 * SHORT):
                pass
            await other.insert([new_job(queue="any")], now=BASE)
            assert await subscription.wait(LONG)
    await broker.close()


async def test_a_watch_ends_when_nothing_happens(store: Store) -> None:
    await store.watch(SHORT)
    assert not await store.watch(SHORT)


async def test_a_process_that_comes_and_goes_does_not_cut_off_one_that_stays(
    adapter: Adapter, place: str, store: Store
) -> None:
    """SQLite: the last process to close deletes the write-ahead log. A store that had lost its lock on the file was
    overlooked, and went on writing into a deleted log.
    """
    for job in new_jobs(3):
        await store.insert([job], now=BASE)
        seen, complaint = await _run("reader_process", adapter.name, place)
        assert complaint == ""
        assert str(job.id) in seen.split()


async def test_processes_that_use_one_database_at_once_run_every_job_exactly_once(
    adapter: Adapter, place: str, open_store: OpenStore
) -> None:
    """Four processes insert, claim, renew and settle at once: no caller gets an error, no job is lost or runs twice."""
    results = await asyncio.gather(
        *(_run("concurrent_process", adapter.name, place, str(number), str(JOBS_EACH)) for number in range(PROCESSES))
    )
    assert [complaint for _, complaint in results] == [""] * PROCESSES
    ran = Counter(line for output, _ in results for line in output.split())
    assert (len(ran), set(ran.values())) == (PROCESSES * JOBS_EACH, {1})
    store = await open_store()
    jobs = await store.find(JobQuery(limit=EVERYTHING))
    assert {(job.state, job.fence) for job in jobs} == {(State.COMPLETED, 1)}
    assert len(jobs) == PROCESSES * JOBS_EACH
    assert await store.check() == []


async def test_a_database_that_was_used_by_two_stores_is_sound(store: Store, open_store: OpenStore) -> None:
    other = await open_store()
    await asyncio.gather(*(each.insert(new_jobs(50), now=BASE) for each in (store, other)))
    assert await other.check() == []
    assert (await look(other, (await store.find(JobQuery(limit=1)))[0])).state is State.PENDING


async def _run(module: str, *arguments: str) -> tuple[str, str]:
    """Run a program of this suite and give what it printed and what it complained about."""
    # The same modules as ours, wherever we have them from.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-W", "error", "-m", f"conformance.stores.{module}", *arguments),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, complaint = await asyncio.wait_for(child.communicate(), 120)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return output.decode(), complaint.decode()
