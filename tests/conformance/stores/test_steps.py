from __future__ import annotations

import pytest

from builders import ADA, BASE, BEN, at, claim, entry, fresh_id, new_job, new_jobs
from conformance.stores.transitions import begin, complete, end
from rota.core.job import Job
from rota.core.outcome import Failed, Lost, Released
from rota.core.settlement import JobError
from rota.core.step import Resolution, Step
from rota.ports.store import Store


async def test_a_new_step_is_written_down_before_its_effect(store: Store) -> None:
    job = await _held(store)
    step = Step(job.id, "charge", began_under=1, began_at=at(1))
    assert await store.intend(job.id, job.fence, "charge", now=at(1)) == (step, True)
    assert await store.steps(job.id) == [step]


async def test_a_step_that_is_there_is_returned_as_it_is(store: Store) -> None:
    job = await _held(store)
    first = await store.intend(job.id, job.fence, "charge", now=at(1))
    assert first is not None
    assert await store.intend(job.id, job.fence, "charge", now=at(2)) == (first[0], False)


async def test_a_later_attempt_finds_the_step_of_an_earlier_one(store: Store) -> None:
    job = await _held(store)
    await store.intend(job.id, job.fence, "charge", now=at(1))
    await end(store, job, Lost(), at(60))
    again = await begin(store, job, at(60), BEN)
    found = await store.intend(job.id, again.fence, "charge", now=at(61))
    assert found == (Step(job.id, "charge", began_under=1, began_at=at(1)), False)


async def test_a_done_step_keeps_its_outcome(store: Store) -> None:
    job = await _held(store)
    await store.intend(job.id, job.fence, "charge", now=at(1))
    done = await store.conclude(job.id, job.fence, "charge", '"paid"', now=at(2))
    assert done == Step(job.id, "charge", 1, at(1), ended_at=at(2), outcome='"paid"')
    assert await store.steps(job.id) == [done]


async def test_a_step_that_is_done_keeps_its_first_outcome(store: Store) -> None:
    job = await _held(store)
    await store.intend(job.id, job.fence, "charge", now=at(1))
    first = await store.conclude(job.id, job.fence, "charge", '"first"', now=at(2))
    assert await store.conclude(job.id, job.fence, "charge", '"second"', now=at(3)) == first
    assert await store.steps(job.id) == [first]


async def test_an_intent_finds_a_done_step_with_its_outcome(store: Store) -> None:
    job = await _held(store)
    await store.intend(job.id, job.fence, "charge", now=at(1))
    done = await store.conclude(job.id, job.fence, "charge", '"paid"', now=at(2))
    assert await store.intend(job.id, job.fence, "charge", now=at(3)) == (done, False)


async def test_a_later_attempt_may_conclude_what_an_earlier_one_began(store: Store) -> None:
    job = await _held(store)
    await store.intend(job.id, job.fence, "charge", now=at(1))
    await end(store, job, Lost(), at(60))
    again = await begin(store, job, at(60), BEN)
    done = await store.conclude(job.id, again.fence, "charge", '"verified"', now=at(61))
    assert done == Step(job.id, "charge", 1, at(1), ended_at=at(61), outcome='"verified"')


async def test_a_step_that_was_never_begun_cannot_be_concluded(store: Store) -> None:
    job = await _held(store)
    assert await store.conclude(job.id, job.fence, "charge", '"paid"', now=at(1)) is None
    assert await store.steps(job.id) == []


async def test_steps_come_in_the_order_in_which_they_began(store: Store) -> None:
    job = await _held(store)
    for second, key in enumerate(("c", "a", "d", "b")):
        await store.intend(job.id, job.fence, key, now=at(second))
    assert [step.key for step in await store.steps(job.id)] == ["c", "a", "d", "b"]


@pytest.mark.parametrize("step", [0, -1], ids=["clock stands", "clock is set back"])
async def test_the_order_of_steps_does_not_depend_on_the_clock(store: Store, step: int) -> None:
    job = await _held(store)
    for number, key in enumerate(("c", "a", "d", "b")):
        await store.intend(job.id, job.fence, key, now=at(number * step))
    assert [step.key for step in await store.steps(job.id)] == ["c", "a", "d", "b"]


async def test_concluding_a_step_does_not_change_the_order(store: Store) -> None:
    job = await _held(store)
    for second, key in enumerate(("c", "a", "b")):
        await store.intend(job.id, job.fence, key, now=at(second))
    await store.conclude(job.id, job.fence, "c", "1", now=at(9))
    assert [step.key for step in await store.steps(job.id)] == ["c", "a", "b"]


