"""Worker verbs: claims, renewals, settlements; and reaping of jobs from workers that stopped renewing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from builders import BEN, HOUR, MINUTE, at, claim, failure, new_job, new_jobs
from engine.environment import OLGA, EngineEnvironment
from rota.core.errors import StoreUnavailable
from rota.core.ids import to_text
from rota.core.job import Job
from rota.core.lease import Claim, Renewal
from rota.core.lifecycle import State
from rota.core.outcome import Lost, Outcome, Released, Snoozed, Stopped, Succeeded
from rota.core.retry import Backoff
from rota.core.settlement import Reason
from rota.core.submission import Delivery, Template
from rota.ports.client import AttemptReport
from rota.ports.store import JobQuery, Retention
from rota.ports.wakeup import TIMETABLE, Topic
from rota.telemetry.events import JobsClaimed, JobsSettled, LeasesLapsed, SettlementsRefused

LEASE = timedelta(seconds=15)
LATER = Backoff(base=timedelta(seconds=10), jitter=0)


async def test_a_claim_is_told_with_its_jobs(env: EngineEnvironment) -> None:
    held = await env.begin(*new_jobs(2))
    (event,) = env.events_of(JobsClaimed)
    assert list(event.jobs) == list(held)


async def test_a_claim_of_nothing_is_no_event(env: EngineEnvironment) -> None:
    assert list(await env.engine.claim(claim())) == []
    assert env.events == []


async def test_a_claim_that_waits_is_woken_by_a_submission(env: EngineEnvironment) -> None:
    asked = asyncio.Event()

    async def note() -> None:
        asked.set()

    env.faulty_store.before("claim", note)
    waiting = asyncio.create_task(env.engine.leases.claim(claim(), wait=HOUR))
    await asked.wait()
    job = new_job()
    await env.submit(job)
    async with asyncio.timeout(10):
        assert [one.id for one in await waiting] == [job.id]


async def test_only_a_claim_that_found_nothing_may_be_given_just_the_announced_job(
    env: EngineEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits already may be more urgent than what somebody tells of."""
    asked: asyncio.Queue[Claim] = asyncio.Queue()
    ask = env.store.claim

    async def listening(claim: Claim) -> Sequence[Job]:
        jobs = await ask(claim)
        asked.put_nowait(claim)
        return jobs

    monkeypatch.setattr(env.store, "claim", listening)
    waiting = asyncio.create_task(env.engine.leases.claim(claim(), wait=HOUR))
    async with asyncio.timeout(10):
        assert not (await asked.get()).is_woken
        await env.submit(new_job())
        assert (await asked.get()).is_woken
        assert await waiting
        await env.submit(new_job())
        assert await env.engine.leases.claim(claim(), wait=HOUR)
        assert not (await asked.get()).is_woken


async def test_a_claim_without_a_wake_up_gives_up_and_asks_the_store_once(env: EngineEnvironment) -> None:
    assert list(await env.engine.claim(claim(), wait=timedelta(milliseconds=1))) == []
    assert env.faulty_store.calls.count("claim") == 1


async def test_a_renewal_keeps_the_lease_and_brings_the_wish_to_stop(env: EngineEnvironment) -> None:
    (held,) = await env.begin(new_job())
    await env.engine.cancel([held.id], OLGA)
    (kept,) = await env.engine.renew([Renewal(held.id, held.fence, LEASE)])
    assert kept.cancel


async def test_a_settlement_is_told_with_the_job_as_it_was(env: EngineEnvironment) -> None:
    (held,) = await env.begin(new_job())
    assert list(await env.report(held, Succeeded('"done"'), "all well")) == [held.id]
    (event,) = env.events_of(JobsSettled)
    assert (list(event.jobs), event.settlements[0].target) == ([held], State.COMPLETED)
    assert (await env.look(held)).result == '"done"'


async def test_a_late_settlement_changes_nothing_and_is_told_as_refused(env: EngineEnvironment) -> None:
    (held,) = await env.begin(new_job(max_attempts=5))
    env.clock.move(MINUTE)
    await env.engine.upkeep.reap(10)
    (other,) = await env.engine.claim(claim(BEN))
    env.events.clear()
    assert list(await env.report(held, Succeeded())) == []
    (refused,) = env.events_of(SettlementsRefused)
    assert list(refused.ids) == [held.id]
    assert await env.look(held) == other


