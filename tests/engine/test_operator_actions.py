"""Actions of operators on jobs: cancel, retry, run now, discard; each decided by the current state of the job."""

from __future__ import annotations

import pytest

from builders import BASE, HOUR, MINUTE, at, claim, failure, fresh_id, new_job
from engine.environment import OLGA, EngineEnvironment
from rota.core.errors import IllegalTransition, JobNotFound, StoreUnavailable
from rota.core.ids import to_text
from rota.core.lifecycle import Event, State
from rota.core.outcome import Succeeded
from rota.core.submission import Delivery
from rota.engine.jobs import MOST_TRIES
from rota.ports.client import Deed
from rota.ports.wakeup import TIMETABLE
from rota.telemetry.events import Acted, CancelAsked, JobsSettled


async def test_a_waiting_job_is_cancelled_and_a_running_one_is_asked(env: EngineEnvironment) -> None:
    (running,) = await env.begin(new_job())
    waiting = new_job(queue="other")
    await env.submit(waiting)
    answers = await env.engine.cancel([waiting.id, running.id], OLGA)
    assert [answer.deed for answer in answers] == [Deed.CANCELLED, Deed.ASKED_TO_STOP]
    assert (await env.look(waiting)).state is State.CANCELLED
    assert (await env.look(running)).cancel_requested_at is not None


async def test_every_deed_is_told_and_entered_with_its_actor(env: EngineEnvironment) -> None:
    (running,) = await env.begin(new_job())
    waiting = new_job(queue="other")
    await env.submit(waiting)
    env.events.clear()
    await env.engine.cancel([waiting.id, running.id], OLGA)
    kinds = [type(event) for event in env.events]
    assert kinds == [JobsSettled, Acted, CancelAsked, Acted]
    entries = await env.store.ledger()
    assert {(one.actor, one.action, one.target) for one in entries} == {
        ("olga", "jobs.cancel", to_text(waiting.id)),
        ("olga", "jobs.cancel", to_text(running.id)),
    }


async def test_each_id_is_answered_in_order_also_the_unknown_and_the_repeated(env: EngineEnvironment) -> None:
    job, nobody = new_job(), fresh_id()
    await env.submit(job)
    answers = await env.engine.cancel([nobody, job.id, job.id], OLGA)
    assert [answer.job_id for answer in answers] == [nobody, job.id, job.id]
    assert isinstance(answers[0].refusal, JobNotFound)
    assert [answer.deed for answer in answers[1:]] == [Deed.CANCELLED, Deed.CANCELLED]


async def test_what_has_ended_is_not_cancelled(env: EngineEnvironment) -> None:
    (held,) = await env.begin(new_job())
    await env.report(held, Succeeded())
    (answer,) = await env.engine.cancel([held.id], OLGA)
    assert isinstance(answer.refusal, IllegalTransition)
    assert await env.store.ledger() == []


async def test_a_job_that_begins_while_it_is_being_cancelled_is_asked_to_stop(env: EngineEnvironment) -> None:
    job = new_job()
    await env.submit(job)
    env.faulty_store.before("settle", lambda: env.store.claim(claim()))
    (answer,) = await env.engine.cancel([job.id], OLGA)
    assert answer.deed is Deed.ASKED_TO_STOP


async def test_a_job_that_never_stands_still_is_given_up_on(env: EngineEnvironment) -> None:
    job = new_job(max_attempts=50)
    await env.submit(job)

    async def begin() -> None:
        await env.store.claim(claim())
        env.faulty_store.before("ask_cancel", hand_back)

    async def hand_back() -> None:
        (held,) = await env.store.get([job.id])
        await env.store.settle([held.settled(Event.RELEASE, refund=True)])
        env.faulty_store.before("settle", begin)

    # Whatever is decided, the job is something else by the time it is written.
    env.faulty_store.before("settle", begin)
    (answer,) = await env.engine.cancel([job.id], OLGA)
    assert isinstance(answer.refusal, IllegalTransition)
    assert "keeps changing" in str(answer.refusal)
    assert env.faulty_store.calls.count("get") == MOST_TRIES


async def test_a_dead_job_gets_a_fresh_budget(env: EngineEnvironment) -> None:
    (held,) = await env.begin(new_job(max_attempts=1))
    await env.report(held, failure())
    (answer,) = await env.engine.retry([held.id], OLGA)
    found = await env.look(held)
    assert (answer.deed, found.state, found.attempts) == (Deed.RETRIED, State.PENDING, 0)


async def test_a_completed_job_is_not_retried(env: EngineEnvironment) -> None:
    (held,) = await env.begin(new_job())
    await env.report(held, Succeeded())
    (answer,) = await env.engine.retry([held.id], OLGA)
    assert isinstance(answer.refusal, IllegalTransition)


async def test_what_may_have_run_and_must_run_once_is_not_retried(env: EngineEnvironment) -> None:
    (held,) = await env.begin(new_job(delivery=Delivery.AT_MOST_ONCE))
    await env.report(held, failure())
    (answer,) = await env.engine.retry([held.id], OLGA)
    assert isinstance(answer.refusal, IllegalTransition)
    assert (await env.look(held)).state is State.DEAD


@pytest.mark.parametrize("verb", ["retry", "run_now"])
async def test_at_once_is_a_time_of_the_stores_clock(env: EngineEnvironment, verb: str) -> None:
    job = new_job(run_at=at(3600))
    await env.submit(job)
    env.host_clock.move(HOUR * 2)
    env.clock.move(MINUTE)
    await getattr(env.engine.jobs, verb)([job.id], OLGA)
    found = await env.look(job)
    assert (found.state, found.run_at) == (State.PENDING, BASE + MINUTE)


async def test_run_now_is_for_what_waits_for_its_time(env: EngineEnvironment) -> None:
    job = new_job()
    await env.submit(job)
    (answer,) = await env.engine.jobs.run_now([job.id], OLGA)
    assert isinstance(answer.refusal, IllegalTransition)


async def test_a_job_that_is_to_run_now_is_rung_for(env: EngineEnvironment) -> None:
    job = new_job(queue="bulk", run_at=at(3600))
    await env.submit(job)
    assert await env.wakes("bulk", env.engine.jobs.run_now([job.id], OLGA))


async def test_a_cancel_wakes_the_listeners_of_the_timetable(env: EngineEnvironment) -> None:
    job = new_job(run_at=at(3600))
    await env.submit(job)
    assert await env.wakes(TIMETABLE, env.engine.cancel([job.id], OLGA))


async def test_a_store_that_is_away_is_no_refusal(env: EngineEnvironment) -> None:
    job = new_job()
    await env.submit(job)
    env.faulty_store.cut("settle")
    with pytest.raises(StoreUnavailable):
        await env.engine.cancel([job.id], OLGA)


async def test_only_dead_and_cancelled_jobs_are_discarded(env: EngineEnvironment) -> None:
    (held,) = await env.begin(new_job(max_attempts=1))
    await env.report(held, failure())
    waiting, nobody = new_job(), fresh_id()
    await env.submit(waiting)
    answers = await env.engine.jobs.discard([held.id, waiting.id, nobody], OLGA)
    assert answers[0].deed is Deed.DISCARDED
    assert isinstance(answers[1].refusal, IllegalTransition)
    assert isinstance(answers[2].refusal, JobNotFound)
    assert [job.id for job in await env.store.get([held.id, waiting.id])] == [waiting.id]
