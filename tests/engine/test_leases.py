"""What a worker asks for: claims, renewals, settlements; and what is taken from one that went silent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from building import BEN, HOUR, MINUTE, at, claim, failure, new_job, new_jobs
from engine.staging import OLGA, Bench
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


async def test_a_claim_is_told_with_its_jobs(bench: Bench) -> None:
    held = await bench.begin(*new_jobs(2))
    (told,) = bench.told(JobsClaimed)
    assert list(told.jobs) == list(held)


async def test_a_claim_of_nothing_is_no_event(bench: Bench) -> None:
    assert list(await bench.engine.claim(claim())) == []
    assert bench.events == []


async def test_a_claim_that_waits_is_woken_by_a_submission(bench: Bench) -> None:
    asked = asyncio.Event()

    async def note() -> None:
        asked.set()

    bench.line.before("claim", note)
    waiting = asyncio.create_task(bench.engine.leases.claim(claim(), wait=HOUR))
    await asked.wait()
    job = new_job()
    await bench.submit(job)
    async with asyncio.timeout(10):
        assert [one.id for one in await waiting] == [job.id]


async def test_only_a_claim_that_found_nothing_may_be_given_just_the_announced_job(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits already may be more urgent than what somebody tells of."""
    asked: asyncio.Queue[Claim] = asyncio.Queue()
    ask = bench.store.claim

    async def listening(claim: Claim) -> Sequence[Job]:
        jobs = await ask(claim)
        asked.put_nowait(claim)
        return jobs

    monkeypatch.setattr(bench.store, "claim", listening)
    waiting = asyncio.create_task(bench.engine.leases.claim(claim(), wait=HOUR))
    async with asyncio.timeout(10):
        assert not (await asked.get()).is_woken
        await bench.submit(new_job())
        assert (await asked.get()).is_woken
        assert await waiting
        await bench.submit(new_job())
        assert await bench.engine.leases.claim(claim(), wait=HOUR)
        assert not (await asked.get()).is_woken


async def test_a_claim_without_a_wake_up_gives_up_and_asks_the_store_once(bench: Bench) -> None:
    assert list(await bench.engine.claim(claim(), wait=timedelta(milliseconds=1))) == []
    assert bench.line.calls.count("claim") == 1


async def test_a_renewal_keeps_the_lease_and_brings_the_wish_to_stop(bench: Bench) -> None:
    (held,) = await bench.begin(new_job())
    await bench.engine.cancel([held.id], OLGA)
    (kept,) = await bench.engine.renew([Renewal(held.id, held.fence, LEASE)])
    assert kept.cancel


async def test_a_settlement_is_told_with_the_job_as_it_was(bench: Bench) -> None:
    (held,) = await bench.begin(new_job())
    assert list(await bench.report(held, Succeeded('"done"'), "all well")) == [held.id]
    (told,) = bench.told(JobsSettled)
    assert (list(told.jobs), told.settlements[0].target) == ([held], State.COMPLETED)
    assert (await bench.look(held)).result == '"done"'


async def test_a_late_settlement_changes_nothing_and_is_told_as_refused(bench: Bench) -> None:
    (held,) = await bench.begin(new_job(max_attempts=5))
    bench.clock.move(MINUTE)
    await bench.engine.upkeep.reap(10)
    (other,) = await bench.engine.claim(claim(BEN))
    bench.events.clear()
    assert list(await bench.report(held, Succeeded())) == []
    (refused,) = bench.told(SettlementsRefused)
    assert list(refused.ids) == [held.id]
    assert await bench.look(held) == other


async def test_a_report_about_a_job_that_is_gone_is_refused(bench: Bench) -> None:
    (held,) = await bench.begin(new_job())
    await bench.report(held, Succeeded())
    await bench.store.prune(Retention(completed=MINUTE), 10, now=at(3600))
    assert list(await bench.report(held, Succeeded())) == []


