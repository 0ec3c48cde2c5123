"""Concurrent calls on one store."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from builders import ADA, BASE, BEN, after, at, claim, entry, failure, ids_of, means, new_job, new_jobs
from conformance.stores.transitions import begin, look, state
from rota.core.decision import decide
from rota.core.lease import Renewal, WorkerId
from rota.core.lifecycle import FINISHED, State
from rota.core.outcome import Lost, Outcome, Released, Succeeded
from rota.core.queue import Queue
from rota.core.submission import Need, Template
from rota.ports.store import JobQuery, Receipt, Store


async def test_two_claimers_never_get_the_same_job(store: Store) -> None:
    await store.insert(new_jobs(100), now=BASE)
    got = await asyncio.gather(*(store.claim(claim(worker, 60), now=BASE) for worker in (ADA, BEN)))
    ids = [job.id for batch in got for job in batch]
    assert len(ids) == len(set(ids)) == 100


async def test_many_claimers_share_all_jobs_without_a_double(store: Store) -> None:
    await store.insert(new_jobs(200), now=BASE)
    workers = [WorkerId(f"w{number}", "boot") for number in range(20)]
    got = await asyncio.gather(*(store.claim(claim(worker, 15), now=BASE) for worker in workers))
    counts = Counter(job.id for batch in got for job in batch)
    assert (len(counts), set(counts.values())) == (200, {1})


async def test_each_of_many_single_inserts_is_answered_for_its_own_job(store: Store) -> None:
    jobs = new_jobs(64)
    answers = await asyncio.gather(*(store.insert([job], now=BASE) for job in jobs))
    assert [answer.job_id for (answer,) in answers] == ids_of(jobs)
    assert {answer.receipt for (answer,) in answers} == {Receipt.CREATED}
    assert (await store.census()).total() == 64


async def test_inserts_at_different_moments_keep_their_own_moments(store: Store) -> None:
    """Requests that are served by one commit must not be given one time."""
    jobs = new_jobs(20)
    await asyncio.gather(*(store.insert([job], now=at(number)) for number, job in enumerate(jobs)))
    assert [job.created_at for job in await store.get(ids_of(jobs))] == [at(number) for number in range(20)]


async def test_a_taken_id_among_concurrent_inserts_hurts_nobody_else(store: Store) -> None:
    taken = new_job()
    await store.insert([taken], now=BASE)
    batches = [[new_job()], [new_job(id=taken.id)], [new_job(), new_job()], [new_job(tags=("t",))]]
    answers = await asyncio.gather(*(store.insert(batch, now=BASE) for batch in batches))
    assert [len(answer) for answer in answers] == [1, 1, 2, 1]
    assert [answer.receipt for (answer,) in (answers[0], answers[1], answers[3])] == [
        Receipt.CREATED,
        Receipt.ID_TAKEN,
        Receipt.CREATED,
    ]


async def test_a_request_that_cannot_be_stored_hurts_nobody_beside_it(store: Store) -> None:
    """Half of a surrogate pair is text to Python and to no database. Whatever becomes of it, the others are served."""
    good, bad = new_jobs(10), new_job(payload='"\ud800"')
    calls = [store.insert([job], now=BASE) for job in (*good[:5], bad, *good[5:])]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    del answers[5]
    assert [answer[0].receipt for answer in answers if not isinstance(answer, BaseException)] == 10 * [Receipt.CREATED]
    assert ids_of(await store.get(ids_of(good))) == ids_of(good)


async def test_one_of_two_settlements_under_one_fence_holds(store: Store) -> None:
    job = new_job(on_success=Template("next"), on_failure=Template("next"))
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    ends = [decide(held, Succeeded(), means()), decide(held, failure(permanent=True), means())] * 5
    answers = await asyncio.gather(*(store.settle([each], now=BASE) for each in ends))
    assert sorted(map(len, answers)) == 9 * [0] + [1]
    assert len(await store.find(JobQuery(types=("next",)))) == 1


@pytest.mark.parametrize("tags", [(), ("rich",)], ids=["plain", "rich"])
@pytest.mark.parametrize("count", [1, 3])
async def test_an_id_that_is_submitted_again_while_its_job_ends_is_taken(
    store: Store, count: int, tags: tuple[str, ...]
) -> None:
    """PostgreSQL stored it once more: the statement looked for the id before the job's end, and stored it after."""
    for _ in range(40):
        jobs = new_jobs(count, tags=tags)
        await store.insert(jobs, now=BASE)
        held = await store.claim(claim(ADA), now=BASE)
        calls = [store.insert(jobs, now=BASE) for _ in range(3)]
        settling = asyncio.ensure_future(store.settle([decide(job, Succeeded(), means()) for job in held], now=BASE))
        answers = await asyncio.gather(*calls)
        await settling
        assert {one.receipt for answer in answers for one in answer} == {Receipt.ID_TAKEN}
        assert not await store.claim(claim(BEN), now=BASE)