async def test_one_key_in_two_jobs_is_two_steps(store: Store) -> None:
    one, other = await _held(store), await _held(store)
    await store.intend(one.id, one.fence, "charge", now=at(1))
    found = await store.intend(other.id, other.fence, "charge", now=at(2))
    assert found is not None
    assert found[1]
    assert len(await store.steps(one.id)) == 1


@pytest.mark.parametrize("key", ["", " ", "a'b", "\u4e2d\u6587", "x" * 10_000, "nul\0nul"])
async def test_a_step_may_have_any_key(store: Store, key: str) -> None:
    job = await _held(store)
    await store.intend(job.id, job.fence, key, now=BASE)
    done = await store.conclude(job.id, job.fence, key, key, now=BASE)
    assert done is not None
    assert (done.key, done.outcome) == (key, key)


async def test_a_handed_back_job_can_write_no_step(store: Store) -> None:
    job = await _held(store)
    await end(store, job, Released())
    assert await store.intend(job.id, job.fence, "charge", now=BASE) is None


async def test_steps_stay_when_the_job_has_ended(store: Store) -> None:
    job = await _held(store)
    await store.intend(job.id, job.fence, "charge", now=BASE)
    await end(store, job, Released())
    await complete(store, job)
    assert [step.key for step in await store.steps(job.id)] == ["charge"]


async def test_an_unknown_job_has_no_steps(store: Store) -> None:
    assert await store.steps(fresh_id()) == []


async def test_the_fence_of_one_job_does_not_write_steps_of_another(store: Store) -> None:
    mine, pending = new_jobs(2)
    await store.insert([mine, pending], now=BASE)
    (held,) = await store.claim(claim(ADA, 1), now=BASE)
    assert await store.intend(pending.id, held.fence, "charge", now=BASE) is None


async def _held(store: Store) -> Job:
    job = new_job(max_attempts=9)
    await store.insert([job], now=BASE)
    return await begin(store, job, BASE, ADA)


async def test_an_intent_that_is_withdrawn_was_never_there(store: Store) -> None:
    job = await _held(store)
    await store.intend(job.id, job.fence, "charge", now=at(1))
    assert await store.withdraw(job.id, job.fence, "charge")
    assert await store.steps(job.id) == []
    assert await store.intend(job.id, job.fence, "charge", now=at(2)) == (Step(job.id, "charge", 1, at(2)), True)


async def test_nobody_withdraws_what_is_done_or_under_a_stale_fence(store: Store) -> None:
    job = await _held(store)
    await store.intend(job.id, job.fence, "charge", now=at(1))
    assert not await store.withdraw(job.id, job.fence + 1, "charge")
    assert not await store.withdraw(job.id, job.fence, "another")
    done = await store.conclude(job.id, job.fence, "charge", "1", now=at(2))
    assert not await store.withdraw(job.id, job.fence, "charge")
    assert await store.steps(job.id) == [done]


async def test_an_operator_says_what_became_of_a_step_in_doubt(store: Store) -> None:
    job = await _held(store)
    await store.intend(job.id, job.fence, "charge", now=at(1))
    await store.intend(job.id, job.fence, "send", now=at(2))
    await end(store, job, Failed(JobError("E", "dead"), permanent=True), at(3))
    assert await store.resolve(Resolution(job.id, "charge", '"paid"'), entry=entry("resolve"), now=at(4))
    assert await store.resolve(Resolution(job.id, "send", None), entry=entry("resolve"), now=at(5))
    assert await store.steps(job.id) == [Step(job.id, "charge", 1, at(1), ended_at=at(4), outcome='"paid"')]
    assert [one.action for one in await store.ledger()] == ["resolve", "resolve"]


async def test_an_operator_has_no_say_while_the_job_runs_nor_about_what_is_done(store: Store) -> None:
    job = await _held(store)
    await store.intend(job.id, job.fence, "charge", now=at(1))
    assert not await store.resolve(Resolution(job.id, "charge", "1"), entry=entry(), now=at(2))
    done = await store.conclude(job.id, job.fence, "charge", "2", now=at(3))
    await end(store, job, Failed(JobError("E", "dead"), permanent=True), at(4))
    assert not await store.resolve(Resolution(job.id, "charge", None), entry=entry(), now=at(5))
    assert not await store.resolve(Resolution(job.id, "unknown", None), entry=entry(), now=at(5))
    assert await store.steps(job.id) == [done]
    assert await store.ledger() == []
