from __future__ import annotations

import pytest

from builders import ADA, BASE, BEN, at, claim, ids_of, new_job, new_jobs
from conformance.stores.transitions import end, snapshot
from rota.core.lease import Renewal
from rota.core.outcome import Lost, Succeeded
from rota.ports.store import Store


async def test_a_repeated_claim_gives_the_same_jobs(store: Store) -> None:
    await store.insert(new_jobs(5), now=BASE)
    first = await store.claim(claim(limit=3, claim_id="c"), now=BASE)
    assert await store.claim(claim(limit=3, claim_id="c"), now=at(1)) == first


async def test_a_repeated_claim_changes_nothing(store: Store) -> None:
    await store.insert(new_jobs(5), now=BASE)
    await store.claim(claim(limit=3, claim_id="c"), now=BASE)
    before = await snapshot(store)
    await store.claim(claim(limit=5, claim_id="c"), now=at(1))
    assert await snapshot(store) == before


async def test_a_repeated_claim_gives_jobs_as_they_are_by_now(store: Store) -> None:
    await store.insert(new_jobs(1), now=BASE)
    (held,) = await store.claim(claim(claim_id="c"), now=BASE)
    await store.renew([Renewal(held.id, held.fence)], now=at(5))
    (again,) = await store.claim(claim(claim_id="c"), now=at(5))
    assert (again.fence, again.lease_until) == (1, at(20))


async def test_a_repeated_claim_does_not_give_what_has_been_settled(store: Store) -> None:
    await store.insert(new_jobs(3), now=BASE)
    first, second = await store.claim(claim(limit=2, claim_id="c"), now=BASE)
    await end(store, first, Succeeded())
    assert await store.claim(claim(limit=2, claim_id="c"), now=BASE) == [second]


async def test_a_repeated_claim_gives_no_new_jobs_when_all_of_its_own_are_gone(store: Store) -> None:
    """A duplicate that arrives late would otherwise lease jobs that no worker receives."""
    await store.insert(new_jobs(2), now=BASE)
    (held,) = await store.claim(claim(limit=1, claim_id="c"), now=BASE)
    await end(store, held, Succeeded())
    assert await store.claim(claim(limit=1, claim_id="c"), now=BASE) == []


async def test_a_claim_that_got_nothing_may_be_repeated_for_what_has_come_since(store: Store) -> None:
    """An idle worker claims all the time; recording each empty claim would be a write for each."""
    await store.claim(claim(claim_id="c"), now=BASE)
    await store.insert(new_jobs(1), now=BASE)
    assert len(await store.claim(claim(claim_id="c"), now=BASE)) == 1


async def test_a_repeated_claim_does_not_give_what_someone_else_holds_by_now(store: Store) -> None:
    await store.insert(new_jobs(1), now=BASE)
    (held,) = await store.claim(claim(ADA, claim_id="c"), now=BASE)
    await end(store, held, Lost())
    (theirs,) = await store.claim(claim(BEN, claim_id="d"), now=BASE)
    assert theirs.fence == held.fence + 1
    assert await store.claim(claim(ADA, claim_id="c"), now=BASE) == []


async def test_a_repeated_claim_does_not_give_a_job_that_its_worker_got_by_another_claim(store: Store) -> None:
    await store.insert(new_jobs(1), now=BASE)
    (held,) = await store.claim(claim(ADA, claim_id="c"), now=BASE)
    await end(store, held, Lost())
    await store.claim(claim(ADA, claim_id="d"), now=BASE)
    assert await store.claim(claim(ADA, claim_id="c"), now=BASE) == []


async def test_a_claim_for_no_queue_gives_what_was_given_by_its_name(store: Store) -> None:
    """As a lease keeper claims for its worker that has died."""
    await store.insert(new_jobs(3), now=BASE)
    first = await store.claim(claim(limit=2, types=("mail",), claim_id="c"), now=BASE)
    assert await store.claim(claim(limit=1, queues=(), types=(), claim_id="c"), now=BASE) == first


@pytest.mark.parametrize("types", [(), ("mail",), None], ids=str)
async def test_a_claim_for_no_queue_leases_nothing(store: Store, types: tuple[str, ...] | None) -> None:
    await store.insert(new_jobs(3), now=BASE)
    # So that the store has a place in that lane to go on from.
    await store.claim(claim(BEN, limit=1, types=("mail",), claim_id="other"), now=BASE)
    before = await snapshot(store)
    assert not await store.claim(claim(limit=1, queues=(), types=types, claim_id="c"), now=BASE)
    assert await snapshot(store) == before


async def test_another_claim_id_gives_other_jobs(store: Store) -> None:
    await store.insert(new_jobs(4), now=BASE)
    first = await store.claim(claim(limit=2, claim_id="c"), now=BASE)
    second = await store.claim(claim(limit=2, claim_id="d"), now=BASE)
    assert not set(ids_of(first)) & set(ids_of(second))


async def test_claims_without_an_id_are_never_the_same_claim(store: Store) -> None:
    await store.insert(new_jobs(4), now=BASE)
    first = await store.claim(claim(limit=2), now=BASE)
    second = await store.claim(claim(limit=2), now=BASE)
    assert len({*ids_of(first), *ids_of(second)}) == 4


async def test_a_claim_id_with_odd_letters_is_found_again(store: Store) -> None:
    await store.insert([new_job()], now=BASE)
    odd = "c'\"\\%_\u00e9\u4e2d\U0001f600"
    first = await store.claim(claim(claim_id=odd), now=BASE)
    assert await store.claim(claim(claim_id=odd), now=BASE) == first


async def test_a_question_that_is_said_to_be_new_is_answered_as_any_other(store: Store) -> None:
    assert await store.claim(claim(claim_id="c", is_new=True), now=BASE) == []
    (job,) = new_jobs(1)
    await store.insert([job], now=BASE)
    (held,) = await store.claim(claim(claim_id="c", is_new=True), now=BASE)
    assert held.id == job.id
    assert await store.claim(claim(claim_id="c"), now=BASE) == [held], "and remembered for who repeats it"


async def test_a_question_that_was_answered_elsewhere_meanwhile_gets_that_answer(store: Store) -> None:
    """One process looks again for a worker that has meanwhile been answered by another."""
    first, second = new_jobs(2)
    await store.insert([first], now=BASE)
    answered = await store.claim(claim(claim_id="c"), now=BASE)
    await store.insert([second], now=BASE)
    assert await store.claim(claim(claim_id="c", is_new=True), now=BASE) == answered
