"""What operators have done about jobs: cancel, retry, run now, discard; each decided on the job as it is by then."""

from __future__ import annotations

import pytest

from building import BASE, HOUR, MINUTE, at, claim, failure, fresh_id, new_job
from engine.staging import OLGA, Bench
from rota.core.errors import IllegalTransition, JobNotFound, StoreUnavailable
from rota.core.ids import to_text
from rota.core.lifecycle import Event, State
from rota.core.outcome import Succeeded
from rota.core.submission import Delivery
from rota.engine.jobs import MOST_TRIES
from rota.ports.client import Deed
from rota.ports.wakeup import TIMETABLE
from rota.telemetry.events import Acted, CancelAsked, JobsSettled


async def test_a_waiting_job_is_cancelled_and_a_running_one_is_asked(bench: Bench) -> None:
    (running,) = await bench.begin(new_job())
    waiting = new_job(queue="other")
    await bench.submit(waiting)
    answers = await bench.engine.cancel([waiting.id, running.id], OLGA)
    assert [answer.deed for answer in answers] == [Deed.CANCELLED, Deed.ASKED_TO_STOP]
    assert (await bench.look(waiting)).state is State.CANCELLED
    assert (await bench.look(running)).cancel_requested_at is not None


async def test_every_deed_is_told_and_entered_with_its_actor(bench: Bench) -> None:
    (running,) = await bench.begin(new_job())
    waiting = new_job(queue="other")
    await bench.submit(waiting)
    bench.events.clear()
    await bench.engine.cancel([waiting.id, running.id], OLGA)
    kinds = [type(event) for event in bench.events]
    assert kinds == [JobsSettled, Acted, CancelAsked, Acted]
    entries = await bench.store.ledger()
    assert {(one.actor, one.action, one.target) for one in entries} == {
        ("olga", "jobs.cancel", to_text(waiting.id)),
        ("olga", "jobs.cancel", to_text(running.id)),
    }


async def test_each_id_is_answered_in_order_also_the_unknown_and_the_repeated(bench: Bench) -> None:
    job, nobody = new_job(), fresh_id()
    await bench.submit(job)
    answers = await bench.engine.cancel([nobody, job.id, job.id], OLGA)
    assert [answer.job_id for answer in answers] == [nobody, job.id, job.id]
    assert isinstance(answers[0].refusal, JobNotFound)
    assert [answer.deed for answer in answers[1:]] == [Deed.CANCELLED, Deed.CANCELLED]


async def test_what_has_ended_is_not_cancelled(bench: Bench) -> None:
    (held,) = await bench.begin(new_job())
    await bench.report(held, Succeeded())
    (answer,) = await bench.engine.cancel([held.id], OLGA)
    assert isinstance(answer.refusal, IllegalTransition)
    assert await bench.store.ledger() == []


async def test_a_job_that_begins_while_it_is_being_cancelled_is_asked_to_stop(bench: Bench) -> None:
    job = new_job()
    await bench.submit(job)
    bench.line.before("settle", lambda: bench.store.claim(claim()))
    (answer,) = await bench.engine.cancel([job.id], OLGA)
    assert answer.deed is Deed.ASKED_TO_STOP


async def test_a_job_that_never_stands_still_is_given_up_on(bench: Bench) -> None:
    job = new_job(max_attempts=50)
    await bench.submit(job)

    async def begin() -> None:
        await bench.store.claim(claim())
        bench.line.before("ask_cancel", hand_back)

    async def hand_back() -> None:
        (held,) = await bench.store.get([job.id])
        await bench.store.settle([held.settled(Event.RELEASE, refund=True)])
        bench.line.before("settle", begin)

    # Whatever is decided, the job is something else by the time it is written.
    bench.line.before("settle", begin)
    (answer,) = await bench.engine.cancel([job.id], OLGA)
    assert isinstance(answer.refusal, IllegalTransition)
    assert "keeps changing" in str(answer.refusal)
    assert bench.line.calls.count("get") == MOST_TRIES


async def test_a_dead_job_gets_a_fresh_budget(bench: Bench) -> None:
    (held,) = await bench.begin(new_job(max_attempts=1))
    await bench.report(held, failure())
    (answer,) = await bench.engine.retry([held.id], OLGA)
    found = await bench.look(held)
    assert (answer.deed, found.state, found.attempts) == (Deed.RETRIED, State.PENDING, 0)


async def test_a_completed_job_is_not_retried(bench: Bench) -> None:
    (held,) = await bench.begin(new_job())
    await bench.report(held, Succeeded())
    (answer,) = await bench.engine.retry([held.id], OLGA)
    assert isinstance(answer.refusal, IllegalTransition)


async def test_what_may_have_run_and_must_run_once_is_not_retried(bench: Bench) -> None:
    (held,) = await bench.begin(new_job(delivery=Delivery.AT_MOST_ONCE))
    await bench.report(held, failure())
    (answer,) = await bench.engine.retry([held.id], OLGA)
    assert isinstance(answer.refusal, IllegalTransition)
    assert (await bench.look(held)).state is State.DEAD


@pytest.mark.parametrize("verb", ["retry", "run_now"])
async def test_at_once_is_a_time_of_the_stores_clock(bench: Bench, verb: str) -> None:
    job = new_job(run_at=at(3600))
    await bench.submit(job)
    bench.host_clock.move(HOUR * 2)
    bench.clock.move(MINUTE)
    await getattr(bench.engine.jobs, verb)([job.id], OLGA)
    found = await bench.look(job)
    assert (found.state, found.run_at) == (State.PENDING, BASE + MINUTE)


async def test_run_now_is_for_what_waits_for_its_time(bench: Bench) -> None:
    job = new_job()
    await bench.submit(job)
    (answer,) = await bench.engine.jobs.run_now([job.id], OLGA)
    assert isinstance(answer.refusal, IllegalTransition)


async def test_a_job_that_is_to_run_now_is_rung_for(bench: Bench) -> None:
    job = new_job(queue="bulk", run_at=at(3600))
    await bench.submit(job)
    assert await bench.rings_at("bulk", bench.engine.jobs.run_now([job.id], OLGA))


async def test_a_cancel_wakes_the_listeners_of_the_timetable(bench: Bench) -> None:
    job = new_job(run_at=at(3600))
    await bench.submit(job)
    assert await bench.rings_at(TIMETABLE, bench.engine.cancel([job.id], OLGA))


async def test_a_store_that_is_away_is_no_refusal(bench: Bench) -> None:
    job = new_job()
    await bench.submit(job)
    bench.line.cut("settle")
    with pytest.raises(StoreUnavailable):
        await bench.engine.cancel([job.id], OLGA)


async def test_only_dead_and_cancelled_jobs_are_discarded(bench: Bench) -> None:
    (held,) = await bench.begin(new_job(max_attempts=1))
    await bench.report(held, failure())
    waiting, nobody = new_job(), fresh_id()
    await bench.submit(waiting)
    answers = await bench.engine.jobs.discard([held.id, waiting.id, nobody], OLGA)
    assert answers[0].deed is Deed.DISCARDED
    assert isinstance(answers[1].refusal, IllegalTransition)
    assert isinstance(answers[2].refusal, JobNotFound)
    assert [job.id for job in await bench.store.get([held.id, waiting.id])] == [waiting.id]