async def test_a_settlement_and_the_reaper_do_not_both_end_an_attempt(store: Store) -> None:
    jobs = new_jobs(20)
    await store.insert(jobs, now=BASE)
    held = await store.claim(claim(ADA), now=BASE)
    moves = [decide(job, outcome, means()) for job in held for outcome in (Succeeded(), Lost())]
    answers = await asyncio.gather(*(store.settle([move], now=at(60)) for move in moves))
    assert Counter(job_id for answer in answers for job_id in answer) == dict.fromkeys(ids_of(jobs), 1)


async def test_a_cancel_racing_a_settlement_leaves_a_job_that_ended_or_is_marked(store: Store) -> None:
    """Either order is right; a job that goes back to the queue unmarked after a yes to the cancel is not."""
    jobs = new_jobs(20)
    await store.insert(jobs, now=BASE)
    held = await store.claim(claim(ADA), now=BASE)
    releases = [store.settle([decide(job, Released(), means())], now=BASE) for job in held]
    asks = [store.ask_cancel([(job.id, job.fence)], now=BASE) for job in held]
    asked = (await asyncio.gather(*releases, *asks))[20:]
    for job, marked in zip(held, asked, strict=True):
        after_it = await look(store, job)
        expected = (State.RUNNING, True) if marked else (State.PENDING, False)
        assert (after_it.state, after_it.cancel_requested_at is not None) == expected


async def test_a_renewal_racing_a_settlement_never_revives_a_lease(store: Store) -> None:
    jobs = new_jobs(20)
    await store.insert(jobs, now=BASE)
    held = await store.claim(claim(ADA), now=BASE)
    settling = [store.settle([decide(job, Succeeded(), means())], now=BASE) for job in held]
    renewing = [store.renew([Renewal(job.id, job.fence)], now=BASE) for job in held]
    await asyncio.gather(*renewing, *settling)
    assert {(job.state, job.lease_until) for job in await store.get(ids_of(jobs))} == {(State.COMPLETED, None)}


async def test_each_of_many_renewals_is_answered_for_its_own_lease(store: Store) -> None:
    jobs = new_jobs(20)
    await store.insert(jobs, now=BASE)
    held = await store.claim(claim(ADA), now=BASE)
    await store.settle([decide(held[3], Lost(), means())], now=BASE)
    answers = await asyncio.gather(*(store.renew([Renewal(job.id, job.fence)], now=BASE) for job in held))
    assert [[one.job_id for one in answer] for answer in answers] == [
        [] if number == 3 else [job.id] for number, job in enumerate(held)
    ]


async def test_parents_that_end_concurrently_release_their_child_once(store: Store) -> None:
    parents = new_jobs(30)
    child = new_job(after=after(*parents, need=Need.END))
    await store.insert([*parents, child], now=BASE)
    held = await store.claim(claim(ADA), now=BASE)
    outcomes: list[Outcome] = [Succeeded(), failure(permanent=True)] * 15
    await asyncio.gather(
        *(store.settle([decide(job, outcome, means())], now=BASE) for job, outcome in zip(held, outcomes, strict=True))
    )
    released = await look(store, child)
    assert (released.state, released.blockers) == (State.PENDING, 0)