async def test_of_a_batch_the_valid_reports_are_written(bench: Bench) -> None:
    good, stale = await bench.begin(*new_jobs(2))
    reports = [AttemptReport(stale.id, stale.fence - 1, Succeeded()), AttemptReport(good.id, good.fence, Succeeded())]
    assert list(await bench.engine.settle(reports)) == [good.id]
    assert (await bench.look(stale)).state is State.RUNNING


async def test_a_settlement_repeated_after_a_lost_answer_is_refused_and_harmless(bench: Bench) -> None:
    (held,) = await bench.begin(new_job())
    bench.line.cut("settle", arrives=True)
    with pytest.raises(StoreUnavailable):
        await bench.report(held, Succeeded())
    assert list(await bench.report(held, failure())) == []
    assert (await bench.look(held)).state is State.COMPLETED


async def test_a_job_that_was_asked_to_stop_meanwhile_is_decided_anew(bench: Bench) -> None:
    (held,) = await bench.begin(new_job())
    await bench.engine.cancel([held.id], OLGA)
    assert list(await bench.report(held, failure())) == [held.id]
    ended = await bench.look(held)
    assert (ended.state, ended.reason) == (State.CANCELLED, Reason.CANCEL_REQUESTED)


async def test_another_engine_settles_what_this_one_claimed(bench: Bench) -> None:
    (held,) = await bench.begin(new_job())
    bench.engine.leases._leased.clear()
    assert list(await bench.report(held, Succeeded())) == [held.id]


@pytest.mark.parametrize("host_is_off_by", [HOUR, -HOUR], ids=["ahead", "behind"])
@pytest.mark.parametrize(
    ("outcome", "due"), [(failure(), at(10)), (Snoozed(MINUTE), at(60))], ids=["failed", "snoozed"]
)
async def test_when_a_job_is_due_again_is_computed_by_the_stores_clock(
    bench: Bench, host_is_off_by: timedelta, outcome: Outcome, due: object
) -> None:
    """A worker whose clock was an hour ahead sent failed jobs back for an hour later."""
    (held,) = await bench.begin(new_job(backoff=LATER))
    bench.host_clock.move(host_is_off_by)
    await bench.report(held, outcome)
    assert (await bench.look(held)).run_at == due


async def test_a_follow_up_is_due_by_the_stores_clock(bench: Bench) -> None:
    (held,) = await bench.begin(new_job(on_success=Template("thanks", delay=MINUTE)))
    bench.host_clock.move(HOUR)
    await bench.report(held, Succeeded())
    (thanks,) = [job for job in await bench.store.find(JobQuery()) if job.type == "thanks"]
    assert (thanks.parent_id, thanks.run_at) == (held.id, at(60))


async def test_plain_ends_do_not_ask_for_the_time(bench: Bench) -> None:
    held = await bench.begin(*new_jobs(4))
    bench.line.calls.clear()
    outcomes: list[Outcome] = [Succeeded(), Stopped(), Released(started=True), Released()]
    await bench.engine.settle([AttemptReport(job.id, job.fence, one) for job, one in zip(held, outcomes, strict=True)])
    assert "time" not in bench.line.calls


@pytest.mark.parametrize(
    ("outcome", "place"),
    [(Released(started=True), "default"), (failure(), TIMETABLE), (Snoozed(MINUTE), TIMETABLE)],
    ids=["released", "failed", "snoozed"],
)
async def test_a_settlement_wakes_those_that_wait_for_the_job(bench: Bench, outcome: Outcome, place: Topic) -> None:
    (held,) = await bench.begin(new_job(backoff=LATER))
    assert await bench.rings_at(place, bench.report(held, outcome))


@pytest.mark.parametrize("outcome", [Released(), Lost()], ids=["given back", "lost"])
async def test_a_job_given_back_before_its_time_waits_for_it_by_the_stores_clock(
    bench: Bench, outcome: Outcome
) -> None:
    bench.host_clock.move(HOUR)
    await bench.submit(new_job(run_at=at(1)))
    (held,) = await bench.store.claim(claim(ahead=timedelta(seconds=1)))
    assert await bench.rings_at(TIMETABLE, bench.report(held, outcome))
    found = await bench.look(held)
    assert (found.state, found.run_at, found.attempts) == (State.SCHEDULED, at(1), 0)


