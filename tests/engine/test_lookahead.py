"""Claims that wait and look ahead: when they query the store, and for what. In virtual time, without a promoter."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, cast

from builders import BASE, MINUTE, SECOND, claim, fresh_id, ids_of, new_job
from engine.environment import FaultyStore, in_virtual_time
from rota.brokers.in_store import InStoreBroker
from rota.core.job import Job
from rota.core.lease import AHEAD
from rota.engine import Engine


class Place:
    """An engine on a store whose clock is the loop's, and how tests speak to it."""

    def __init__(self, engine: Engine, faulty_store: FaultyStore) -> None:
        self.engine = engine
        self.faulty_store = faulty_store

    @staticmethod
    def seconds() -> float:
        return asyncio.get_running_loop().time()

    def ask(self, *, wait: timedelta = MINUTE, **fields: Any) -> asyncio.Task[Sequence[Job]]:  # noqa: ANN401 - a claim's
        wanted = claim(**{"ahead": AHEAD, "claim_id": str(fresh_id()), "is_new": True, **fields})
        return asyncio.create_task(self.engine.leases.claim(wanted, wait=wait))

    async def submit(self, seconds: float, **fields: Any) -> Any:  # noqa: ANN401 - any field of a job
        job = new_job(run_at=BASE + timedelta(seconds=seconds), **fields)
        await self.engine.submit([job])
        return job


def played(act: Callable[[Place], Awaitable[None]], broker_type: type[InStoreBroker] = InStoreBroker) -> None:
    """Let a test happen in virtual time."""
    in_virtual_time(lambda engine, faulty_store: act(Place(engine, faulty_store)), FaultyStore, broker_type)


