from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from builders import ADA, BASE, DAY, HOUR, MICROSECOND, SECOND, after, claim, fresh_id, key, new_job
from conformance.stores.transitions import begin, complete, end_as, snapshot, state
from rota.core.lifecycle import FINISHED, State
from rota.ports.store import Inserted, Receipt, Store


async def test_the_same_key_and_request_are_answered_with_the_first_job(store: Store) -> None:
    first = new_job(idempotency=key("k"))
    await store.insert([first], now=BASE)
    answers = await store.insert([new_job(idempotency=key("k"))], now=BASE + SECOND)
    assert answers == [Inserted(first.id, Receipt.REPLAYED, State.PENDING)]


async def test_a_replayed_submission_changes_nothing(store: Store) -> None:
    await store.insert([new_job(idempotency=key("k"))], now=BASE)
    before = await snapshot(store)
    await store.insert([new_job(idempotency=key("k"), tags=("t",))], now=BASE + SECOND)
    assert await snapshot(store) == before


async def test_a_replay_tells_the_state_in_which_the_job_is_by_now(store: Store) -> None:
    job = new_job(idempotency=key("k"))
    await store.insert([job], now=BASE)
    await complete(store, job)
    (answer,) = await store.insert([new_job(idempotency=key("k"))], now=BASE)
    assert answer.state is State.COMPLETED


async def test_a_repeated_insert_with_its_own_id_and_key_is_a_replay_and_not_a_clash(store: Store) -> None:
    """The reply was lost, so the client repeats the request: the answer must say that it succeeded."""
    job = new_job(idempotency=key("k"))
    await store.insert([job], now=BASE)
    (answer,) = await store.insert([job], now=BASE)
    assert answer.receipt is Receipt.REPLAYED


async def test_the_same_key_with_another_request_makes_nothing(store: Store) -> None:
    first = new_job(idempotency=key("k", b"one"))
    await store.insert([first], now=BASE)
    before = await snapshot(store)
    answers = await store.insert([new_job(idempotency=key("k", b"two"))], now=BASE)
    assert answers == [Inserted(first.id, Receipt.KEY_REUSED, State.PENDING)]
    assert await snapshot(store) == before


async def test_one_key_that_comes_twice_in_a_batch_makes_one_job(store: Store) -> None:
    first, second, other = new_job(idempotency=key("k")), new_job(idempotency=key("k")), new_job()
    answers = await store.insert([first, second, other], now=BASE)
    assert answers[1] == Inserted(first.id, Receipt.REPLAYED, State.PENDING)
    assert (await store.census()).total() == 2


async def test_one_key_with_two_requests_in_a_batch_makes_the_first(store: Store) -> None:
    first, second = new_job(idempotency=key("k", b"one")), new_job(idempotency=key("k", b"two"))
    answers = await store.insert([first, second], now=BASE)
    assert [answer.receipt for answer in answers] == [Receipt.CREATED, Receipt.KEY_REUSED]


async def test_keys_of_different_scopes_have_nothing_to_do_with_each_other(store: Store) -> None:
    jobs = [new_job(idempotency=key("k", scope=scope)) for scope in ("", "tenant-a", "tenant-b")]
    answers = await store.insert(jobs, now=BASE)
    assert {answer.receipt for answer in answers} == {Receipt.CREATED}


async def test_a_scope_and_a_key_are_not_run_together(store: Store) -> None:
    jobs = [new_job(idempotency=key("bc", scope="a")), new_job(idempotency=key("c", scope="ab"))]
    answers = await store.insert(jobs, now=BASE)
    assert {answer.receipt for answer in answers} == {Receipt.CREATED}


@pytest.mark.parametrize("final", sorted(FINISHED))
async def test_a_key_is_free_again_once_its_time_is_over_and_its_job_has_ended(store: Store, final: State) -> None:
    job = new_job(idempotency=key("k", keep=HOUR))
    await store.insert([job], now=BASE)
    await end_as(store, final, job)
    again = new_job(idempotency=key("k", keep=HOUR))
    answers = await store.insert([again], now=BASE + HOUR)
    assert answers == [Inserted(again.id, Receipt.CREATED, State.PENDING)]


async def test_a_key_still_stands_for_its_ended_job_until_its_time_is_over(store: Store) -> None:
    job = new_job(idempotency=key("k", keep=HOUR))
    await store.insert([job], now=BASE)
    await complete(store, job)
    (answer,) = await store.insert([new_job(idempotency=key("k"))], now=BASE + HOUR - MICROSECOND)
    assert answer.receipt is Receipt.REPLAYED