async def test_a_child_submitted_while_its_parent_ends_is_never_stranded(store: Store) -> None:
    parents = new_jobs(30)
    await store.insert(parents, now=BASE)
    held = await store.claim(claim(ADA), now=BASE)
    children = [new_job(after=after(parent)) for parent in parents]
    await asyncio.gather(
        *(store.settle([decide(job, Succeeded(), means())], now=BASE) for job in held),
        *(store.insert([child], now=BASE) for child in children),
    )
    assert {job.state for job in await store.get(ids_of(children))} == {State.PENDING}


async def test_one_of_many_writers_of_a_version_wins(store: Store) -> None:
    answers = await asyncio.gather(
        *(store.put_queue(Queue("q", max_depth=depth), entry=entry(), now=BASE) for depth in range(10))
    )
    assert sorted(answers) == 9 * [False] + [True]
    assert len(await store.ledger()) == 1


async def test_one_of_many_candidates_leads(store: Store) -> None:
    span = at(10) - BASE
    leads = await asyncio.gather(*(store.lead("upkeep", f"node-{number}", span, now=BASE) for number in range(10)))
    assert len({lead.holder for lead in leads}) == 1


async def test_one_of_many_intents_is_new(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    held = await begin(store, job)
    answers = await asyncio.gather(*(store.intend(job.id, held.fence, "charge", now=BASE) for _ in range(10)))
    assert Counter(answer[1] for answer in answers if answer is not None) == {True: 1, False: 9}


async def test_the_same_claim_sent_twice_at_once_leases_jobs_once(store: Store) -> None:
    await store.insert(new_jobs(10), now=BASE)
    first, second = await asyncio.gather(*(store.claim(claim(ADA, 4, claim_id="c"), now=BASE) for _ in range(2)))
    assert first == second
    assert (await store.census()).total(State.RUNNING) == 4


async def test_a_call_that_is_given_up_by_its_caller_leaves_the_store_usable(store: Store) -> None:
    """A client disconnects: its request may or may not have taken effect, and others are not affected."""
    calls = [asyncio.ensure_future(store.insert([new_job()], now=BASE)) for _ in range(20)]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    kept = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert len(kept) >= 10
    assert (await store.census()).total() >= 10
    assert await store.check() == []


async def test_readers_never_see_half_of_a_batch(store: Store) -> None:
    """Each call is one transaction: a batch of ten is there or not."""

    async def count() -> int:
        return (await store.census()).total()

    writes = [store.insert(new_jobs(10, tags=("t",)), now=BASE) for _ in range(10)]
    seen = await asyncio.gather(*(call for write in writes for call in (write, count())))
    assert {total % 10 for total in seen[1::2] if isinstance(total, int)} == {0}


async def test_every_job_of_a_crowd_ends_once(store: Store) -> None:
    """Insert, claim, settle, reap and cancel all at once; afterwards the books balance."""
    await store.insert(new_jobs(60, max_attempts=1), now=BASE)

    async def work(name: str) -> int:
        ended = 0
        while held := await store.claim(claim(WorkerId(name, "b"), 5), now=BASE):
            for job in held:
                ended += len(await store.settle([decide(job, Succeeded(), means())], now=BASE))
        return ended

    async def reap() -> int:
        lost = await store.lost(20, now=at(3600))
        return len(await store.settle([decide(job, Lost(), means(at(3600))) for job in lost], now=at(3600)))

    ended = await asyncio.gather(work("a"), reap(), work("b"), reap(), work("c"), reap(), work("d"), reap())
    assert sum(ended) == 60
    assert (await store.census()).total(*FINISHED) == 60


async def test_a_state_that_was_answered_is_the_state_that_is_read(store: Store) -> None:
    """Read your writes: what a call has answered, the next call sees."""
    for _ in range(30):
        job = new_job()
        await store.insert([job], now=BASE)
        assert await state(store, job) is State.PENDING