async def test_a_report_about_a_job_that_is_gone_is_refused(env: EngineEnvironment) -> None:
    (held,) = await env.begin(new_job())
    await env.report(held, Succeeded())
    await env.store.prune(Retention(completed=MINUTE), 10, now=at(3600))
    assert list(await env.report(held, Succeeded())) == []


async def test_of_a_batch_the_valid_reports_are_written(env: EngineEnvironment) -> None:
    good, stale = await env.begin(*new_jobs(2))
    reports = [AttemptReport(stale.id, stale.fence - 1, Succeeded()), AttemptReport(good.id, good.fence, Succeeded())]
    assert list(await env.engine.settle(reports)) == [good.id]
    assert (await env.look(stale)).state is State.RUNNING


async def test_a_settlement_repeated_after_a_lost_answer_is_refused_and_harmless(env: EngineEnvironment) -> None:
    (held,) = await env.begin(new_job())
    env.faulty_store.cut("settle", arrives=True)
    with pytest.raises(StoreUnavailable):
        await env.report(held, Succeeded())
    assert list(await env.report(held, failure())) == []
    assert (await env.look(held)).state is State.COMPLETED


async def test_a_job_that_was_asked_to_stop_meanwhile_is_decided_anew(env: EngineEnvironment) -> None:
    (held,) = await env.begin(new_job())
    await env.engine.cancel([held.id], OLGA)
    assert list(await env.report(held, failure())) == [held.id]
    ended = await env.look(held)
    assert (ended.state, ended.reason) == (State.CANCELLED, Reason.CANCEL_REQUESTED)


async def test_another_engine_settles_what_this_one_claimed(env: EngineEnvironment) -> None:
    (held,) = await env.begin(new_job())
    env.engine.leases._leased.clear()
    assert list(await env.report(held, Succeeded())) == [held.id]


@pytest.mark.parametrize("host_is_off_by", [HOUR, -HOUR], ids=["ahead", "behind"])
@pytest.mark.parametrize(
    ("outcome", "due"), [(failure(), at(10)), (Snoozed(MINUTE), at(60))], ids=["failed", "snoozed"]
)
async def test_when_a_job_is_due_again_is_computed_by_the_stores_clock(
    env: EngineEnvironment, host_is_off_by: timedelta, outcome: Outcome, due: object
) -> None:
    """A worker whose clock was an hour ahead sent failed jobs back for an hour later."""
    (held,) = await env.begin(new_job(backoff=LATER))
    env.host_clock.move(host_is_off_by)
    await env.report(held, outcome)
    assert (await env.look(held)).run_at == due


async def test_a_follow_up_is_due_by_the_stores_clock(env: EngineEnvironment) -> None:
    (held,) = await env.begin(new_job(on_success=Template("thanks", delay=MINUTE)))
    env.host_clock.move(HOUR)
    await env.report(held, Succeeded())
    (thanks,) = [job for job in await env.store.find(JobQuery()) if job.type == "thanks"]
    assert (thanks.parent_id, thanks.run_at) == (held.id, at(60))


async def test_plain_ends_do_not_ask_for_the_time(env: EngineEnvironment) -> None:
    held = await env.begin(*new_jobs(4))
    env.faulty_store.calls.clear()
    outcomes: list[Outcome] = [Succeeded(), Stopped(), Released(started=True), Released()]
    await env.engine.settle([AttemptReport(job.id, job.fence, one) for job, one in zip(held, outcomes, strict=True)])
    assert "time" not in env.faulty_store.calls


@pytest.mark.parametrize(
    ("outcome", "place"),
    [(Released(started=True), "default"), (failure(), TIMETABLE), (Snoozed(MINUTE), TIMETABLE)],
    ids=["released", "failed", "snoozed"],
)
async def test_a_settlement_wakes_those_that_wait_for_the_job(
    env: EngineEnvironment, outcome: Outcome, place: Topic
) -> None:
    (held,) = await env.begin(new_job(backoff=LATER))
    assert await env.wakes(place, env.report(held, outcome))


