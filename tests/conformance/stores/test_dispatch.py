from __future__ import annotations

import asyncio

from builders import ADA, BASE, MICROSECOND, SECOND, at, claim, ids_of, new_job, new_jobs
from conformance.stores.transitions import begin, call_off, look, state
from rota.core.lifecycle import State
from rota.core.queue import Lane, Queue
from rota.core.submission import NewJob
from rota.ports.store import Dispatched, Store

MAIL = Lane("default", "mail")
ROOM = {MAIL: 100}


def standing(*jobs: NewJob) -> list[Dispatched]:
    return [Dispatched(job.id, Lane(job.queue, job.type), job.priority) for job in jobs]


async def test_a_due_job_is_dispatched_and_is_queued_then(store: Store) -> None:
    job = new_job(priority=7)
    await store.insert([job], now=BASE)
    assert await store.dispatch(ROOM, now=at(1)) == standing(job)
    queued = await look(store, job)
    assert (queued.state, queued.updated_at, queued.fence, queued.attempts) == (State.QUEUED, at(1), 0, 0)


async def test_a_dispatched_job_is_not_dispatched_again(store: Store) -> None:
    await store.insert([new_job()], now=BASE)
    await store.dispatch(ROOM, now=BASE)
    assert await store.dispatch(ROOM, now=BASE) == []


async def test_no_more_are_dispatched_than_there_is_room_for_and_the_most_urgent_first(store: Store) -> None:
    jobs = [new_job(priority=priority) for priority in (1, 10, 5, 7)]
    await store.insert(jobs, now=BASE)
    assert await store.dispatch({MAIL: 2}, now=BASE) == standing(jobs[1], jobs[3])
    assert await state(store, jobs[0]) is State.PENDING


async def test_each_lane_has_its_own_room_and_lanes_not_named_have_none(store: Store) -> None:
    mails, texts = new_jobs(3), new_jobs(3, "text", queue="other")
    await store.insert([*mails, *texts, new_job("unknown")], now=BASE)
    room = {Lane("other", "text"): 1, MAIL: 2, Lane("default", "none"): 5}
    assert await store.dispatch(room, now=BASE) == standing(texts[0], *mails[:2])


async def test_no_room_at_all_dispatches_nothing(store: Store) -> None:
    await store.insert([new_job()], now=BASE)
    assert await store.dispatch({}, now=BASE) == []
    assert await store.dispatch({MAIL: 0}, now=BASE) == []


async def test_nothing_is_dispatched_before_its_time_or_after_it(store: Store) -> None:
    later, late = new_job(run_at=at(5)), new_job(expires_at=at(5))
    await store.insert([later, late], now=BASE)
    assert await store.dispatch(ROOM, now=at(5)) == []
    await store.promote(10, now=at(5))
    assert await store.dispatch(ROOM, now=at(5)) == standing(later)


async def test_a_paused_queue_is_not_dispatched_until_its_pause_is_over(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    await store.put_queue(Queue("default", paused_at=BASE, resume_at=at(5)), now=BASE)
    assert await store.dispatch(ROOM, now=at(4)) == []
    assert await store.dispatch(ROOM, now=at(5)) == standing(job)


async def test_a_queued_job_is_claimed_by_its_id_alone(store: Store) -> None:
    job = new_job()
    await store.insert([job], now=BASE)
    await store.dispatch(ROOM, now=BASE)
    assert await store.claim(claim(), now=BASE) == []
    (held,) = await store.claim(claim(ids=(job.id,)), now=BASE)
    assert (held.id, held.state, held.fence) == (job.id, State.RUNNING, 1)


async def test_a_recalled_job_is_pending_in_its_old_turn(store: Store) -> None:
    first, second = new_jobs(2)
    await store.insert([first, second], now=BASE)
    await store.dispatch({MAIL: 1}, now=BASE)
    assert await store.recall([first.id], now=at(9)) == [first.id]
    assert (await look(store, first)).updated_at == at(9)
    assert ids_of(await store.claim(claim(), now=at(9))) == [first.id, second.id]


async def test_only_queued_jobs_are_recalled(store: Store) -> None:
    running, ended, pending, queued = jobs = new_jobs(4)
    await store.insert(jobs, now=BASE)
    await store.dispatch(ROOM, now=BASE)
    held = await begin(store, running)
    await call_off(store, ended)
    await store.recall([pending.id], now=BASE)
    before = [await look(store, job) for job in (running, ended, pending)]
    unknown = new_job().id
    ids = [unknown, queued.id, running.id, ended.id, queued.id, pending.id]
    assert await store.recall(ids, now=at(1)) == [queued.id]
    assert [await look(store, job) for job in (running, ended, pending)] == before
    assert await store.recall([], now=at(1)) == []
    assert (await look(store, held)).fence == held.fence


async def test_a_second_handing_over_is_refused_once_the_job_runs(store: Store) -> None:
    """The entry was there all along, and the job was dispatched again: the fence makes the second one harmless."""
    job = new_job()
    await store.insert([job], now=BASE)
    await store.dispatch(ROOM, now=BASE)
    await store.recall([job.id], now=BASE)
    await store.dispatch(ROOM, now=BASE)
    held = await begin(store, job)
    assert await store.claim(claim(ids=(job.id,)), now=BASE) == []
    assert (await look(store, job)).fence == held.fence


async def test_queued_jobs_are_given_by_id_page_by_page_once_they_are_so_for_long_enough(store: Store) -> None:
    jobs = new_jobs(3)
    await store.insert([*jobs, new_job(queue="pending")], now=BASE)
    await store.dispatch(ROOM, now=at(1))
    assert await store.queued(10, since=SECOND, now=at(2) - MICROSECOND) == []
    assert await store.queued(2, since=SECOND, now=at(2)) == standing(*jobs[:2])
    assert await store.queued(2, after=jobs[1].id, now=at(2)) == standing(jobs[2])
    await begin(store, jobs[0], at(2))
    assert await store.queued(10, now=at(2)) == standing(*jobs[1:])


async def test_a_queued_job_still_expires_and_can_be_cancelled(store: Store) -> None:
    cancelled, late = new_job(), new_job(expires_at=at(5))
    await store.insert([cancelled, late], now=BASE)
    await store.dispatch(ROOM, now=BASE)
    await call_off(store, cancelled)
    assert ids_of(await store.expired(10, now=at(5))) == [late.id]
    assert await store.claim(claim(ids=(cancelled.id, late.id)), now=at(5)) == []


async def test_concurrent_dispatch_recall_and_claim_take_each_job_once(store: Store) -> None:
    jobs = new_jobs(60)
    await store.insert(jobs, now=BASE)
    started: list[int] = []

    async def carry(number: int) -> None:
        for _ in range(6):
            made = [one.job_id for one in await store.dispatch({MAIL: 7}, now=BASE)]
            if number % 2:
                await store.recall(made[:3], now=BASE)
            started.extend(ids_of(await store.claim(claim(ADA, 100, ids=tuple(made)), now=BASE)))

    await asyncio.gather(*map(carry, range(4)))
    await store.recall(ids_of(jobs), now=BASE)
    started += ids_of(await store.claim(claim(), now=BASE))
    assert sorted(started) == sorted(ids_of(jobs))
