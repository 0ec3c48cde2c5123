"""`now=None` means the store's own clock. Each verb that takes the time must read it."""

from __future__ import annotations

from dataclasses import replace

from builders import BASE, DAY, HOUR, SECOND, ManualClock, claim, entry, fresh_id, means, new_job, schedule
from conformance.stores.transitions import begin, complete, look
from rota.core.cluster import Member, Role
from rota.core.decision import decide
from rota.core.lease import Renewal
from rota.core.lifecycle import State
from rota.core.outcome import Succeeded
from rota.core.queue import Queue
from rota.core.schedule import plan
from rota.ports.store import Retention, Store


async def test_the_store_tells_its_time(store: Store, clock: ManualClock) -> None:
    clock.move(HOUR)
    assert await store.time() == BASE + HOUR


async def test_a_job_is_created_by_the_stores_clock(store: Store, clock: ManualClock) -> None:
    clock.move(HOUR)
    job = new_job()
    await store.insert([job])
    stored = await look(store, job)
    assert (stored.created_at, stored.run_at) == (BASE + HOUR, BASE + HOUR)


async def test_a_job_is_scheduled_or_pending_by_the_stores_clock(store: Store, clock: ManualClock) -> None:
    job = new_job(run_at=BASE + HOUR)
    clock.move(HOUR)
    (answer,) = await store.insert([job])
    assert answer.state is State.PENDING


async def test_a_lease_is_given_by_the_stores_clock(store: Store, clock: ManualClock) -> None:
    await store.insert([new_job()])
    clock.move(HOUR)
    (held,) = await store.claim(claim(lease=SECOND))
    assert held.lease_until == BASE + HOUR + SECOND


async def test_a_lease_is_extended_by_the_stores_clock(store: Store, clock: ManualClock) -> None:
    job = new_job()
    await store.insert([job])
    held = await begin(store, job)
    clock.move(HOUR)
    (answer,) = await store.renew([Renewal(job.id, held.fence, SECOND)])
    assert answer.until == BASE + HOUR + SECOND


async def test_a_lease_is_lost_by_the_stores_clock(store: Store, clock: ManualClock) -> None:
    job = new_job()
    await store.insert([job])
    await begin(store, job)
    assert await store.lost(1) == []
    clock.move(HOUR)
    assert len(await store.lost(1)) == 1


async def test_a_job_ends_by_the_stores_clock(store: Store, clock: ManualClock) -> None:
    job = new_job()
    await store.insert([job])
    held = await begin(store, job)
    clock.move(HOUR)
    await store.settle([decide(held, Succeeded(), means())], entry=entry())
    assert (await look(store, job)).finished_at == BASE + HOUR
    assert [written.at for written in await store.ledger()] == [BASE + HOUR]


async def test_a_cancel_is_asked_for_by_the_stores_clock(store: Store, clock: ManualClock) -> None:
    job = new_job()
    await store.insert([job])
    held = await begin(store, job)
    clock.move(HOUR)
    await store.ask_cancel([(job.id, held.fence)])
    assert (await look(store, job)).cancel_requested_at == BASE + HOUR


async def test_jobs_are_promoted_by_the_stores_clock(store: Store, clock: ManualClock) -> None:
    await store.insert([new_job(run_at=BASE + HOUR)])
    assert await store.promote(1) == {}
    clock.move(HOUR)
    assert await store.promote(1) == {"default": 1}


async def test_jobs_expire_by_the_stores_clock(store: Store, clock: ManualClock) -> None:
    await store.insert([new_job(expires_at=BASE + HOUR)])
    assert await store.expired(1) == []
    clock.move(HOUR + SECOND)
    assert len(await store.expired(1)) == 1


async def test_jobs_are_pruned_by_the_stores_clock(store: Store, clock: ManualClock) -> None:
    job = new_job()
    await store.insert([job])
    await complete(store, job)
    assert await store.prune(Retention(completed=DAY), 1) == 0
    clock.move(DAY)
    assert await store.prune(Retention(completed=DAY), 1) == 1


async def test_schedules_are_written_by_the_stores_clock(store: Store, clock: ManualClock) -> None:
    clock.move(HOUR)
    await store.put_schedules([schedule()], entry=entry())
    assert [found.updated_at for found in await store.schedules()] == [BASE + HOUR]
    assert [written.at for written in await store.ledger()] == [BASE + HOUR]


async def test_schedules_are_due_and_fire_by_the_stores_clock(store: Store, clock: ManualClock) -> None:
    await store.put_schedules([schedule()])
    assert await store.due_schedules(1) == []
    clock.move(HOUR)
    (due,) = await store.due_schedules(1)
    (job_id,) = await store.fire([plan(due, clock(), previous_is_active=False, fresh_id=fresh_id)])
    assert (await look(store, job_id)).created_at == BASE + HOUR


async def test_schedules_are_dropped_by_the_stores_clock(store: Store, clock: ManualClock) -> None:
    new = schedule()
    await store.put_schedules([new])
    clock.move(HOUR)
    await store.drop_schedules([new.id], entry=entry())
    assert [written.at for written in await store.ledger()] == [BASE + HOUR]


async def test_steps_begin_and_end_by_the_stores_clock(store: Store, clock: ManualClock) -> None:
    job = new_job()
    await store.insert([job])
    held = await begin(store, job)
    clock.move(HOUR)
    await store.intend(job.id, held.fence, "s")
    clock.move(HOUR)
    step = await store.conclude(job.id, held.fence, "s", "1")
    assert step is not None
    assert (step.began_at, step.ended_at) == (BASE + HOUR, BASE + 2 * HOUR)


async def test_processes_are_seen_by_the_stores_clock(store: Store, clock: ManualClock) -> None:
    clock.move(HOUR)
    await store.beat([Member(Role.WORKER, "ada", "b")])
    assert [member.seen_at for member in await store.members()] == [BASE + HOUR]


async def test_the_lead_lasts_by_the_stores_clock(store: Store, clock: ManualClock) -> None:
    await store.lead("upkeep", "a", HOUR)
    clock.move(HOUR)
    lead = await store.lead("upkeep", "b", HOUR)
    assert (lead.holder, lead.until) == ("b", BASE + 2 * HOUR)


async def test_entries_are_written_by_the_stores_clock(store: Store, clock: ManualClock) -> None:
    clock.move(HOUR)
    await store.record([entry()])
    await store.put_queue(Queue("q"), entry=entry())
    await store.put_tokens([], entry=entry())
    assert {written.at for written in await store.ledger()} == {BASE + HOUR}


async def test_an_entry_cannot_bring_its_own_time(store: Store) -> None:
    await store.record([replace(entry(), at=BASE - DAY, number=77, digest="forged")], now=BASE)
    (written,) = await store.ledger()
    assert written.at == BASE
    assert (written.number, written.digest) != (77, "forged")
