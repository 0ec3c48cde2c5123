from __future__ import annotations

import pytest

from builders import ADA, BASE, HOUR, after, at, claim, failure, fresh_id, ids_of, means, new_job, new_jobs
from conformance.stores.transitions import begin, call_off, complete, end, end_as, kill, look, state
from rota.core.decision import decide, retry
from rota.core.lifecycle import FINISHED, Event, State
from rota.core.outcome import Lost, Succeeded
from rota.core.settlement import Reason
from rota.core.submission import Dependency, Need
from rota.ports.store import Store


async def test_a_job_with_an_unfinished_parent_is_blocked(store: Store) -> None:
    parent = new_job()
    child = new_job(after=after(parent))
    answers = await store.insert([parent, child], now=BASE)
    assert answers[1].state is State.BLOCKED
    stored = await look(store, child)
    assert (stored.state, stored.blockers) == (State.BLOCKED, 1)


async def test_a_blocked_job_names_what_it_still_waits_for(store: Store) -> None:
    parents = new_jobs(3)
    child = new_job(after=after(*parents))
    await store.insert([*parents, child], now=BASE)
    names = sorted(parent.id for parent in parents)
    assert list(await store.blockers(child.id, 10)) == names
    assert list(await store.blockers(child.id, 2)) == names[:2]
    await complete(store, parents[0], now=at(3))
    assert list(await store.blockers(child.id, 10)) == sorted(parent.id for parent in parents[1:])
    assert list(await store.blockers(parents[0].id, 10)) == []


async def test_a_blocked_job_is_not_given(store: Store) -> None:
    parent = new_job()
    await store.insert([parent, new_job(after=after(parent), priority=10)], now=BASE)
    assert ids_of(await store.claim(claim(), now=at(60))) == [parent.id]


async def test_a_blocked_job_is_not_promoted_when_its_time_comes(store: Store) -> None:
    parent = new_job()
    child = new_job(after=after(parent), run_at=at(5))
    await store.insert([parent, child], now=BASE)
    assert await store.promote(10, now=at(6)) == {}
    assert await state(store, child) is State.BLOCKED


async def test_success_of_the_parent_releases_the_child(store: Store) -> None:
    parent = new_job()
    child = new_job(after=after(parent))
    await store.insert([parent, child], now=BASE)
    await complete(store, parent, now=at(3))
    released = await look(store, child)
    assert (released.state, released.blockers, released.updated_at) == (State.PENDING, 0, at(3))
    assert ids_of(await store.claim(claim(), now=at(3))) == [child.id]


@pytest.mark.parametrize("number", [0, 2, 4])
async def test_the_child_of_one_of_many_that_succeed_together_is_released(store: Store, number: int) -> None:
    parents = new_jobs(5)
    child = new_job(after=after(parents[number]))
    await store.insert([*parents, child], now=BASE)
    leased = await store.claim(claim(), now=BASE)
    await store.settle([decide(job, Succeeded(), means(at(3))) for job in leased], now=at(3))
    assert await state(store, child) is State.PENDING


async def test_a_released_child_whose_time_has_not_come_is_scheduled(store: Store) -> None:
    parent = new_job()
    child = new_job(after=after(parent), run_at=BASE + HOUR)
    await store.insert([parent, child], now=BASE)
    await complete(store, parent, now=at(3))
    assert await state(store, child) is State.SCHEDULED
    assert await store.promote(10, now=BASE + HOUR) == {"default": 1}


async def test_a_released_child_is_due_since_it_was_released(store: Store) -> None:
    """It takes its place behind what was due while it was blocked."""
    parent = new_job()
    child = new_job(after=after(parent), run_at=at(1))
    await store.insert([parent, child], now=BASE)
    meanwhile = new_job()
    await store.insert([meanwhile], now=at(5))
    await complete(store, parent, now=at(9))
    assert (await look(store, child)).run_at == at(9)
    assert ids_of(await store.claim(claim(), now=at(9))) == [meanwhile.id, child.id]


@pytest.mark.parametrize("final", sorted(FINISHED))
async def test_a_child_that_needs_the_end_is_released_by_any_end(store: Store, final: State) -> None:
    parent = new_job()
    child = new_job(after=after(parent, need=Need.END))
    await store.insert([parent, child], now=BASE)
    await end_as(store, final, parent)
    assert await state(store, child) is State.PENDING


