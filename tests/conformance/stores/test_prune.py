from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import (
    BASE,
    DAY,
    HOUR,
    MICROSECOND,
    after,
    at,
    claim,
    entry,
    failure,
    fresh_id,
    ids_of,
    key,
    new_job,
    new_jobs,
    schedule,
)
from conformance.stores.transitions import begin, complete, end, end_as, kill, look, state
from rota.core.cluster import Member, Role
from rota.core.decision import retry
from rota.core.lease import Renewal
from rota.core.lifecycle import FINISHED, State
from rota.core.schedule import plan
from rota.core.submission import Need, NewJob
from rota.ports.store import JobQuery, Receipt, Retention, Store

NEVER = Retention(None, None, None, None)
AT_ONCE = Retention(timedelta(0), timedelta(0), timedelta(0))


def keeping(final: State, span: timedelta | None) -> Retention:
    chosen: dict[str, Any] = {final.value: span}
    return replace(NEVER, **chosen)


@pytest.mark.parametrize("final", sorted(FINISHED))
async def test_a_finished_job_is_deleted_when_its_time_is_over(store: Store, final: State) -> None:
    job = await _ended(store, final)
    assert await store.prune(keeping(final, HOUR), 10, now=BASE + HOUR - MICROSECOND) == 0
    assert await store.prune(keeping(final, HOUR), 10, now=BASE + HOUR) == 1
    assert await store.get([job.id]) == []


@pytest.mark.parametrize("final", sorted(FINISHED))
async def test_each_state_has_a_time_of_its_own(store: Store, final: State) -> None:
    jobs = {each: await _ended(store, each) for each in FINISHED}
    assert await store.prune(keeping(final, HOUR), 10, now=BASE + DAY) == 1
    assert {each for each, job in jobs.items() if await store.get([job.id])} == FINISHED - {final}


async def test_what_is_not_named_is_kept_for_ever(store: Store) -> None:
    for final in FINISHED:
        await _ended(store, final)
    assert await store.prune(NEVER, 10, now=BASE + 10_000 * DAY) == 0


