"""Obligations of the broker on Redis Streams beyond those of every broker."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from brokers.redis_environment import TYPES, RedisEnvironment, finish, take, until
from builders import BEN, claim, new_jobs
from rota.brokers.redis_streams import dispatch, reader
from rota.brokers.redis_streams.dispatch import WINDOW
from rota.core.errors import StoreUnavailable
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.queue import Lane
from rota.engine import Engine
from rota.engine import dispatch as auditing
from rota.ports.client import Actor
from rota.ports.store import Dispatched
from rota.scheduler.dispatcher import Dispatcher

MAIL = Lane("default", "mail")


async def attended(env: RedisEnvironment) -> None:
    """Take jobs from the lane, so that it has capacity."""
    broker = await env.broker()
    await broker.take(("default",), TYPES, 1)


async def test_ids_and_nothing_else_stand_in_a_stream_for_each_band(env: RedisEnvironment) -> None:
    dispatching = await env.engine()
    await attended(env)
    jobs = [job for priority in (1, 3, 4, 6, 7, 10) for job in await env.submit(1, priority=priority)]
    assert await env.dispatch(dispatching) == 6
    found = {band: env.server.ask("XRANGE", env.key(band), "-", "+") for band in ("low", "normal", "high")}
    answer = {band: [fields for _, fields in entries] for band, entries in found.items()}
    assert answer == {
        "low": [{"id": str(jobs[1].id)}, {"id": str(jobs[0].id)}],
        "normal": [{"id": str(jobs[3].id)}, {"id": str(jobs[2].id)}],
        "high": [{"id": str(jobs[5].id)}, {"id": str(jobs[4].id)}],
    }


async def test_the_urgent_bands_are_served_first(env: RedisEnvironment) -> None:
    dispatching, worker = await env.engine(), await env.engine()
    await attended(env)
    for priority in (1, 5, 9):
        await env.submit(2, priority=priority)
    await env.dispatch(dispatching)
    assert [job.priority for job in await take(worker, 3)] == [9, 9, 5]


async def test_no_lane_starves_another_because_it_is_named_first(env: RedisEnvironment) -> None:
    dispatching, worker = await env.engine(), await env.broker()
    types = ("mail", "text")
    await worker.take(("default",), types, 1)
    mails = {job.id for job in await env.submit(60)}
    await env.submit(60, job_type="text")
    await env.dispatch(dispatching)
    taken = [job_id for _ in range(50) for job_id in await worker.take(("default",), types, 1) or ()]
    assert len(taken) == 50
    assert {job_id in mails for job_id in taken} == {True, False}


async def test_no_more_are_dispatched_than_the_window_is_wide(env: RedisEnvironment) -> None:
    dispatching = await env.engine()
    await attended(env)
    await env.submit(WINDOW + 50)
    assert await env.dispatch(dispatching) == WINDOW
    assert await env.dispatch(dispatching) == 0
    worker = await env.engine()
    held = await take(worker, 20)
    assert await env.dispatch(dispatching) == 20
    await finish(worker, held)
    assert await env.dispatch(dispatching) == 0


async def test_an_urgent_job_finds_its_place_although_the_line_of_the_others_is_full(env: RedisEnvironment) -> None:
    dispatching, worker = await env.engine(), await env.engine()
    await attended(env)
    await env.submit(WINDOW + 50, priority=2)

    async def high() -> int:
        await env.dispatch(dispatching)
        return env.entries("high")

    # A subscriber waits, so that the lane is kept; no job is taken.
    with worker.broker.subscribe(("default",), TYPES):
        await high()
        await env.submit(20, priority=9)
        await until(high, lambda count: count == 20)
        assert env.entries("low") == WINDOW
        # Jobs beyond the capacity wait in the store.
        assert await env.count(State.PENDING) == 50
        assert {job.priority for job in await take(worker, 20)} == {9}


async def test_a_lane_that_nobody_reads_is_not_dispatched_and_hides_no_other(env: RedisEnvironment) -> None:
    dispatching = await env.engine()
    await attended(env)
    await env.submit(5, job_type="unknown")
    await env.submit(1)
    assert await env.dispatch(dispatching) == 1
    assert await env.count(State.PENDING) == 5


async def test_a_claim_that_waits_keeps_its_own_lanes_and_no_others(
    env: RedisEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lane without readers must not be filled because of a subscriber to another type of its queue."""
    monkeypatch.setattr(reader, "READ_SECONDS", 0.3)
    monkeypatch.setattr(dispatch, "REGISTERED_SECONDS", 3.0)
    dispatching, node = await env.engine(), await env.engine()
    await node.claim(claim(types=("text",)), wait=timedelta(0))
    env.tasks.append(asyncio.create_task(wait_for_ever(node)))

    async def lanes() -> set[Lane]:
        return set(await env.dispatch_queue(dispatching).room())

    await until(lanes, lambda found: Lane("default", "text") in found)
    await until(lanes, lambda found: found == {MAIL})