@pytest.mark.parametrize("outcome", [failure(), Lost()], ids=["failed", "lost"])
async def test_an_attempt_that_ends_without_ending_the_job_releases_nobody(store: Store, outcome: Lost) -> None:
    parent = new_job()
    child = new_job(after=after(parent, need=Need.END))
    await store.insert([parent, child], now=BASE)
    await end(store, await begin(store, parent), outcome)
    assert await state(store, child) is State.BLOCKED


async def test_a_child_waits_for_all_of_its_parents(store: Store) -> None:
    parents = new_jobs(3)
    child = new_job(after=after(*parents))
    await store.insert([*parents, child], now=BASE)
    for left, parent in zip((2, 1), parents, strict=False):
        await complete(store, parent)
        stored = await look(store, child)
        assert (stored.state, stored.blockers) == (State.BLOCKED, left)
    await complete(store, parents[2])
    assert await state(store, child) is State.PENDING


async def test_parents_that_end_in_one_batch_release_their_child_once(store: Store) -> None:
    parents = new_jobs(3)
    child = new_job(after=after(*parents))
    await store.insert([*parents, child], now=BASE)
    held = await store.claim(claim(ADA), now=BASE)
    await store.settle([job.settled(Event.SUCCEED, result="null") for job in held], now=BASE)
    assert ids_of(await store.claim(claim(), now=BASE)) == [child.id]


async def test_one_parent_releases_all_of_its_children(store: Store) -> None:
    parent = new_job()
    children = new_jobs(50, after=after(parent))
    await store.insert([parent, *children], now=BASE)
    await complete(store, parent)
    assert ids_of(await store.claim(claim(), now=BASE)) == ids_of(children)


async def test_a_chain_is_walked_link_by_link(store: Store) -> None:
    first = new_job()
    second = new_job(after=after(first))
    third = new_job(after=after(second))
    await store.insert([first, second, third], now=BASE)
    for link in (first, second, third):
        assert ids_of(await store.claim(claim(), now=BASE)) == [link.id]
        await end(store, await look(store, link), Succeeded())


async def test_a_diamond_runs_its_last_job_once_both_sides_are_done(store: Store) -> None:
    top = new_job()
    left, right = new_jobs(2, after=after(top))
    bottom = new_job(after=after(left, right))
    await store.insert([top, left, right, bottom], now=BASE)
    await complete(store, top, left)
    assert await state(store, bottom) is State.BLOCKED
    await complete(store, right)
    assert await state(store, bottom) is State.PENDING


async def test_a_thousand_parents_release_one_child(store: Store) -> None:
    parents = new_jobs(1_000)
    child = new_job(after=after(*parents))
    await store.insert([*parents, child], now=BASE)
    assert (await look(store, child)).blockers == 1_000
    held = await store.claim(claim(ADA, 1_000), now=BASE)
    settlements = [job.settled(Event.SUCCEED, result="null") for job in held]
    await store.settle(settlements[:999], now=BASE)
    assert await state(store, child) is State.BLOCKED
    await store.settle(settlements[999:], now=BASE)
    assert await state(store, child) is State.PENDING


async def test_a_parent_that_has_already_succeeded_does_not_block(store: Store) -> None:
    parent = new_job()
    await store.insert([parent], now=BASE)
    await complete(store, parent)
    child = new_job(after=after(parent))
    (answer,) = await store.insert([child], now=BASE)
    assert answer.state is State.PENDING


async def test_a_parent_that_has_already_succeeded_is_not_counted_among_others(store: Store) -> None:
    done, open_ = new_jobs(2)
    await store.insert([done, open_], now=BASE)
    await complete(store, done)
    child = new_job(after=after(done, open_))
    await store.insert([child], now=BASE)
    assert (await look(store, child)).blockers == 1
    await complete(store, open_)
    assert await state(store, child) is State.PENDING


async def test_a_done_parent_and_a_later_time_make_a_scheduled_job(store: Store) -> None:
    parent = new_job()
    await store.insert([parent], now=BASE)
    await complete(store, parent)
    (answer,) = await store.insert([new_job(after=after(parent), run_at=BASE + HOUR)], now=BASE)
    assert answer.state is State.SCHEDULED