async def test_a_job_that_is_held_for_its_time_says_so(bench: Bench) -> None:
    await bench.submit(new_job(run_at=at(1)))
    (held,) = await bench.store.claim(claim(ahead=timedelta(seconds=1)))
    (reason,) = (await bench.engine.explain(held.id)).reasons
    assert reason.code == "held_for_its_time"
    bench.clock.move(timedelta(seconds=1))
    (reason,) = (await bench.engine.explain(held.id)).reasons
    assert reason.code == "leased"


# Reaping


async def test_a_lost_job_is_sent_back_and_told(bench: Bench) -> None:
    (held,) = await bench.begin(new_job())
    bench.clock.move(MINUTE)
    bench.events.clear()
    assert await bench.engine.upkeep.reap(10) == 1
    (told,) = bench.told(LeasesLapsed)
    assert [job.id for job in told.jobs] == [held.id]
    found = await bench.look(held)
    assert (found.state, found.crashes) == (State.PENDING, 1)


async def test_a_live_lease_is_not_reaped(bench: Bench) -> None:
    await bench.begin(new_job())
    assert await bench.engine.upkeep.reap(10) == 0


async def test_a_lease_that_is_renewed_while_the_reaper_decides_is_left(bench: Bench) -> None:
    (held,) = await bench.begin(new_job())
    bench.clock.move(MINUTE)
    bench.line.before("settle", lambda: bench.store.renew([Renewal(held.id, held.fence, LEASE)]))
    bench.events.clear()
    await bench.engine.upkeep.reap(10)
    assert (await bench.look(held)).state is State.RUNNING
    assert bench.told(LeasesLapsed) == []


async def test_a_job_that_must_start_once_dies_with_its_lease(bench: Bench) -> None:
    (held,) = await bench.begin(new_job(delivery=Delivery.AT_MOST_ONCE))
    bench.clock.move(MINUTE)
    await bench.engine.upkeep.reap(10)
    found = await bench.look(held)
    assert (found.state, found.reason) == (State.DEAD, Reason.OUTCOME_UNKNOWN)


async def test_a_pass_reaps_no_more_than_its_limit(bench: Bench) -> None:
    await bench.begin(*new_jobs(5))
    bench.clock.move(MINUTE)
    assert [await bench.engine.upkeep.reap(2) for _ in range(4)] == [2, 2, 1, 0]


async def test_a_claim_that_looks_again_skips_the_lookup_of_a_former_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    answer = bench.store.claim

    async def listening(claim: Claim, *, now: datetime | None = None) -> Sequence[Job]:
        asked.append(claim.is_new)
        return await answer(claim, now=now)

    monkeypatch.setattr(bench.store, "claim", listening)
    for looks_again in (False, True):
        await bench.engine.claim(claim(claim_id="one"), looks_again=looks_again)
    assert asked == [False, True]


async def test_a_handler_that_asks_for_it_closes_a_limit_for_as_long_as_its_job_waits(bench: Bench) -> None:
    job, other = new_job(concurrency_key="c-1"), new_job(concurrency_key="c-2")
    await bench.engine.jobs.submit([job, other])
    held = {one.concurrency_key: one for one in await bench.engine.claim(claim(limit=10))}
    for key, name in (("c-1", "key:c-2"), ("c-2", "queue:another")):
        outcome = Snoozed(MINUTE, limit=name)
        await bench.engine.settle([AttemptReport(held[key].id, held[key].fence, outcome)])
    (limit,) = await bench.store.limits()
    assert (limit.name, limit.reason) == ("key:c-2", f"asked for by job {to_text(job.id)}")
    assert limit.closed_until == await bench.store.time() + MINUTE
