from __future__ import annotations

import asyncio

from builders import BASE, HOUR, at, claim, key, new_job, new_jobs
from conformance.stores.transitions import look
from rota.core.lifecycle import State
from rota.core.queue import Queue
from rota.core.submission import Dependency
from rota.ports.store import Receipt, Store


def receipts(answers: object) -> list[Receipt]:
    return [answer.receipt for answer in answers]  # type: ignore[attr-defined]


async def test_a_full_queue_takes_no_more(store: Store) -> None:
    assert (
        receipts(await store.insert(new_jobs(5), bound=3, now=BASE)) == [Receipt.CREATED] * 3 + [Receipt.QUEUE_FULL] * 2
    )
    assert receipts(await store.insert([new_job()], bound=3, now=BASE)) == [Receipt.QUEUE_FULL]
    assert (await store.census()).total() == 3


async def test_what_was_refused_is_not_there(store: Store) -> None:
    refused = new_job()
    (answer,) = await store.insert([refused], bound=0, now=BASE)
    assert (answer.job_id, answer.receipt, answer.state) == (refused.id, Receipt.QUEUE_FULL, State.PENDING)
    assert await store.get([refused.id]) == []


async def test_a_claim_makes_room(store: Store) -> None:
    await store.insert(new_jobs(2), bound=2, now=BASE)
    await store.claim(claim(limit=1), now=BASE)
    assert receipts(await store.insert(new_jobs(2), bound=2, now=BASE)) == [Receipt.CREATED, Receipt.QUEUE_FULL]


async def test_a_queue_s_own_bound_counts_instead_of_the_general_one(store: Store) -> None:
    await store.put_queue(Queue("narrow", max_depth=1), now=BASE)
    await store.put_queue(Queue("wide", max_depth=100), now=BASE)
    jobs = [new_job(queue=name) for name in ("narrow", "narrow", "wide", "wide", "wide")]
    assert receipts(await store.insert(jobs, bound=2, now=BASE)) == [
        Receipt.CREATED,
        Receipt.QUEUE_FULL,
        *[Receipt.CREATED] * 3,
    ]


async def test_a_queue_s_own_bound_holds_for_a_single_job(store: Store) -> None:
    await store.put_queue(Queue("narrow", max_depth=1), now=BASE)
    lone = [receipts(await store.insert([new_job(queue="narrow")], now=BASE)) for _ in range(2)]
    assert lone == [[Receipt.CREATED], [Receipt.QUEUE_FULL]]
    assert receipts(await store.insert([new_job()], now=BASE)) == [Receipt.CREATED]


async def test_without_any_bound_nothing_is_refused(store: Store) -> None:
    await store.put_queue(Queue("other", max_depth=0), now=BASE)
    assert set(receipts(await store.insert(new_jobs(50), now=BASE))) == {Receipt.CREATED}


async def test_what_is_not_due_does_not_wait_in_the_queue(store: Store) -> None:
    (parent,) = new_jobs(1)
    await store.insert([parent], now=BASE)
    later = [new_job(run_at=BASE + HOUR), new_job(after=(Dependency(parent.id),))]
    assert set(receipts(await store.insert(later, bound=1, now=BASE))) == {Receipt.CREATED}


async def test_a_key_that_came_before_is_answered_though_the_queue_is_full(store: Store) -> None:
    first = new_job(idempotency=key("k"))
    await store.insert([first], bound=1, now=BASE)
    (again,) = await store.insert([new_job(idempotency=key("k"))], bound=1, now=at(1))
    assert (again.job_id, again.receipt) == (first.id, Receipt.REPLAYED)


async def test_a_key_whose_job_was_refused_is_free(store: Store) -> None:
    await store.insert([new_job(idempotency=key("k"))], bound=0, now=BASE)
    second = new_job(idempotency=key("k", b"other"))
    (answer,) = await store.insert([second], bound=1, now=at(1))
    assert answer.receipt is Receipt.CREATED
    assert (await look(store, second)).idempotency_key == "k"


async def test_the_bound_holds_however_many_come_at_once(store: Store) -> None:
    answers = await asyncio.gather(*(store.insert(new_jobs(2), bound=25) for _ in range(40)))
    made = [one for batch in answers for one in receipts(batch)].count(Receipt.CREATED)
    assert made == 25
    assert (await store.census()).total(State.PENDING) == 25


async def test_one_that_finds_no_room_does_not_hinder_one_that_waits_for_another(store: Store) -> None:
    parent, refused = new_jobs(2)
    await store.insert([parent], now=BASE)
    child = new_job(after=(Dependency(parent.id),))
    answers = await store.insert([refused, child], bound=1, now=BASE)
    assert [(one.receipt, one.state) for one in answers] == [
        (Receipt.QUEUE_FULL, State.PENDING),
        (Receipt.CREATED, State.BLOCKED),
    ]
