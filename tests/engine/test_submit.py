"""Submitting: checks, stored jobs, answers, events and wake-ups."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from builders import HOUR, MINUTE, after, at, claim, key, new_job, new_jobs
from engine.environment import OLGA, EngineEnvironment
from rota.core.bulk import UniformJobs, as_uniform
from rota.core.errors import InvalidRequest, StoreUnavailable
from rota.core.lifecycle import Event, State
from rota.core.submission import NewJob
from rota.ports.store import JobQuery, Receipt
from rota.ports.wakeup import TIMETABLE, Topic
from rota.telemetry.events import JobsSubmitted


async def test_each_submission_of_a_batch_is_answered_in_order(env: EngineEnvironment) -> None:
    jobs = [new_job(), new_job(run_at=at(60)), new_job()]
    answers = await env.engine.submit(jobs)
    assert [answer.job_id for answer in answers] == [job.id for job in jobs]
    assert [answer.state for answer in answers] == [State.PENDING, State.SCHEDULED, State.PENDING]


async def test_one_event_tells_of_a_whole_batch(env: EngineEnvironment) -> None:
    jobs = new_jobs(3)
    await env.engine.submit(jobs)
    await env.engine.submit(alike(*(others := new_jobs(3))))
    assert [list(event.jobs) for event in env.events_of(JobsSubmitted)] == [jobs, others]


async def test_what_was_there_before_is_no_event(env: EngineEnvironment) -> None:
    await env.engine.submit([new_job(idempotency=key("k"))])
    env.events.clear()
    (answer,) = await env.engine.submit([new_job(idempotency=key("k"))])
    assert answer.receipt is Receipt.REPLAYED
    assert env.events == []


async def test_a_repeated_key_is_answered_with_the_first_job(env: EngineEnvironment) -> None:
    first = new_job(idempotency=key("k"))
    again = new_job(idempotency=key("k"))
    answers = await env.engine.submit([first, again])
    assert [answer.job_id for answer in answers] == [first.id, first.id]


async def test_a_key_with_another_body_is_refused_and_hinders_nobody(env: EngineEnvironment) -> None:
    await env.engine.submit([new_job(idempotency=key("k"))])
    answers = await env.engine.submit([new_job(idempotency=key("k", b"other")), new_job()])
    assert [answer.receipt for answer in answers] == [Receipt.KEY_REUSED, Receipt.CREATED]


async def test_one_bad_job_keeps_the_whole_batch_from_being_stored(env: EngineEnvironment) -> None:
    with pytest.raises(InvalidRequest, match="priority"):
        await env.engine.submit([new_job(), new_job(priority=11)])
    assert await env.store.find(JobQuery()) == []


async def test_a_job_that_meets_anothers_id_is_given_a_new_one(env: EngineEnvironment) -> None:
    theirs = new_job()
    await env.store.insert([theirs])
    ours = new_job("report", id=theirs.id)
    (answer,) = await env.engine.submit([ours])
    assert answer.receipt is Receipt.CREATED
    assert answer.job_id != theirs.id
    assert (await env.look(answer.job_id)).type == "report"


def alike(*jobs: NewJob) -> UniformJobs:
    found = as_uniform(jobs)
    assert found is not None
    return found


async def test_of_jobs_that_are_alike_one_that_meets_anothers_id_is_given_a_new_one(env: EngineEnvironment) -> None:
    theirs, ours = new_job(), new_jobs(3, "report")
    await env.store.insert([theirs])
    ours[1] = replace(ours[1], id=theirs.id)
    answers = await env.engine.submit(alike(*ours))
    assert {answer.receipt for answer in answers} == {Receipt.CREATED}
    assert [(await env.look(answer.job_id)).type for answer in answers] == ["report"] * 3
    assert (await env.look(theirs.id)).type == "mail"


async def test_jobs_that_are_alike_and_repeated_make_one_job_each(env: EngineEnvironment) -> None:
    jobs = alike(*new_jobs(3))
    env.faulty_store.cut("insert", arrives=True)
    with pytest.raises(StoreUnavailable):
        await env.engine.submit(jobs)
    answers = await env.engine.submit(jobs)
    assert [answer.receipt for answer in answers] == [Receipt.REPLAYED] * 3
    assert len(await env.store.find(JobQuery())) == 3


@pytest.mark.parametrize("arrives", [True, False], ids=["the answer is lost", "the request is lost"])
async def test_a_submission_that_is_repeated_makes_one_job(env: EngineEnvironment, arrives: bool) -> None:  # noqa: FBT001
    """It met its own id, took it for another's, and made a second job."""
    job = new_job()
    env.faulty_store.cut("insert", arrives=arrives)
    with pytest.raises(StoreUnavailable):
        await env.engine.submit([job])
    (answer,) = await env.engine.submit([job])
    assert answer.job_id == job.id
    assert answer.receipt is (Receipt.REPLAYED if arrives else Receipt.CREATED)
    assert len(await env.store.find(JobQuery())) == 1