async def test_a_key_outlives_its_time_while_its_job_is_unfinished(store: Store) -> None:
    job = new_job(idempotency=key("k", keep=HOUR))
    await store.insert([job], now=BASE)
    (answer,) = await store.insert([new_job(idempotency=key("k"))], now=BASE + 30 * DAY)
    assert answer == Inserted(job.id, Receipt.REPLAYED, State.PENDING)


async def test_a_key_outlives_its_time_while_its_job_runs(store: Store) -> None:
    job = new_job(idempotency=key("k", keep=HOUR))
    await store.insert([job], now=BASE)
    await begin(store, job)
    (answer,) = await store.insert([new_job(idempotency=key("k", b"other"))], now=BASE + DAY)
    assert answer == Inserted(job.id, Receipt.KEY_REUSED, State.RUNNING)


async def test_a_key_that_was_taken_over_stands_for_the_new_job(store: Store) -> None:
    job, again = new_job(idempotency=key("k", keep=HOUR)), new_job(idempotency=key("k", b"other", keep=HOUR))
    await store.insert([job], now=BASE)
    await complete(store, job)
    await store.insert([again], now=BASE + HOUR)
    (answer,) = await store.insert([new_job(idempotency=key("k", b"other"))], now=BASE + HOUR)
    assert answer == Inserted(again.id, Receipt.REPLAYED, State.PENDING)


async def test_the_time_of_a_key_is_the_first_submissions(store: Store) -> None:
    """A replay must not lengthen it, or a chatty client would keep its key for ever."""
    job = new_job(idempotency=key("k", keep=HOUR))
    await store.insert([job], now=BASE)
    await complete(store, job)
    await store.insert([new_job(idempotency=key("k", keep=DAY))], now=BASE + HOUR / 2)
    (answer,) = await store.insert([new_job(idempotency=key("k"))], now=BASE + HOUR)
    assert answer.receipt is Receipt.CREATED


async def test_a_key_kept_for_no_time_still_makes_one_job_while_it_lives(store: Store) -> None:
    job = new_job(idempotency=key("k", keep=timedelta(0)))
    await store.insert([job], now=BASE)
    (answer,) = await store.insert([new_job(idempotency=key("k"))], now=BASE)
    assert answer.receipt is Receipt.REPLAYED


async def test_a_key_whose_job_was_refused_for_its_id_is_not_taken(store: Store) -> None:
    taken = new_job()
    await store.insert([taken], now=BASE)
    await store.insert([new_job(id=taken.id, idempotency=key("k"))], now=BASE)
    (answer,) = await store.insert([new_job(idempotency=key("k"))], now=BASE)
    assert answer.receipt is Receipt.CREATED


async def test_a_replay_with_an_id_that_is_taken_is_a_replay(store: Store) -> None:
    first, other = new_job(idempotency=key("k")), new_job()
    await store.insert([first, other], now=BASE)
    (answer,) = await store.insert([new_job(id=other.id, idempotency=key("k"))], now=BASE)
    assert answer == Inserted(first.id, Receipt.REPLAYED, State.PENDING)


async def test_a_key_of_a_job_that_is_cancelled_at_birth_stands_for_it(store: Store) -> None:
    """Its parents had failed it already; a repeated submission must get the same answer."""
    orphan = new_job(idempotency=key("k"), after=after(fresh_id()))
    (answer,) = await store.insert([orphan], now=BASE)
    assert answer.state is State.CANCELLED
    (answer,) = await store.insert([orphan], now=BASE)
    assert answer == Inserted(orphan.id, Receipt.REPLAYED, State.CANCELLED)


async def test_a_job_knows_its_key(store: Store) -> None:
    job = new_job(idempotency=key("k", scope="tenant"))
    await store.insert([job], now=BASE)
    (stored,) = await store.get([job.id])
    assert stored.idempotency_key == "k"


async def test_ten_concurrent_inserts_with_one_key_make_one_job(store: Store) -> None:
    jobs = [new_job(idempotency=key("k")) for _ in range(10)]
    answers = await asyncio.gather(*(store.insert([job], now=BASE) for job in jobs))
    receipts = sorted(answer.receipt for (answer,) in answers)
    assert receipts == [Receipt.CREATED] + 9 * [Receipt.REPLAYED]
    assert len({answer.job_id for (answer,) in answers}) == 1
    assert len(await store.claim(claim(ADA), now=BASE)) == 1


async def test_a_replay_does_not_revive_a_cancelled_job(store: Store) -> None:
    job = new_job(idempotency=key("k"))
    await store.insert([job], now=BASE)
    await end_as(store, State.CANCELLED, job)
    await store.insert([new_job(idempotency=key("k"))], now=BASE)
    assert await state(store, job) is State.CANCELLED