async def test_time_counts_from_the_end_and_not_from_the_submission(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    await complete(store, job, now=BASE + DAY)
    assert await store.prune(keeping(State.COMPLETED, HOUR), 10, now=BASE + DAY) == 0


async def test_no_unfinished_job_is_ever_deleted(store: Store) -> None:
    parent, running, retrying = new_jobs(3)
    rest = [new_job(after=after(parent)), new_job(run_at=BASE + HOUR)]
    await store.insert([parent, running, retrying, *rest], now=BASE)
    await begin(store, running)
    await end(store, await begin(store, retrying), failure())
    assert await store.prune(AT_ONCE, 100, now=BASE + 1000 * DAY) == 0
    assert (await store.census()).total() == 5


async def test_a_job_that_was_retried_after_its_end_is_not_deleted(store: Store) -> None:
    job = await _ended(store, State.DEAD)
    await store.settle([retry(await look(store, job), at(1))], now=at(1))
    assert await store.prune(AT_ONCE, 100, now=BASE + DAY) == 0


async def test_no_more_than_the_limit_are_deleted_at_once(store: Store) -> None:
    jobs = new_jobs(10)
    await store.insert(jobs, now=BASE)
    await complete(store, *jobs)
    counts = [await store.prune(AT_ONCE, 4, now=at(1)) for _ in range(4)]
    assert counts == [4, 4, 2, 0]


async def test_the_limit_counts_all_states_together(store: Store) -> None:
    for final in FINISHED:
        await _ended(store, final)
    assert await store.prune(AT_ONCE, 2, now=at(1)) == 2
    assert await store.prune(AT_ONCE, 2, now=at(1)) == 1


@pytest.mark.parametrize("need", [Need.END, Need.SUCCESS])
async def test_a_job_that_an_unfinished_one_waits_for_is_kept(store: Store, need: Need) -> None:
    done, open_ = new_jobs(2)
    child = new_job(after=(*after(done, need=need), *after(open_)))
    await store.insert([done, open_, child], now=BASE)
    await complete(store, done)
    assert await store.prune(AT_ONCE, 10, now=at(1)) == 0
    assert await state(store, child) is State.BLOCKED


async def test_a_job_that_a_running_one_waited_for_is_kept(store: Store) -> None:
    """It may want its parent's result."""
    parent = new_job()
    child = new_job(after=after(parent))
    await store.insert([parent, child], now=BASE)
    await complete(store, parent)
    await begin(store, child)
    assert await store.prune(AT_ONCE, 10, now=at(1)) == 0


async def test_a_job_is_deleted_once_all_that_waited_for_it_have_ended(store: Store) -> None:
    parent = new_job()
    child = new_job(after=after(parent))
    await store.insert([parent, child], now=BASE)
    await complete(store, parent, child)
    assert await store.prune(AT_ONCE, 10, now=at(1)) == 2


async def test_a_parent_deleted_after_its_child_leaves_no_wait_behind(store: Store) -> None:
    """A later job under the child's old id must not inherit its waits."""
    parent, other = new_jobs(2)
    child = new_job(after=after(parent, other))
    await store.insert([parent, other, child], now=BASE)
    await kill(store, parent)
    await store.prune(keeping(State.CANCELLED, timedelta(0)), 10, now=at(1))
    await store.insert([new_job(id=child.id)], now=at(1))
    await kill(store, other)
    assert await state(store, child.id) is State.PENDING


async def test_a_job_whose_key_is_still_kept_is_kept(store: Store) -> None:
    job = new_job(idempotency=key("k", keep=HOUR))
    await store.insert([job], now=BASE)
    await complete(store, job)
    assert await store.prune(AT_ONCE, 10, now=BASE + HOUR - MICROSECOND) == 0
    assert await store.prune(AT_ONCE, 10, now=BASE + HOUR) == 1


async def test_a_job_whose_key_was_taken_over_by_another_job_is_deleted(store: Store) -> None:
    old, new = new_job(idempotency=key("k", keep=HOUR)), new_job(idempotency=key("k", keep=DAY))
    await store.insert([old], now=BASE)
    await complete(store, old)
    await store.insert([new], now=BASE + HOUR)
    assert await store.prune(AT_ONCE, 10, now=BASE + HOUR) == 1
    (answer,) = await store.insert([new_job(idempotency=key("k"))], now=BASE + HOUR)
    assert (answer.job_id, answer.receipt) == (new.id, Receipt.REPLAYED)


async def test_a_key_whose_job_was_deleted_is_free(store: Store) -> None:
    job = new_job(idempotency=key("k", keep=HOUR))
    await store.insert([job], now=BASE)
    await complete(store, job)
    await store.prune(AT_ONCE, 10, now=BASE + HOUR)
    (answer,) = await store.insert([new_job(idempotency=key("k"))], now=BASE + HOUR)
    assert answer.receipt is Receipt.CREATED


async def test_what_must_stay_does_not_hide_what_is_behind_it(store: Store) -> None:
    open_ = new_job()
    await store.insert([open_], now=BASE)
    kept = new_jobs(20)
    await store.insert([*kept, new_job(after=after(*kept, open_))], now=BASE)
    await complete(store, *kept)
    free = new_jobs(3)
    await store.insert(free, now=at(1))
    await complete(store, *free, now=at(1))
    assert await store.prune(AT_ONCE, 3, now=at(2)) == 3
    assert await store.get(ids_of(free)) == []


async def test_all_that_belongs_to_a_job_goes_with_it(store: Store) -> None:
    job = new_job(tags=("t",), idempotency=key("k", keep=timedelta(0)))
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    await store.intend(job.id, held.fence, "step", now=BASE)
    await store.renew([Renewal(job.id, held.fence, progress="1")], now=BASE)
    await end(store, held, failure(permanent=True))
    assert await store.prune(AT_ONCE, 10, now=at(1)) == 1
    assert await store.attempts(job.id) == []
    assert await store.steps(job.id) == []
    assert await store.find(JobQuery(tag="t")) == []


async def test_an_id_that_was_deleted_can_be_used_again_without_a_past(store: Store) -> None:
    job = new_job(tags=("t",))
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    await store.intend(job.id, held.fence, "step", now=BASE)
    await end(store, held, failure(permanent=True))
    await store.prune(AT_ONCE, 10, now=at(1))
    (answer,) = await store.insert([new_job(id=job.id)], now=at(1))
    assert answer.receipt is Receipt.CREATED
    again = await begin(store, job, at(1))
    assert (again.fence, again.attempts, again.tags) == (1, 1, ())
    assert len(await store.attempts(job.id)) == 1
    assert await store.steps(job.id) == []


async def test_a_job_made_by_a_schedule_is_deleted_and_its_fire_time_stays_recorded(store: Store) -> None:
    new = schedule()
    await store.put_schedules([new], now=BASE)
    (found,) = await store.schedules([new.id])
    (job_id,) = await store.fire([plan(found, at(61), previous_is_active=False, fresh_id=fresh_id)], now=at(61))
    await complete(store, job_id, now=at(61))
    assert await store.prune(AT_ONCE, 10, now=at(62)) == 1
    assert [occurrence.job_id for occurrence in await store.occurrences(new.id)] == [job_id]


async def test_old_fire_times_are_forgotten_and_recent_ones_are_not(store: Store) -> None:
    await store.prune(Retention(None, None, None, history=DAY), 100, now=BASE + DAY + 2 * HOUR)
    new = schedule()
    await store.put_schedules([new], now=BASE)
    for moment in (BASE + HOUR, BASE + DAY):
        (found,) = await store.schedules([new.id])
        await store.fire([plan(found, moment, previous_is_active=False, fresh_id=fresh_id)], now=moment)
    await store.prune(Retention(None, None, None, history=DAY), 100, now=BASE + DAY + 2 * HOUR)
    times = [occurrence.fire_time for occurrence in await store.occurrences(new.id)]
    # Of the times in between, which the schedule has missed, only those are left that are young enough.
    assert times
    assert min(times) >= BASE + 2 * HOUR


async def test_old_entries_are_forgotten_and_the_rest_is_still_a_chain(store: Store) -> None:
    await store.prune(Retention(None, None, None, history=DAY), 100, now=BASE + 3 * DAY)
    for day in range(4):
        await store.record([entry(f"day {day}")], now=BASE + day * DAY)
    await store.prune(Retention(None, None, None, history=DAY), 100, now=BASE + 3 * DAY)
    await store.record([entry("new")], now=BASE + 3 * DAY)
    last, before, *rest = await store.ledger()
    assert (last.action, before.action, rest) == ("new", "day 3", [])
    assert last.at is not None
    assert last.chained(before.number + 1, last.at, before.digest) == last


async def test_the_last_entry_is_never_forgotten_since_the_chain_hangs_on_it(store: Store) -> None:
    await store.record([entry("first"), entry("last")], now=BASE)
    await store.prune(Retention(None, None, None, history=DAY), 100, now=BASE + 100 * DAY)
    assert [written.action for written in await store.ledger()] == ["last"]


async def test_vanished_processes_are_forgotten_and_live_ones_are_not(store: Store) -> None:
    await store.prune(Retention(None, None, None, history=DAY), 100, now=BASE + DAY)
    await store.beat([Member(Role.WORKER, "gone", "b1")], now=BASE)
    await store.beat([Member(Role.WORKER, "here", "b2")], now=BASE + DAY)
    await store.prune(Retention(None, None, None, history=DAY), 100, now=BASE + DAY)
    assert [member.name for member in await store.members()] == ["here"]


async def test_history_is_kept_for_ever_when_no_time_is_named(store: Store) -> None:
    await store.record([entry("old"), entry("older")], now=BASE)
    await store.beat([Member(Role.WORKER, "gone", "b1")], now=BASE)
    await store.prune(NEVER, 100, now=BASE + 10_000 * DAY)
    assert (len(await store.ledger()), len(await store.members())) == (2, 1)


async def test_a_recent_claim_can_be_repeated_after_a_prune(store: Store) -> None:
    await store.insert(new_jobs(2), now=BASE)
    first = await store.claim(claim(limit=1, claim_id="c"), now=BASE)
    await store.prune(AT_ONCE, 100, now=at(1))
    assert await store.claim(claim(limit=1, claim_id="c"), now=at(1)) == first


async def _ended(store: Store, final: State) -> NewJob:
    job = new_job()
    await store.insert([job], now=BASE)
    await end_as(store, final, job)
    return job


async def test_the_oldest_job_that_should_be_gone_is_named_until_it_is(store: Store) -> None:
    kept = keeping(State.COMPLETED, HOUR)
    assert (await store.condition(AT_ONCE, now=BASE)).oldest_prunable is None
    held, free = new_job(idempotency=key("k", keep=DAY)), new_job()
    await store.insert([held, free], now=BASE)
    await complete(store, held, now=BASE)
    await complete(store, free, now=at(1))
    assert (await store.condition(kept, now=at(1) + HOUR - MICROSECOND)).oldest_prunable is None
    condition = await store.condition(kept, now=at(1) + HOUR)
    assert condition.oldest_prunable == at(1), "the job before it is kept for its key"
    assert (condition.missing_migrations, condition.unknown_migrations) == ((), ())
    await store.prune(kept, 10, now=at(1) + HOUR)
    assert (await store.condition(kept, now=at(1) + HOUR)).oldest_prunable is None


async def test_the_sizes_of_the_store_are_known(store: Store) -> None:
    await store.insert(new_jobs(3), now=BASE)
    sizes = await store.sizes()
    assert sizes
    assert all(one.name and one.bytes >= 0 for one in sizes)
    assert sum(one.bytes for one in sizes) > 0