@pytest.mark.parametrize("final", [State.DEAD, State.CANCELLED])
async def test_a_parent_that_has_already_failed_cancels_the_job_at_once(store: Store, final: State) -> None:
    parent = new_job()
    await store.insert([parent], now=BASE)
    await end_as(store, final, parent)
    child = new_job(after=after(parent))
    (answer,) = await store.insert([child], now=at(2))
    assert answer.state is State.CANCELLED
    stored = await look(store, child)
    assert (stored.state, stored.reason, stored.finished_at) == (
        State.CANCELLED,
        Reason.DEPENDENCY_FAILED,
        at(2),
    )


async def test_a_failed_parent_cancels_even_beside_an_unfinished_one(store: Store) -> None:
    failed, open_ = new_jobs(2)
    await store.insert([failed, open_], now=BASE)
    await kill(store, failed)
    child = new_job(after=after(open_, failed))
    await store.insert([child], now=BASE)
    assert await state(store, child) is State.CANCELLED
    await complete(store, open_)
    assert await state(store, child) is State.CANCELLED


async def test_a_failed_parent_does_not_hinder_a_child_that_needs_its_end(store: Store) -> None:
    parent = new_job()
    await store.insert([parent], now=BASE)
    await kill(store, parent)
    (answer,) = await store.insert([new_job(after=after(parent, need=Need.END))], now=BASE)
    assert answer.state is State.PENDING


async def test_an_unknown_parent_fails_a_child_that_needs_its_success(store: Store) -> None:
    (answer,) = await store.insert([new_job(after=after(fresh_id()))], now=BASE)
    assert answer.state is State.CANCELLED


async def test_an_unknown_parent_has_ended_for_a_child_that_needs_its_end(store: Store) -> None:
    (answer,) = await store.insert([new_job(after=after(fresh_id(), need=Need.END))], now=BASE)
    assert answer.state is State.PENDING


async def test_a_parent_may_come_behind_its_child_in_a_batch(store: Store) -> None:
    parent = new_job()
    child = new_job(after=after(parent))
    answers = await store.insert([child, parent], now=BASE)
    assert [answer.state for answer in answers] == [State.BLOCKED, State.PENDING]
    await complete(store, parent)
    assert await state(store, child) is State.PENDING


async def test_a_job_cancelled_at_birth_fails_the_next_of_its_batch(store: Store) -> None:
    orphan = new_job(after=after(fresh_id()))
    child = new_job(after=after(orphan))
    answers = await store.insert([orphan, child], now=BASE)
    assert [answer.state for answer in answers] == [State.CANCELLED, State.CANCELLED]


async def test_a_whole_workflow_can_be_submitted_in_one_batch(store: Store) -> None:
    top = new_job()
    middle = new_jobs(10, after=after(top))
    bottom = new_job(after=after(*middle))
    answers = await store.insert([top, *middle, bottom], now=BASE)
    assert [answer.state for answer in answers] == [State.PENDING] + 11 * [State.BLOCKED]


@pytest.mark.parametrize("needs", [(Need.SUCCESS, Need.END), (Need.END, Need.SUCCESS)])
async def test_of_two_waits_for_one_parent_both_must_be_met(store: Store, needs: tuple[Need, Need]) -> None:
    parent = new_job()
    child = new_job(after=tuple(Dependency(parent.id, need) for need in needs))
    await store.insert([parent, child], now=BASE)
    await kill(store, parent)
    assert await state(store, child) is State.CANCELLED


async def test_a_parent_named_twice_releases_its_child_by_ending_once(store: Store) -> None:
    parent = new_job()
    child = new_job(after=after(parent, parent))
    await store.insert([parent, child], now=BASE)
    await complete(store, parent)
    assert await state(store, child) is State.PENDING


async def test_a_blocked_job_that_was_cancelled_is_not_released_later(store: Store) -> None:
    parent = new_job()
    child = new_job(after=after(parent))
    await store.insert([parent, child], now=BASE)
    await call_off(store, child)
    await complete(store, parent)
    assert await state(store, child) is State.CANCELLED


