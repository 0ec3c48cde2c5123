from __future__ import annotations

import pytest

from builders import BASE, after, at, claim, ids_of, new_job, new_jobs
from conformance.stores.transitions import begin, call_off, complete, end, end_as, kill, look, state
from rota.core.lifecycle import Event, State
from rota.core.outcome import Lost, Stopped
from rota.core.settlement import Reason
from rota.core.submission import Delivery, Dependency, Need
from rota.ports.store import Store


@pytest.mark.parametrize("final", [State.DEAD, State.CANCELLED])
async def test_a_failed_parent_cancels_children_that_need_its_success(store: Store, final: State) -> None:
    parent = new_job()
    child = new_job(after=after(parent))
    await store.insert([parent, child], now=BASE)
    await end_as(store, final, parent, now=at(3))
    stored = await look(store, child)
    assert (stored.state, stored.reason) == (State.CANCELLED, Reason.DEPENDENCY_FAILED)
    assert (stored.finished_at, stored.updated_at) == (at(3), at(3))


async def test_a_failure_goes_down_through_every_generation(store: Store) -> None:
    family = [new_job()]
    for _ in range(6):
        family.append(new_job(after=after(family[-1])))
    await store.insert(family, now=BASE)
    await kill(store, family[0], now=at(3))
    ended = await store.get(ids_of(family[1:]))
    assert {(job.state, job.reason, job.finished_at) for job in ended} == {
        (State.CANCELLED, Reason.DEPENDENCY_FAILED, at(3))
    }


async def test_a_failure_goes_down_a_long_chain(store: Store) -> None:
    """Longer than Python's stack of calls."""
    family = [new_job()]
    for _ in range(1_500):
        family.append(new_job(after=after(family[-1])))
    await store.insert(family, now=BASE)
    await kill(store, family[0])
    assert (await store.census()).total(State.CANCELLED) == 1_500


async def test_a_failure_stops_at_a_child_that_only_needs_the_end(store: Store) -> None:
    parent = new_job()
    child = new_job(after=after(parent))
    cleanup = new_job(after=after(child, need=Need.END))
    behind = new_job(after=after(cleanup))
    await store.insert([parent, child, cleanup, behind], now=BASE)
    await kill(store, parent)
    assert [await state(store, job) for job in (child, cleanup, behind)] == [
        State.CANCELLED,
        State.PENDING,
        State.BLOCKED,
    ]


async def test_a_failed_side_of_a_diamond_cancels_its_end(store: Store) -> None:
    top = new_job()
    left, right = new_jobs(2, after=after(top))
    bottom = new_job(after=after(left, right))
    await store.insert([top, left, right, bottom], now=BASE)
    await complete(store, top)
    await kill(store, left)
    assert await state(store, bottom) is State.CANCELLED
    await complete(store, right)
    assert await state(store, bottom) is State.CANCELLED


async def test_a_diamond_whose_both_sides_are_cancelled_with_its_top_is_cancelled_once(store: Store) -> None:
    top = new_job()
    left, right = new_jobs(2, after=after(top))
    bottom = new_job(after=after(left, right))
    await store.insert([top, left, right, bottom], now=BASE)
    await call_off(store, top)
    assert (await store.census()).total(State.CANCELLED) == 4


async def test_a_wait_for_the_end_that_was_met_does_not_save_a_job_from_another_parent(store: Store) -> None:
    ended, failing = new_jobs(2)
    child = new_job(after=(Dependency(ended.id, Need.END), Dependency(failing.id)))
    await store.insert([ended, failing, child], now=BASE)
    await kill(store, ended, failing)
    assert await state(store, child) is State.CANCELLED


async def test_the_cancel_of_a_blocked_job_goes_down_as_well(store: Store) -> None:
    parent = new_job()
    child = new_job(after=after(parent))
    grandchild = new_job(after=after(child))
    await store.insert([parent, child, grandchild], now=BASE)
    await call_off(store, child)
    stored = await look(store, grandchild)
    assert (stored.state, stored.reason) == (State.CANCELLED, Reason.DEPENDENCY_FAILED)
    assert await state(store, parent) is State.PENDING


async def test_a_stopped_parent_cancels_its_children(store: Store) -> None:
    parent = new_job()
    child = new_job(after=after(parent))
    await store.insert([parent, child], now=BASE)
    await end(store, await begin(store, parent), Stopped())
    assert await state(store, child) is State.CANCELLED


async def test_a_parent_that_dies_of_a_lost_lease_cancels_its_children(store: Store) -> None:
    parent = new_job(delivery=Delivery.AT_MOST_ONCE)
    child = new_job(after=after(parent))
    await store.insert([parent, child], now=BASE)
    await end(store, await begin(store, parent), Lost())
    assert await state(store, child) is State.CANCELLED


async def test_a_stale_end_of_a_parent_releases_and_cancels_nobody(store: Store) -> None:
    parent = new_job()
    children = [new_job(after=after(parent)), new_job(after=after(parent, need=Need.END))]
    await store.insert([parent, *children], now=BASE)
    late = await begin(store, parent)
    await end(store, late, Lost())
    await store.settle([late.settled(event) for event in (Event.SUCCEED, Event.EXHAUST, Event.CANCEL)], now=at(1))
    assert {await state(store, child) for child in children} == {State.BLOCKED}


async def test_a_child_cancelled_with_its_parent_is_not_given(store: Store) -> None:
    parent = new_job()
    await store.insert([parent, new_job(after=after(parent))], now=BASE)
    await kill(store, parent)
    assert await store.claim(claim(), now=at(60)) == []
