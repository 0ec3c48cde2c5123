"""Unique, throttled and debounced submissions: one mechanism, on every store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from builders import BASE, DAY, HOUR, MICROSECOND, MINUTE, SECOND, claim, error, key, new_job
from conformance.stores.adapters import SHARED
from conformance.stores.conftest import OpenStore
from conformance.stores.transitions import begin, complete, end, end_as, kill, look, snapshot, state
from rota.core.lifecycle import FINISHED, State
from rota.core.outcome import Failed
from rota.core.submission import NewJob
from rota.core.unique_keys import UniqueKey, UniqueKind
from rota.ports.store import Inserted, Receipt, Retention, Store


def unique(period: timedelta | None = HOUR, text: str = "k") -> NewJob:
    return new_job(unique=UniqueKey(UniqueKind.UNIQUE, text, period))


def throttled(period: timedelta = HOUR, text: str = "k") -> NewJob:
    return new_job(unique=UniqueKey(UniqueKind.THROTTLE, text, period))


def debounced(payload: str = "1", *, at: int = 0, text: str = "k", max_wait: int | None = None) -> NewJob:
    """Make a submission that is made at a second, and waits for 10 s."""
    wait = timedelta(seconds=10)
    most = None if max_wait is None else timedelta(seconds=max_wait)
    chosen = UniqueKey(UniqueKind.DEBOUNCE, text, wait, max_wait=most)
    return new_job(payload=payload, run_at=BASE + at * SECOND + wait, unique=chosen)


async def test_a_unique_submission_is_answered_with_the_job_of_its_key(store: Store) -> None:
    first = unique()
    await store.insert([first], now=BASE)
    before = await snapshot(store)
    answers = await store.insert([unique()], now=BASE + SECOND)
    assert answers == [Inserted(first.id, Receipt.UNIQUE_CONFLICT, State.PENDING)]
    assert await snapshot(store) == before


async def test_keys_of_other_texts_types_queues_and_kinds_do_not_meet(store: Store) -> None:
    others = [unique(text="other"), replace(unique(), type="other"), replace(unique(), queue="other")]
    answers = await store.insert([unique(), *others, throttled(), debounced()], now=BASE)
    assert [answer.receipt for answer in answers] == [Receipt.CREATED] * 6


async def test_a_unique_key_is_free_again_when_its_period_is_over(store: Store) -> None:
    await store.insert([unique()], now=BASE)
    (early,) = await store.insert([unique()], now=BASE + HOUR - MICROSECOND)
    (late,) = await store.insert([unique()], now=BASE + HOUR)
    assert [early.receipt, late.receipt] == [Receipt.UNIQUE_CONFLICT, Receipt.CREATED]


@pytest.mark.parametrize("final", sorted(FINISHED))
async def test_a_completed_job_counts_and_a_dead_or_cancelled_one_does_not(store: Store, final: State) -> None:
    job = unique()
    await store.insert([job], now=BASE)
    await end_as(store, final, job)
    (answer,) = await store.insert([unique()], now=BASE + SECOND)
    assert answer.receipt is (Receipt.UNIQUE_CONFLICT if final is State.COMPLETED else Receipt.CREATED)


async def test_without_a_period_a_job_counts_as_long_as_it_is_in_one_of_the_states(store: Store) -> None:
    waiting = UniqueKey(UniqueKind.UNIQUE, "k", None, frozenset({State.PENDING, State.RUNNING}))
    job = new_job(unique=waiting)
    await store.insert([job], now=BASE)
    receipts = [(await store.insert([new_job(unique=waiting)], now=BASE + 30 * DAY))[0].receipt]
    await begin(store, job)
    receipts += [(await store.insert([new_job(unique=waiting)], now=BASE + 30 * DAY))[0].receipt]
    await end(store, await look(store, job), Failed(error(), permanent=True))
    receipts += [(await store.insert([new_job(unique=waiting)], now=BASE + 30 * DAY))[0].receipt]
    assert receipts == [Receipt.UNIQUE_CONFLICT, Receipt.UNIQUE_CONFLICT, Receipt.CREATED]


async def test_one_key_that_comes_twice_in_a_batch_makes_one_job(store: Store) -> None:
    first, second, other = unique(), unique(), new_job()
    answers = await store.insert([first, second, other], now=BASE)
    assert answers[1] == Inserted(first.id, Receipt.UNIQUE_CONFLICT, State.PENDING)
    assert [answers[0].receipt, answers[2].receipt] == [Receipt.CREATED] * 2
    assert (await store.census()).total() == 2


async def test_a_throttled_submission_is_answered_with_the_job_of_the_period(store: Store) -> None:
    first = throttled()
    await store.insert([first], now=BASE)
    await kill(store, first)
    answers = await store.insert([throttled()], now=BASE + HOUR - MICROSECOND)
    assert answers == [Inserted(first.id, Receipt.THROTTLED, State.DEAD)]
    (late,) = await store.insert([throttled()], now=BASE + HOUR)
    assert late.receipt is Receipt.CREATED


async def test_the_period_of_a_throttle_begins_with_the_job_and_not_with_the_last_submission(store: Store) -> None:
    await store.insert([throttled()], now=BASE)
    await store.insert([throttled()], now=BASE + 50 * MINUTE)
    (answer,) = await store.insert([throttled()], now=BASE + HOUR)
    assert answer.receipt is Receipt.CREATED


async def test_a_debounced_job_takes_the_last_payload_and_waits_anew(store: Store) -> None:
    first = debounced("1")
    await store.insert([first], now=BASE)
    answers = await store.insert([debounced("2", at=6)], now=BASE + 6 * SECOND)
    assert answers == [Inserted(first.id, Receipt.DEBOUNCED, State.SCHEDULED)]
    job = await look(store, first)
    assert (job.payload, job.run_at) == ("2", BASE + 16 * SECOND)
    assert not await store.promote(10, now=BASE + 16 * SECOND - MICROSECOND)
    assert await store.promote(10, now=BASE + 16 * SECOND)
    (taken,) = await store.claim(claim(), now=BASE + 16 * SECOND)
    assert (taken.id, taken.payload) == (first.id, "2")
    assert (await store.census()).total() == 1


async def test_a_debounced_job_waits_no_longer_than_max_wait(store: Store) -> None:
    first = debounced(max_wait=15)
    await store.insert([first], now=BASE)
    for second in (5, 10, 14):
        await store.insert([debounced(at=second, max_wait=15)], now=BASE + second * SECOND)
    assert (await look(store, first)).run_at == BASE + 15 * SECOND


async def test_the_expiry_of_a_debounced_job_moves_with_its_time(store: Store) -> None:
    first = replace(debounced(), expires_at=BASE + 30 * SECOND)
    await store.insert([first], now=BASE)
    await store.insert([replace(debounced(at=6), expires_at=BASE + 36 * SECOND)], now=BASE + 6 * SECOND)
    assert (await look(store, first)).expires_at == BASE + 36 * SECOND
    assert not await store.expired(10, now=BASE + 35 * SECOND)


async def test_a_debounced_job_that_is_due_takes_the_payload_and_stays_due(store: Store) -> None:
    first = debounced("1")
    await store.insert([first], now=BASE)
    await store.promote(10, now=BASE + 10 * SECOND)
    (answer,) = await store.insert([debounced("2", at=11)], now=BASE + 11 * SECOND)
    assert answer == Inserted(first.id, Receipt.DEBOUNCED, State.PENDING)
    (taken,) = await store.claim(claim(), now=BASE + 11 * SECOND)
    assert taken.payload == "2"


async def test_a_debounced_job_that_a_worker_has_taken_is_left_alone(store: Store) -> None:
    first, second = debounced("1"), debounced("2", at=10)
    await store.insert([first], now=BASE)
    await store.promote(10, now=BASE + 10 * SECOND)
    await begin(store, first, BASE + 10 * SECOND)
    (answer,) = await store.insert([second], now=BASE + 10 * SECOND)
    assert answer == Inserted(second.id, Receipt.CREATED, State.SCHEDULED)
    assert (await look(store, first)).payload == "1"


async def test_debounced_submissions_of_one_batch_make_one_job_with_the_last_payload(store: Store) -> None:
    jobs = [debounced(str(number)) for number in range(5)]
    answers = await store.insert(jobs, now=BASE)
    assert [answer.receipt for answer in answers] == [Receipt.CREATED, *[Receipt.DEBOUNCED] * 4]
    assert {answer.job_id for answer in answers} == {jobs[0].id}
    assert (await look(store, jobs[0])).payload == "4"


async def test_a_lost_answer_that_is_asked_for_again_does_not_bring_back_an_older_payload(store: Store) -> None:
    first, second = debounced("1"), debounced("2")
    await store.insert([first], now=BASE)
    repeated = replace(second, idempotency=key("second"))
    await store.insert([repeated], now=BASE)
    await store.insert([debounced("3")], now=BASE)
    (answer,) = await store.insert([replace(repeated, id=debounced().id)], now=BASE)
    assert answer == Inserted(first.id, Receipt.REPLAYED, State.SCHEDULED)
    assert (await look(store, first)).payload == "3"


async def test_an_idempotency_key_is_answered_before_a_unique_key(store: Store) -> None:
    job = replace(unique(), idempotency=key("i"))
    await store.insert([job], now=BASE)
    answers = await store.insert([replace(unique(), idempotency=key("i", b"other"))], now=BASE)
    assert [answer.receipt for answer in answers] == [Receipt.KEY_REUSED]


async def test_a_repeated_insert_of_the_same_job_is_a_replay(store: Store) -> None:
    job = unique()
    await store.insert([job], now=BASE)
    assert await store.insert([job], now=BASE) == [Inserted(job.id, Receipt.REPLAYED, State.PENDING)]


async def test_a_full_queue_answers_with_the_job_of_the_key_and_refuses_new_ones(store: Store) -> None:
    first = unique()
    await store.insert([first], bound=1, now=BASE)
    answers = await store.insert([unique(), unique(text="other")], bound=1, now=BASE)
    assert [answer.receipt for answer in answers] == [Receipt.UNIQUE_CONFLICT, Receipt.QUEUE_FULL]
    await complete(store, first)
    (again,) = await store.insert([unique(text="other")], bound=1, now=BASE)
    assert again.receipt is Receipt.CREATED


async def test_the_job_of_a_unique_key_is_kept_until_its_period_is_over(store: Store) -> None:
    job = unique(DAY)
    await store.insert([job], now=BASE)
    await complete(store, job)
    await store.prune(Retention(completed=SECOND), limit=100, now=BASE + HOUR)
    (answer,) = await store.insert([unique(DAY)], now=BASE + HOUR)
    assert answer == Inserted(job.id, Receipt.UNIQUE_CONFLICT, State.COMPLETED)


@pytest.mark.parametrize("make", [unique, throttled, debounced], ids=lambda make: make.__name__)
async def test_ten_submitters_at_once_make_one_job(store: Store, make: Callable[..., NewJob]) -> None:
    for text in ("a", "b", "c"):
        answers = await asyncio.gather(*(store.insert([make(text=text)], now=BASE) for _ in range(10)))
        assert sorted(answer.receipt is Receipt.CREATED for (answer,) in answers) == [False] * 9 + [True]
        assert len({answer.job_id for (answer,) in answers}) == 1


@pytest.mark.parametrize("adapter", SHARED, ids=lambda adapter: adapter.name, indirect=True)
@pytest.mark.parametrize("make", [unique, throttled, debounced], ids=lambda make: make.__name__)
async def test_submitters_in_several_processes_make_one_job(open_store: OpenStore, make: Callable[..., NewJob]) -> None:
    """Each has connections of its own, so that their transactions meet in the database."""
    stores = [await open_store() for _ in range(5)]
    for number in range(10):
        jobs = [[make(text=f"a {number}"), make(text=f"b {number}")] for _ in stores]
        # Half of them name the keys the other way round.
        turned = [pair if place % 2 else pair[::-1] for place, pair in enumerate(jobs)]
        answers = await asyncio.gather(
            *(store.insert(pair, now=BASE) for store, pair in zip(stores, turned, strict=True))
        )
        receipts = [answer.receipt for pair in answers for answer in pair]
        assert receipts.count(Receipt.CREATED) == 2
        assert len({answer.job_id for pair in answers for answer in pair}) == 2


async def test_debounced_submissions_and_claims_at_once_lose_no_payload(store: Store) -> None:
    """Whatever a claim gets between two submissions: the last payload runs, once."""
    for number in range(20):
        text = f"key {number}"
        first = debounced("1", text=text)
        await store.insert([first], now=BASE)
        await store.promote(10, now=BASE + 10 * SECOND)
        (answer,), taken = await asyncio.gather(
            store.insert([debounced("2", at=10, text=text)], now=BASE + 10 * SECOND),
            store.claim(claim(), now=BASE + 10 * SECOND),
        )
        if answer.receipt is Receipt.DEBOUNCED:
            jobs = taken or await store.claim(claim(), now=BASE + 10 * SECOND)
            assert [job.payload for job in jobs] == ["2"]
        else:
            assert [job.payload for job in taken] == ["1"]
            assert await state(store, answer.job_id) is State.SCHEDULED