@pytest.mark.parametrize("other_ends", [State.COMPLETED, State.DEAD])
@pytest.mark.parametrize("child_is", [State.PENDING, State.RUNNING, State.RETRYING])
async def test_a_cancelled_child_that_was_retried_is_not_touched_by_its_parents(
    store: Store, child_is: State, other_ends: State
) -> None:
    """It was cancelled for one parent; the other one's end must neither cancel nor release it a second time."""
    failing, other = new_jobs(2)
    child = new_job(after=after(failing, other))
    await store.insert([failing, other, child], now=BASE)
    await kill(store, failing)
    await store.settle([retry(await look(store, child), BASE)], now=BASE)
    if child_is is not State.PENDING:
        held = await begin(store, child)
        if child_is is State.RETRYING:
            await end(store, held, failure())
    before = await look(store, child)
    await end_as(store, other_ends, other, now=at(1))
    assert await look(store, child) == before
    assert before.state is child_is


async def test_a_parent_that_is_retried_after_its_end_does_not_block_again(store: Store) -> None:
    parent, other = new_jobs(2)
    child = new_job(after=(Dependency(parent.id, Need.END), Dependency(other.id)))
    await store.insert([parent, other, child], now=BASE)
    await kill(store, parent)
    await store.settle([retry(await look(store, parent), BASE)], now=BASE)
    await complete(store, other)
    assert await state(store, child) is State.PENDING


async def test_a_parent_that_ends_twice_counts_once(store: Store) -> None:
    parent, other = new_jobs(2)
    child = new_job(after=after(parent, other, need=Need.END))
    await store.insert([parent, other, child], now=BASE)
    await kill(store, parent)
    await store.settle([retry(await look(store, parent), BASE)], now=BASE)
    await complete(store, parent)
    stored = await look(store, child)
    assert (stored.state, stored.blockers) == (State.BLOCKED, 1)


async def test_dependencies_are_read_in_the_order_in_which_they_were_named(store: Store) -> None:
    parents = new_jobs(4)
    shuffled = [parents[2], parents[0], parents[3], parents[1]]
    child = new_job(after=after(*shuffled))
    await store.insert([*parents, child], now=BASE)
    await complete(store, parents[0], now=at(1))
    edges = await store.edges(children=[child.id])
    assert [edge.parent for edge in edges] == [parent.id for parent in shuffled]
    assert [edge.is_met for edge in edges] == [False, True, False, False]
    assert {(edge.child, edge.need) for edge in edges} == {(child.id, Need.SUCCESS)}
    assert [edge.child for edge in await store.edges(parents=[parents[3].id])] == [child.id]
    assert list(await store.edges(children=[parents[0].id])) == []


@pytest.mark.parametrize("final", [State.DEAD, State.CANCELLED])
async def test_a_job_that_needs_a_failure_runs_after_one(store: Store, final: State) -> None:
    parent = new_job()
    handler = new_job(after=after(parent, need=Need.FAILURE))
    await store.insert([parent, handler], now=BASE)
    await end_as(store, final, parent, now=at(1))
    assert await state(store, handler) is State.PENDING


async def test_a_job_that_needs_a_failure_is_cancelled_after_a_success_and_so_is_what_follows_it(store: Store) -> None:
    parent = new_job()
    handler = new_job(after=after(parent, need=Need.FAILURE))
    follower = new_job(after=after(handler))
    other_handler = new_job(after=after(handler, need=Need.FAILURE))
    always = new_job(after=after(handler, need=Need.END))
    await store.insert([parent, handler, follower, other_handler, always], now=BASE)
    await complete(store, parent, now=at(1))
    for skipped in (handler, follower, other_handler):
        job = await look(store, skipped)
        assert (job.state, job.reason) == (State.CANCELLED, Reason.NOT_NEEDED)
    assert await state(store, always) is State.PENDING


async def test_a_job_whose_dependency_failed_counts_as_failed_for_its_followers(store: Store) -> None:
    parent = new_job()
    child = new_job(after=after(parent))
    handler = new_job(after=after(child, need=Need.FAILURE))
    grandchild = new_job(after=after(child))
    await store.insert([parent, child, handler, grandchild], now=BASE)
    await kill(store, parent, now=at(1))
    assert await state(store, handler) is State.PENDING
    assert (await look(store, grandchild)).reason is Reason.DEPENDENCY_FAILED
