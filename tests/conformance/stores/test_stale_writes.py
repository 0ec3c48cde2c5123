"""Every write that a worker or a maintenance loop makes carries a fence; a stale one is refused and changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

import pytest

from builders import ADA, BASE, BEN, HOUR, after, at, entry, failure, fresh_id, new_job
from conformance.stores.transitions import begin, end, look, snapshot
from rota.core.job import Job
from rota.core.lease import Renewal
from rota.core.lifecycle import MOVES, Event, State
from rota.core.outcome import Lost, Succeeded
from rota.core.submission import Template
from rota.ports.store import Store

Write = Callable[[Store, Job], Awaitable[object]]


@dataclass(frozen=True)
class Refusal:
    """A write under a job's old fence, and the answer that says that it was refused."""

    name: str
    write: Write
    answer: object


async def _renew(store: Store, job: Job) -> object:
    return await store.renew([Renewal(job.id, job.fence, HOUR, progress="stale", log_tail="stale")], now=at(90))


async def _ask_cancel(store: Store, job: Job) -> object:
    return await store.ask_cancel([(job.id, job.fence)], entry=entry(), now=at(90))


async def _intend_anew(store: Store, job: Job) -> object:
    return await store.intend(job.id, job.fence, "new", now=at(90))


async def _intend_again(store: Store, job: Job) -> object:
    return await store.intend(job.id, job.fence, "open", now=at(90))


async def _conclude(store: Store, job: Job) -> object:
    return await store.conclude(job.id, job.fence, "open", '"stale"', now=at(90))


async def _conclude_again(store: Store, job: Job) -> object:
    return await store.conclude(job.id, job.fence, "done", '"stale"', now=at(90))


def _settling(event: Event) -> Write:
    async def settle(store: Store, job: Job) -> object:
        heir = Template("heir").make(fresh_id(), BASE, parent_id=job.id)
        stale = job.settled(
            event, run_at=at(1), result='"stale"', error=failure("stale").error, refund=True, crash=True, follow_up=heir
        )
        return await store.settle([replace(stale, log_tail="stale")], entry=entry(), now=at(90))

    return settle


async def _succeed_plainly(store: Store, job: Job) -> object:
    """Nearly all settlements are like this one, so stores may have a shorter way for them."""
    return await store.settle([job.settled(Event.SUCCEED, result='"stale"')], now=at(90))


REFUSALS: Final = [
    Refusal("renew", _renew, []),
    Refusal("settle by plain success", _succeed_plainly, []),
    Refusal("ask_cancel", _ask_cancel, []),
    Refusal("intend a new step", _intend_anew, None),
    Refusal("intend a known step", _intend_again, None),
    Refusal("conclude a step", _conclude, None),
    Refusal("conclude a finished step", _conclude_again, None),
    *(Refusal(f"settle by {event}", _settling(event), []) for event in MOVES[State.RUNNING]),
]


async def _stale_after_a_new_claim(store: Store, job: Job) -> None:
    await end(store, job, Lost(), at(60))
    await begin(store, job, at(60), BEN)


async def _stale_after_it_was_reaped(store: Store, job: Job) -> None:
    await end(store, job, Lost(), at(60))


async def _stale_after_it_ended(store: Store, job: Job) -> None:
    await end(store, job, Succeeded(), at(60))


async def _stale_while_it_waits_for_a_retry(store: Store, job: Job) -> None:
    await end(store, job, failure(), at(60))


@pytest.mark.parametrize(
    "pass_on",
    [
        _stale_after_a_new_claim,
        _stale_after_it_was_reaped,
        _stale_after_it_ended,
        _stale_while_it_waits_for_a_retry,
    ],
)
@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
async def test_a_write_under_a_stale_fence_is_refused_and_changes_nothing(
    store: Store, refusal: Refusal, pass_on: Callable[[Store, Job], Awaitable[None]]
) -> None:
    job = await _held_with_steps_and_a_waiter(store)
    await pass_on(store, job)
    before = await snapshot(store)
    assert await refusal.write(store, job) == refusal.answer
    assert await snapshot(store) == before


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
async def test_a_write_under_a_fence_that_was_never_given_is_refused(store: Store, refusal: Refusal) -> None:
    job = await _held_with_steps_and_a_waiter(store)
    before = await snapshot(store)
    assert await refusal.write(store, replace(job, fence=job.fence + 1)) == refusal.answer
    assert await snapshot(store) == before


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
async def test_a_write_to_an_unknown_job_is_refused(store: Store, refusal: Refusal) -> None:
    job = await _held_with_steps_and_a_waiter(store)
    before = await snapshot(store)
    assert await refusal.write(store, replace(job, id=fresh_id())) == refusal.answer
    assert await snapshot(store) == before


async def test_every_write_of_this_list_is_accepted_under_a_fence_that_holds(store: Store) -> None:
    """Otherwise the tests above would pass for writes that are always refused."""
    for refusal in REFUSALS:
        job = await _held_with_steps_and_a_waiter(store)
        assert await refusal.write(store, job) != refusal.answer, refusal.name


async def _held_with_steps_and_a_waiter(store: Store) -> Job:
    job = new_job(max_attempts=9)
    await store.insert([job, new_job(after=after(job))], now=BASE)
    held = await begin(store, job, BASE, ADA)
    await store.intend(job.id, held.fence, "open", now=BASE)
    await store.intend(job.id, held.fence, "done", now=BASE)
    await store.conclude(job.id, held.fence, "done", '"first"', now=BASE)
    return await look(store, held)