@pytest.mark.parametrize("outcome", [Released(), Lost()], ids=["given back", "lost"])
async def test_a_job_given_back_before_its_time_waits_for_it_by_the_stores_clock(
    env: EngineEnvironment, outcome: Outcome
) -> None:
    env.host_clock.move(HOUR)
    await env.submit(new_job(run_at=at(1)))
    (held,) = await env.store.claim(claim(ahead=timedelta(seconds=1)))
    assert await env.wakes(TIMETABLE, env.report(held, outcome))
    found = await env.look(held)
    assert (found.state, found.run_at, found.attempts) == (State.SCHEDULED, at(1), 0)


async def test_a_job_that_is_held_for_its_time_says_so(env: EngineEnvironment) -> None:
    await env.submit(new_job(run_at=at(1)))
    (held,) = await env.store.claim(claim(ahead=timedelta(seconds=1)))
    (reason,) = (await env.engine.explain(held.id)).reasons
    assert reason.code == "held_for_its_time"
    env.clock.move(timedelta(seconds=1))
    (reason,) = (await env.engine.explain(held.id)).reasons
    assert reason.code == "leased"


# Reaping


async def test_a_lost_job_is_sent_back_and_told(env: EngineEnvironment) -> None:
    (held,) = await env.begin(new_job())
    env.clock.move(MINUTE)
    env.events.clear()
    assert await env.engine.upkeep.reap(10) == 1
    (event,) = env.events_of(LeasesLapsed)
    assert [job.id for job in event.jobs] == [held.id]
    found = await env.look(held)
    assert (found.state, found.crashes) == (State.PENDING, 1)


async def test_a_live_lease_is_not_reaped(env: EngineEnvironment) -> None:
    await env.begin(new_job())
    assert await env.engine.upkeep.reap(10) == 0


async def test_a_lease_that_is_renewed_while_the_reaper_decides_is_left(env: EngineEnvironment) -> None:
    (held,) = await env.begin(new_job())
    env.clock.move(MINUTE)
    env.faulty_store.before("settle", lambda: env.store.renew([Renewal(held.id, held.fence, LEASE)]))
    env.events.clear()
    await env.engine.upkeep.reap(10)
    assert (await env.look(held)).state is State.RUNNING
    assert env.events_of(LeasesLapsed) == []


async def test_a_job_that_must_start_once_dies_with_its_lease(env: EngineEnvironment) -> None:
    (held,) = await env.begin(new_job(delivery=Delivery.AT_MOST_ONCE))
    env.clock.move(MINUTE)
    await env.engine.upkeep.reap(10)
    found = await env.look(held)
    assert (found.state, found.reason) == (State.DEAD, Reason.OUTCOME_UNKNOWN)


async def test_a_pass_reaps_no_more_than_its_limit(env: EngineEnvironment) -> None:
    await env.begin(*new_jobs(5))
    env.clock.move(MINUTE)
    assert [await env.engine.upkeep.reap(2) for _ in range(4)] == [2, 2, 1, 0]


async def test_a_claim_that_looks_again_skips_the_lookup_of_a_former_answer(
    env: EngineEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    answer = env.store.claim

    async def listening(claim: Claim, *, now: datetime | None = None) -> Sequence[Job]:
        asked.append(claim.is_new)
        return await answer(claim, now=now)

    monkeypatch.setattr(env.store, "claim", listening)
    for looks_again in (False, True):
        await env.engine.claim(claim(claim_id="one"), looks_again=looks_again)
    assert asked == [False, True]


async def test_a_handler_that_asks_for_it_closes_a_limit_for_as_long_as_its_job_waits(env: EngineEnvironment) -> None:
    job, other = new_job(concurrency_key="c-1"), new_job(concurrency_key="c-2")
    await env.engine.jobs.submit([job, other])
    held = {one.concurrency_key: one for one in await env.engine.claim(claim(limit=10))}
    for key, name in (("c-1", "key:c-2"), ("c-2", "queue:another")):
        outcome = Snoozed(MINUTE, limit=name)
        await env.engine.settle([AttemptReport(held[key].id, held[key].fence, outcome)])
    (limit,) = await env.store.limits()
    assert (limit.name, limit.reason) == ("key:c-2", f"asked for by job {to_text(job.id)}")
    assert limit.closed_until == await env.store.time() + MINUTE