async def test_doubt_does_not_mistake_anothers_job_for_ours(env: EngineEnvironment) -> None:
    ours = new_job()
    env.faulty_store.cut("insert")
    with pytest.raises(StoreUnavailable):
        await env.engine.submit([ours])
    other = replace(ours, type="report")
    await env.store.insert([ours])
    (answer,) = await env.engine.submit([other])
    assert answer.receipt is Receipt.CREATED
    assert answer.job_id != ours.id


async def test_doubt_is_over_with_the_answer(env: EngineEnvironment) -> None:
    job = new_job()
    env.faulty_store.cut("insert", arrives=True)
    with pytest.raises(StoreUnavailable):
        await env.engine.submit([job])
    await env.engine.submit([job])
    (again,) = await env.engine.submit([job])
    assert again.receipt is Receipt.CREATED


@pytest.mark.parametrize(
    ("job", "place"),
    [
        (new_job(queue="bulk"), "bulk"),
        (new_job(run_at=at(60)), TIMETABLE),
        (new_job(expires_at=at(60)), TIMETABLE),
        (new_job(queue="bulk", run_at=at(-60)), "bulk"),
    ],
    ids=["due", "later", "expiring", "due already"],
)
async def test_a_submission_wakes_those_that_it_concerns(env: EngineEnvironment, job: NewJob, place: Topic) -> None:
    assert await env.wakes(place, env.submit(job))


async def test_a_plain_job_does_not_wake_the_listeners_of_the_timetable(env: EngineEnvironment) -> None:
    assert not await env.wakes(TIMETABLE, env.submit(new_job()))


async def test_waiting_for_a_job_ends_when_it_does(env: EngineEnvironment) -> None:
    job = new_job()
    await env.submit(job)
    env.faulty_store.before("get", lambda: env.engine.cancel([job.id], by=OLGA))
    assert (await env.engine.wait(job.id, HOUR)).state is State.CANCELLED


async def test_waiting_for_a_job_ends_also_without_a_wake_up(env: EngineEnvironment) -> None:
    """It ended in another process, and the store, one on a server, tells of no ends."""
    job = new_job()
    await env.submit(job)
    (held,) = await env.store.claim(claim())
    waiting = asyncio.ensure_future(env.engine.wait(job.id, HOUR))
    await asyncio.sleep(0.05)
    await env.store.settle([held.settled(Event.SUCCEED)])
    async with asyncio.timeout(10):
        assert (await waiting).state is State.COMPLETED


async def test_waiting_for_no_time_gives_the_job_as_it_is(env: EngineEnvironment) -> None:
    parent = new_job()
    child = new_job(after=after(parent))
    await env.submit(parent, child)
    assert (await env.engine.wait(child.id, MINUTE * 0)).state is State.BLOCKED