async def wait_for_ever(node: Engine) -> None:
    await node.claim(claim(BEN, types=TYPES), wait=timedelta(seconds=600))


async def test_a_leased_job_leaves_the_stream_whichever_process_settles_it(env: RedisEnvironment) -> None:
    dispatching, worker, other = await env.engine(), await env.engine(), await env.engine()
    await attended(env)
    await env.submit(3)
    await env.dispatch(dispatching)
    held = await take(worker)
    assert len(held) == 3

    async def left() -> tuple[int, int]:
        return env.entries(), env.server.ask("XPENDING", env.key(), "workers")["pending"]

    await until(left, lambda counts: counts == (0, 0))
    assert len(await finish(other, held)) == 3


async def test_what_can_be_had_is_found_behind_what_cannot(env: RedisEnvironment) -> None:
    dispatching, worker = await env.engine(), await env.engine()
    await attended(env)
    gone = [job.id for job in await env.submit(7)]
    (job,) = await env.submit(1)
    await env.dispatch(dispatching)
    await dispatching.cancel(gone, Actor("olga"))
    # Without a wait and without a wake-up.
    (held,) = await worker.claim(claim(limit=2, types=TYPES), wait=timedelta(0))
    assert held.id == job.id


async def test_a_job_that_is_refused_again_and_again_does_not_keep_a_claim_busy(
    env: RedisEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await env.engine()
    job_id = new_jobs(1)[0].id
    takes: list[int] = []

    async def take_the_same(*_: object) -> list[int]:
        takes.append(job_id)
        return [job_id]

    monkeypatch.setattr(worker.broker, "take", take_the_same)
    assert not await worker.claim(claim(types=TYPES), wait=timedelta(0))
    assert len(takes) == 2


async def test_what_is_taken_over_comes_on_top_and_nothing_of_it_is_lost(
    env: RedisEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatching, dead = await env.engine(), await env.broker()
    await attended(env)
    await env.submit(3)
    await env.dispatch(dispatching)
    assert await dead.take(("default",), TYPES, 3)
    fresh = await env.submit(2)
    await env.dispatch(dispatching)
    monkeypatch.setattr(reader, "STALLED_SECONDS", 0.0)
    worker = await env.engine()
    held = list(await take(worker, 2))
    assert [job.id for job in held] == [job.id for job in fresh]

    async def all_of_them() -> int:
        held.extend(await worker.claim(claim(limit=2, types=TYPES), wait=timedelta(0)))
        return len(held)

    await until(all_of_them, lambda count: count == 5)


async def test_an_entry_whose_job_is_gone_or_not_to_be_had_is_acknowledged_at_once(env: RedisEnvironment) -> None:
    dispatching, worker = await env.engine(), await env.engine()
    await attended(env)
    cancelled, paused = await env.submit(2)
    await env.dispatch(dispatching)
    gone = new_jobs(1)[0].id
    await env.dispatch_queue(dispatching).hand_over([Dispatched(gone, MAIL, 5)])
    await dispatching.cancel([cancelled.id], Actor("olga"))
    await dispatching.queues.pause("default", "repairs", Actor("olga"))
    assert not await worker.claim(claim(types=TYPES), wait=timedelta(0))

    async def entries() -> int:
        return env.entries()

    await until(entries, lambda count: count == 0)
    # What the store refused is not lost: it waits there, and is not dispatched while its queue is paused.
    (job,) = await env.store.get([paused.id])
    assert job.state is State.PENDING
    assert await env.dispatch(dispatching) == 0


async def test_a_dead_readers_entries_are_taken_over(env: RedisEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "STALLED_SECONDS", 0.05)
    monkeypatch.setattr(reader, "TAKE_OVER_SECONDS", 0.01)
    dispatching, other = await env.engine(), await env.engine()
    await attended(env)
    jobs = await env.submit(3)
    await env.dispatch(dispatching)
    dead = await env.broker()
    ids = await dead.take(("default",), TYPES, 10)
    assert ids is not None
    assert len(ids) == 3

    async def found() -> set[int]:
        held.update(job.id for job in await other.claim(claim(BEN, types=TYPES), wait=timedelta(0)))
        return held

    held: set[int] = set()
    await until(found, lambda ids: len(ids) == 3)
    assert held == {job.id for job in jobs}


async def test_where_a_line_is_too_long_to_go_through_what_was_queued_for_long_is_dispatched_again(
    env: RedisEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program has filled the stream, or a dead reader holds very many: no job may be queued for ever."""
    monkeypatch.setattr(dispatch, "MOST_AUDITED", 3)
    monkeypatch.setattr(auditing, "GRACE", timedelta(0))
    dispatching = await env.engine()
    await attended(env)
    (job,) = await env.submit(1)
    await env.dispatch(dispatching)
    env.server.ask("XTRIM", env.key(), "MAXLEN", 0)
    await env.dispatch_queue(dispatching).hand_over([Dispatched(one.id, MAIL, 5) for one in new_jobs(4)])
    assert await dispatching.dispatch.audit(env.dispatch_queue(dispatching)) == 0
    monkeypatch.setattr(auditing, "LONGEST", timedelta(milliseconds=1))

    async def recalled() -> int:
        return await dispatching.dispatch.audit(env.dispatch_queue(dispatching))

    assert await until(recalled, bool) == 1
    assert [one.state for one in await env.store.get([job.id])] == [State.PENDING]


@pytest.mark.parametrize("loss", ["entry", "stream", "everything", "never written"])
async def test_a_dispatched_job_that_redis_has_lost_is_dispatched_again_and_runs_once(
    env: RedisEnvironment, monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    """A failover loses the last writes, and a dispatcher may die before the first: the store has the queued jobs."""
    monkeypatch.setattr(auditing, "GRACE", timedelta(0))
    dispatching, worker = await env.engine(), await env.engine()
    await attended(env)
    jobs = await env.submit(3)
    if loss == "never written":
        monkeypatch.setattr(dispatch.StreamDispatch, "_add", _lost)
    assert await env.dispatch(dispatching) == 3
    monkeypatch.undo()
    monkeypatch.setattr(auditing, "GRACE", timedelta(0))
    match loss:
        case "entry":
            ((entry, _), *_) = env.server.ask("XRANGE", env.key(), "-", "+")
            env.server.ask("XDEL", env.key(), entry)
        case "stream":
            env.server.ask("DEL", env.key())
        case "everything":
            env.server.ask("DEL", *env.server.ask("KEYS", f"{env.stream}:*"))
    assert await dispatching.dispatch.audit(env.dispatch_queue(dispatching)) == (1 if loss == "entry" else 3)
    if loss == "everything":
        # The readers of the lane are forgotten too, until one takes from it again.
        await attended(env)
    held: list[Job] = []
    await env.dispatch(dispatching)
    while len(held) < len(jobs):
        held += await take(worker, 3)
        await env.dispatch(dispatching)
    assert sorted((job.id, job.fence) for job in held) == sorted((job.id, 1) for job in jobs)


async def _lost(*_: object) -> None:
    """Write nothing, and say nothing of it."""


async def test_what_is_handed_over_twice_runs_once(env: RedisEnvironment) -> None:
    dispatching, worker = await env.engine(), await env.engine()
    await attended(env)
    (job,) = await env.submit(1)
    await env.dispatch(dispatching)
    await env.dispatch_queue(dispatching).hand_over([Dispatched(job.id, MAIL, 5)] * 3)
    held = await take(worker, 1)
    assert [one.id for one in held] == [job.id]
    assert not await worker.claim(claim(BEN, types=TYPES), wait=timedelta(milliseconds=50))
    await finish(worker, held)
    (done,) = await env.store.get([job.id])
    assert (done.state, done.fence) == (State.COMPLETED, 1)


async def test_ids_that_could_not_be_tried_are_handed_over_again(
    env: RedisEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatching, worker = await env.engine(), await env.engine()
    await attended(env)
    (job,) = await env.submit(1)
    await env.dispatch(dispatching)

    async def refuse(*_: object, **__: object) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(type(env.store), "claim", refuse)
        with pytest.raises(StoreUnavailable):
            await worker.claim(claim(types=TYPES))
    (held,) = await take(worker)
    assert held.id == job.id


async def test_ids_on_their_way_to_a_cancelled_caller_are_kept(env: RedisEnvironment) -> None:
    dispatching, broker = await env.engine(), await env.broker()
    await attended(env)
    (job,) = await env.submit(1)
    await env.dispatch(dispatching)
    taking = asyncio.create_task(broker.take(("default",), TYPES, 5))
    await asyncio.sleep(0)
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)

    async def taken() -> list[int]:
        return list(await broker.take(("default",), TYPES, 5) or ())

    assert await until(taken, bool) == [job.id]


async def test_a_consumer_that_leaves_is_deleted_only_if_nothing_is_with_it(env: RedisEnvironment) -> None:
    dispatching = await env.engine()
    await attended(env)
    await env.submit(1)
    await env.dispatch(dispatching)
    holding = await env.broker()
    assert await holding.take(("default",), TYPES, 1)
    await holding.close()
    env.opened.remove(holding)
    assert env.server.ask("XPENDING", env.key(), "workers")["pending"] == 1
    consumers = env.server.ask("XINFO", "CONSUMERS", env.key(), "workers")
    assert [one["pending"] for one in consumers if one["pending"]] == [1]


async def test_a_claim_repeated_at_another_node_gets_its_answer_although_the_lines_are_empty(
    env: RedisEnvironment,
) -> None:
    await env.dispatching()
    here, there = await env.engine(), await env.engine()
    wanted = claim(limit=2, types=TYPES, claim_id="question-1")
    await env.submit(2)
    first = await here.claim(wanted, wait=timedelta(seconds=30))
    assert first
    rest = 2 - len(first)
    while rest:
        rest -= len(await take(here, 2, BEN))

    async def does_not_ask_the_store() -> bool:
        return await there.broker.take(("default",), TYPES, 2) is not None

    # It has queried the store within this second, and is notified that the streams are filled.
    await until(does_not_ask_the_store, bool)
    assert await there.claim(wanted, wait=timedelta(0)) == first


async def test_a_claim_of_every_type_goes_to_the_store(env: RedisEnvironment) -> None:
    broker = await env.broker()
    assert await broker.take(("default",), None, 5) is None


async def test_two_dispatchers_at_once_hand_each_job_over_and_none_is_lost(env: RedisEnvironment) -> None:
    await env.dispatching()
    await env.dispatching()
    worker = await env.engine()
    jobs = await env.submit(600)
    done: list[int] = []
    async with asyncio.timeout(60):
        while len(done) < len(jobs):
            done += await finish(worker, await take(worker, 50))
    assert sorted(done) == sorted(job.id for job in jobs)


async def test_a_follower_does_not_dispatch_and_workers_are_not_left_waiting(env: RedisEnvironment) -> None:
    idle = await env.engine()
    env.tasks.append(asyncio.create_task(Dispatcher(idle, stands_by=lambda: True).run()))
    worker = await env.engine()
    (job,) = await env.submit(1)
    (held,) = await take(worker)
    # From the store itself: no dispatcher fills the streams.
    assert held.id == job.id
    assert env.server.ask("EXISTS", env.key()) == 0