async def ended(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def test_a_waiting_claim_gets_a_job_shortly_before_its_time() -> None:
    async def act(place: Place) -> None:
        job = await place.submit(10)
        (held,) = await place.ask()
        assert held.id == job.id
        assert held.is_ahead
        assert 9.9 <= place.seconds() < 9.92

    played(act)


def test_a_job_that_is_submitted_while_a_claim_waits_is_foreseen_too() -> None:
    async def act(place: Place) -> None:
        later, waiting = await place.submit(30), place.ask()
        await asyncio.sleep(5)
        job = await place.submit(6)
        assert ids_of(await waiting) == [job.id]
        assert 5.9 <= place.seconds() < 5.92
        assert ids_of(await place.ask()) == [later.id]

    played(act)


def test_nothing_but_the_timetable_is_asked_for_while_nothing_comes_up() -> None:
    """An idle worker costs the store a few looks in a minute, and no claim but its first."""

    async def act(place: Place) -> None:
        await place.submit(3600)
        place.faulty_store.calls.clear()
        assert not await place.ask(wait=60 * SECOND)
        assert place.faulty_store.calls.count("claim") == 1
        assert place.faulty_store.calls.count("timetable") <= 7

    played(act)


async def looked_at_all_the_time(place: Place) -> None:
    """Read the timetable as a scheduler in the same process does."""
    while True:
        await asyncio.sleep(5)
        await place.engine.upkeep.timetable()


def test_what_a_scheduler_in_the_same_process_reads_is_not_read_again() -> None:
    async def act(place: Place) -> None:
        looking = asyncio.create_task(looked_at_all_the_time(place))
        waiting = place.ask(wait=60 * SECOND)
        await asyncio.sleep(1)
        place.faulty_store.calls.clear()
        assert not await waiting
        assert place.faulty_store.calls.count("timetable") <= 60 / 5, "the scheduler's looks, and no others"
        await ended(looking)

    played(act)


def test_what_nobody_told_of_and_a_scheduler_has_read_is_claimed_ahead_too() -> None:
    async def act(place: Place) -> None:
        looking = asyncio.create_task(looked_at_all_the_time(place))
        waiting = place.ask()
        await asyncio.sleep(1)
        job = new_job(run_at=BASE + 30 * SECOND)
        await place.faulty_store.insert([job])
        (held,) = await waiting
        assert held.id == job.id
        assert held.is_ahead
        await ended(looking)

    played(act)


def test_a_look_that_was_made_before_a_job_was_written_does_not_hide_it() -> None:
    """The answer to an earlier question may come after that to a later one."""

    async def act(place: Place) -> None:
        waiting = place.ask()
        await asyncio.sleep(1)
        before = await place.faulty_store.timetable()
        job = await place.submit(10)
        await asyncio.sleep(2)
        place.engine.leases.lookahead.observe(before)
        (held,) = await waiting
        assert held.id == job.id
        assert held.is_ahead
        assert 9.9 <= place.seconds() < 9.92

    played(act)


def test_a_claim_that_does_not_look_ahead_asks_for_no_timetable_and_gets_nothing_early() -> None:
    async def act(place: Place) -> None:
        await place.submit(10)
        place.faulty_store.calls.clear()
        assert not await place.ask(ahead=timedelta(0), wait=20 * SECOND)
        assert "timetable" not in place.faulty_store.calls

    played(act)


def test_where_a_broker_hands_jobs_over_nothing_is_claimed_ahead() -> None:
    class Carrying(InStoreBroker):
        dispatch_queue = cast("Any", object())

    async def act(place: Place) -> None:
        await place.submit(10)
        assert not await place.ask(wait=20 * SECOND)
        assert "timetable" not in place.faulty_store.calls

    played(act, Carrying)


def test_what_comes_up_for_others_keeps_nobody_busy() -> None:
    async def act(place: Place) -> None:
        for number in range(1, 1001):
            await place.submit(10 + number / 100, queue="other")
        place.faulty_store.calls.clear()
        assert not await place.ask(wait=20 * SECOND)
        # Ten seconds of jobs that come up one after the other.
        assert place.faulty_store.calls.count("claim") <= 10 + 6
        assert place.faulty_store.calls.count("timetable") <= 2 * 10 + 6

    played(act)


def test_a_stream_of_jobs_for_others_costs_a_look_a_second() -> None:
    async def act(place: Place) -> None:
        waiting = place.ask(wait=20 * SECOND)
        for _ in range(2000):
            await place.submit(place.seconds() + 0.3, queue="other")
            await asyncio.sleep(0.01)
            await place.engine.upkeep.promote(10)
        assert not await waiting
        assert place.faulty_store.calls.count("claim") <= 20 + 6
        assert place.faulty_store.calls.count("timetable") <= 3 * 20

    played(act)


def test_what_comes_up_for_us_after_a_stream_for_others_is_foreseen_again() -> None:
    async def act(place: Place) -> None:
        job = await place.submit(10)
        waiting = place.ask()
        for _ in range(500):
            await place.submit(place.seconds() + 0.3, queue="other")
            await asyncio.sleep(0.01)
            await place.engine.upkeep.promote(10)
        await asyncio.sleep(1)
        await place.engine.upkeep.promote(1000)
        (held,) = await waiting
        assert held.id == job.id
        assert held.is_ahead

    played(act)


def test_what_nobody_promotes_is_looked_at_less_and_less_often() -> None:
    async def act(place: Place) -> None:
        await place.submit(1, queue="other")
        assert not await place.ask(wait=60 * SECOND)
        assert place.faulty_store.calls.count("timetable") <= 60 + 10
        assert place.faulty_store.calls.count("claim") <= 5

    played(act)


def test_however_often_somebody_writes_into_the_timetable_it_is_read_ten_times_a_second() -> None:
    async def act(place: Place) -> None:
        waiting = place.ask(wait=10 * SECOND)
        for number in range(1000):
            await place.submit(3600 + number, queue="other")
            await asyncio.sleep(0.01)
        assert not await waiting
        assert place.faulty_store.calls.count("timetable") <= 10 * 10 + 2
        assert place.faulty_store.calls.count("claim") == 1

    played(act)


def test_one_after_the_other_is_claimed_ahead_with_half_the_lead_at_least() -> None:
    async def act(place: Place) -> None:
        jobs = [await place.submit(10 + number / 50) for number in range(200)]
        leads: list[float] = []
        while len(leads) < len(jobs):
            for job in await place.ask():
                assert job.is_ahead
                leads.append((job.run_at - BASE).total_seconds() - place.seconds())
        assert min(leads) > AHEAD.total_seconds() / 3
        assert place.faulty_store.calls.count("claim") < len(jobs)

    played(act)


def test_a_timetable_that_cannot_be_read_only_makes_jobs_late() -> None:
    async def act(place: Place) -> None:
        await place.submit(5)
        place.faulty_store.cut("timetable")
        waiting = place.ask(wait=20 * SECOND)
        await asyncio.sleep(6)
        assert not waiting.done()
        assert await place.engine.upkeep.promote(10) == 1
        assert len(await waiting) == 1

    played(act)


def test_a_question_that_is_repeated_may_look_ahead_again() -> None:
    """Its first copy may still be on its way, and would lease jobs that no worker receives."""

    async def act(place: Place) -> None:
        job = await place.submit(0.05)
        (held,) = await place.ask(is_new=False, wait=timedelta(0))
        assert held.id == job.id
        assert not await place.ask(is_new=True, wait=timedelta(0))

    played(act)


def test_a_claim_that_waits_no_longer_leaves_nothing_behind() -> None:
    async def act(place: Place) -> None:
        await place.submit(10)
        waiting = place.ask()
        await asyncio.sleep(9.95 - 0.06)
        await ended(waiting)
        await asyncio.sleep(1)
        assert await place.engine.upkeep.promote(10) == 1

    played(act)
