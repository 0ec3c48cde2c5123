from __future__ import annotations

from datetime import datetime

from builders import BASE, HOUR, MINUTE, at, claim, failure, fresh_id, ids_of, means, new_job
from conformance.stores.transitions import begin, look, snapshot
from rota.core.decision import decide
from rota.core.ids import JobId
from rota.core.lifecycle import State
from rota.core.outcome import Lost, Outcome, Succeeded
from rota.core.submission import NewJob, Template
from rota.ports.store import Store

CHAIN = Template("second", queue="next", priority=8, on_success=Template("third"), tags=("chained",), meta={"a": "b"})


async def test_success_makes_the_job_that_was_asked_for(store: Store) -> None:
    job = new_job(on_success=CHAIN, on_failure=Template("sorry"))
    heir = await _settled(store, job, Succeeded(), at(5))
    made = await look(store, heir)
    assert (made.type, made.queue, made.priority, made.tags) == ("second", "next", 8, ("chained",))
    assert (made.parent_id, made.created_at, made.run_at, made.state) == (job.id, at(5), at(5), State.PENDING)


async def test_death_makes_the_job_that_was_asked_for(store: Store) -> None:
    job = new_job(on_success=CHAIN, on_failure=Template("sorry"))
    heir = await _settled(store, job, failure(permanent=True))
    assert (await look(store, heir)).type == "sorry"


async def test_a_failure_that_is_tried_again_makes_none(store: Store) -> None:
    job = new_job(on_success=CHAIN, on_failure=Template("sorry"))
    heir = await _settled(store, job, failure())
    assert await store.get([heir]) == []


async def test_a_follow_up_carries_its_own_follow_up(store: Store) -> None:
    heir = await _settled(store, new_job(on_success=CHAIN), Succeeded())
    assert (await look(store, heir)).on_success == Template("third")


async def test_a_delayed_follow_up_is_scheduled(store: Store) -> None:
    job = new_job(on_success=Template("later", delay=MINUTE, expires=HOUR))
    heir = await _settled(store, job, Succeeded(), at(5))
    made = await look(store, heir)
    assert (made.state, made.run_at, made.expires_at) == (State.SCHEDULED, at(65), at(65) + HOUR)


async def test_a_follow_up_can_be_claimed_at_once(store: Store) -> None:
    heir = await _settled(store, new_job(on_success=CHAIN), Succeeded())
    assert ids_of(await store.claim(claim(queues=("next",)), now=BASE)) == [heir]


async def test_a_stale_settlement_makes_no_follow_up(store: Store) -> None:
    job = new_job(on_success=CHAIN)
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    await store.settle([decide(held, Lost(), means())], now=BASE)
    before = await snapshot(store)
    await store.settle([decide(held, Succeeded(), means())], now=BASE)
    assert await snapshot(store) == before


async def test_a_settlement_that_is_repeated_makes_no_second_follow_up(store: Store) -> None:
    job = new_job(on_success=CHAIN)
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    await store.settle([decide(held, Succeeded(), means())], now=BASE)
    await store.settle([decide(held, Succeeded(), means())], now=BASE)
    assert (await store.census()).total() == 2


async def test_follow_ups_of_a_batch_belong_to_their_own_parents(store: Store) -> None:
    jobs = [new_job(on_success=Template(f"after-{number}")) for number in range(20)]
    await store.insert(jobs, now=BASE)
    heirs = [fresh_id() for _ in jobs]
    held = await store.claim(claim(), now=BASE)
    settlements = [decide(job, Succeeded(), means(follow_up_id=heir)) for job, heir in zip(held, heirs, strict=True)]
    await store.settle(settlements, now=BASE)
    made = await store.get(heirs)
    assert [(job.parent_id, job.type) for job in made] == [
        (job.id, f"after-{number}") for number, job in enumerate(jobs)
    ]


async def _settled(store: Store, job: NewJob, outcome: Outcome, now: datetime = BASE) -> JobId:
    heir = fresh_id()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    assert await store.settle([decide(held, outcome, means(now, heir))], now=now) == [job.id]
    return heir
