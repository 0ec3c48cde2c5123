from __future__ import annotations

from dataclasses import replace

import pytest

from builders import ADA, BASE, BEN, at, error, failure, means, new_job
from conformance.stores.transitions import begin, call_off, end, kill, look
from rota.core.decision import decide, retry
from rota.core.job import Attempt
from rota.core.lease import Renewal, WorkerId
from rota.core.lifecycle import Event
from rota.core.outcome import Lost, Outcome, Released, Snoozed, Stopped, Succeeded
from rota.core.submission import NewJob
from rota.ports.store import Store


async def test_a_running_attempt_is_among_them_and_has_no_end(store: Store) -> None:
    job = await _inserted(store)
    await begin(store, job, at(1), ADA)
    assert await store.attempts(job.id) == [Attempt(job.id, 1, ADA.name, ADA.boot, at(1))]


async def test_a_first_success_is_remembered(store: Store) -> None:
    job = await _inserted(store)
    await end(store, await begin(store, job, at(1), ADA), Succeeded(), at(2))
    assert await store.attempts(job.id) == [
        Attempt(job.id, 1, ADA.name, ADA.boot, at(1), ended_at=at(2), event=Event.SUCCEED)
    ]


async def test_every_attempt_is_remembered_with_its_own_worker_and_end_oldest_first(store: Store) -> None:
    job = await _inserted(store)
    ends: list[tuple[WorkerId, Outcome]] = [
        (ADA, failure("one")),
        (BEN, Lost()),
        (ADA, Snoozed(at(2) - at(1))),
        (BEN, Released()),
        (ADA, Succeeded()),
    ]
    for number, (worker, outcome) in enumerate(ends):
        await store.promote(10, now=at(100 * number))
        await end(store, await begin(store, job, at(100 * number), worker), outcome, at(100 * number + 1))
    remembered = await store.attempts(job.id)
    assert [attempt.fence for attempt in remembered] == [1, 2, 3, 4, 5]
    assert [attempt.worker for attempt in remembered] == ["ada", "ben", "ada", "ben", "ada"]
    assert [attempt.event for attempt in remembered] == [
        Event.FAIL,
        Event.LAPSE,
        Event.SNOOZE,
        Event.RELEASE,
        Event.SUCCEED,
    ]
    assert [attempt.started_at for attempt in remembered] == [at(0), at(100), at(200), at(300), at(400)]
    assert [attempt.ended_at for attempt in remembered] == [at(1), at(101), at(201), at(301), at(401)]
    assert [attempt.error for attempt in remembered] == [error("one"), None, None, None, None]


async def test_what_an_earlier_attempt_left_stays_with_it(store: Store) -> None:
    job = await _inserted(store)
    await end(store, await begin(store, job), failure("one"))
    before = await store.attempts(job.id)
    await store.promote(1, now=at(60))
    await begin(store, job, at(60), BEN)
    assert list(await store.attempts(job.id))[:1] == before


async def test_the_end_of_a_job_that_does_not_run_is_no_attempt(store: Store) -> None:
    job = await _inserted(store)
    await end(store, await begin(store, job), failure("one"), at(1))
    before = await store.attempts(job.id)
    await call_off(store, job, now=at(50))
    assert await store.attempts(job.id) == before


async def test_a_retry_by_an_operator_leaves_the_attempts_as_they_are(store: Store) -> None:
    job = await _inserted(store)
    await kill(store, job)
    before = await store.attempts(job.id)
    await store.settle([retry(await look(store, job), at(9))], now=at(9))
    assert await store.attempts(job.id) == before


async def test_a_cancelled_job_that_never_ran_has_no_attempts(store: Store) -> None:
    job = await _inserted(store)
    await call_off(store, job)
    assert await store.attempts(job.id) == []


async def test_a_stopped_attempt_ended_by_a_cancel(store: Store) -> None:
    job = await _inserted(store)
    await end(store, await begin(store, job), Stopped(), at(3))
    (attempt,) = await store.attempts(job.id)
    assert (attempt.event, attempt.ended_at) == (Event.CANCEL, at(3))


async def test_the_last_lines_come_with_the_settlement(store: Store) -> None:
    job = await _inserted(store)
    held = await begin(store, job)
    settlement = replace(decide(held, failure(), means()), log_tail="the end")
    await store.settle([settlement], now=BASE)
    (attempt,) = await store.attempts(job.id)
    assert attempt.log_tail == "the end"


async def test_the_last_lines_of_a_first_success_are_remembered(store: Store) -> None:
    """A job that succeeds at once is stored in a cheaper way; its log must survive that."""
    job = await _inserted(store)
    settlement = replace(decide(await begin(store, job), Succeeded(), means()), log_tail="all good")
    await store.settle([settlement], now=BASE)
    (attempt,) = await store.attempts(job.id)
    assert (attempt.log_tail, attempt.event) == ("all good", Event.SUCCEED)


@pytest.mark.parametrize("outcome", [Succeeded(), failure()])
async def test_the_last_progress_comes_with_the_settlement(store: Store, outcome: Outcome) -> None:
    job = await _inserted(store)
    held = await begin(store, job)
    await store.renew([Renewal(job.id, held.fence, progress="1", log_tail="so far")], now=BASE)
    await store.settle([replace(decide(held, outcome, means()), progress="2")], now=BASE)
    (attempt,) = await store.attempts(job.id)
    assert (attempt.progress, attempt.log_tail, attempt.ended_at) == ("2", "so far", BASE)


async def test_lines_told_by_a_renewal_stay_when_the_settlement_brings_none(store: Store) -> None:
    job = await _inserted(store)
    held = await begin(store, job)
    await store.renew([Renewal(job.id, held.fence, progress="7", log_tail="so far")], now=BASE)
    await end(store, held, Succeeded(), at(2))
    (attempt,) = await store.attempts(job.id)
    assert (attempt.progress, attempt.log_tail, attempt.ended_at) == ("7", "so far", at(2))


async def test_attempts_of_one_job_are_not_those_of_another(store: Store) -> None:
    job, other = await _inserted(store), await _inserted(store)
    await end(store, await begin(store, other), failure())
    assert await store.attempts(job.id) == []


async def test_an_unknown_job_has_no_attempts(store: Store) -> None:
    assert await store.attempts(new_job().id) == []


async def _inserted(store: Store) -> NewJob:
    job = new_job(max_attempts=9)
    await store.insert([job], now=BASE)
    return job
