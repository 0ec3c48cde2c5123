"""Timeouts stop the work, and a cancel arrives within one beat."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from math import inf

import pytest

from rota.core.lifecycle import State
from rota.core.settlement import Reason
from rota.worker import Cancelled, current, deadlines, handler_of
from worker.staging import OPERATOR, Stage

SHORT = timedelta(milliseconds=150)
GRACE = timedelta(milliseconds=200)
BEAT = timedelta(milliseconds=250)
LEASE = timedelta(seconds=2)


@pytest.fixture
def stuck() -> Iterator[threading.Event]:
    """What a stuck handler waits for; set at the end, so that no thread outlives its test."""
    event = threading.Event()
    yield event
    event.set()


async def quick() -> int:
    return 1


def qsync() -> int:
    return 1


async def test_an_async_handler_past_its_limit_is_cancelled(stage: Stage) -> None:
    cleaned = threading.Event()

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.set()

    async with stage.worker(slow, concurrency=1), asyncio.timeout(20):
        job = await stage.end_of(await stage.submit("slow", timeout=SHORT, max_attempts=1))
    assert cleaned.is_set()
    assert (job.state, job.reason) == (State.DEAD, Reason.EXHAUSTED)
    assert job.error is not None
    assert (job.error.kind, job.error.message) == ("HandlerTimedOut", "ran past its limit of 0.15 s")
    assert "in slow" in job.error.traceback


async def test_the_watchdog_does_not_check_jobs_that_end_at_once(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It pinged the handler loop at the very moment at which a handler was to start there."""
    monkeypatch.setattr(deadlines, "FIRST_CHECK_SECONDS", 60.0)
    checks = 0
    check = deadlines.Watchdog.check

    def counted(self: deadlines.Watchdog) -> float:
        nonlocal checks
        checks += 1
        return check(self)

    monkeypatch.setattr(deadlines.Watchdog, "check", counted)

    async def quick() -> None:
        pass

    async with stage.worker(quick):
        for _ in range(3):
            await stage.end_of(await stage.submit("quick"))
        assert checks <= 1, "except the first one, when the worker starts"


async def test_the_watchdog_checks_new_attempts_only_if_some_are_left(
    stage: Stage, stuck: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It woke an idle worker once for each job, and delayed handlers that started at that moment."""
    monkeypatch.setattr(deadlines, "FIRST_CHECK_SECONDS", 60.0)
    watchdogs: list[deadlines.Watchdog] = []
    check = deadlines.Watchdog.check

    def noted(self: deadlines.Watchdog) -> float:
        watchdogs.append(self)
        return check(self)

    monkeypatch.setattr(deadlines.Watchdog, "check", noted)

    def slow() -> None:
        stuck.wait(timeout=60)

    async with stage.worker(quick, slow):
        await stage.end_of(await stage.submit("quick"))
        (watchdog,) = watchdogs
        assert watchdog._alarm.at == inf
        long_one = await stage.submit("slow")
        await stage.until(long_one, lambda job: job.state is State.RUNNING)
        await stage.end_of(await stage.submit("quick"))
        assert watchdog._alarm.at < inf
        stuck.set()
        await stage.end_of(long_one)
        assert watchdog._alarm.at == inf


async def test_the_jobs_own_limit_goes_before_the_handlers(stage: Stage) -> None:
    async def slow() -> str:
        await asyncio.sleep(0.4)
        return "done"

    async with stage.worker(handler_of(slow, timeout=SHORT)):
        patient = await stage.submit("slow", timeout=timedelta(minutes=1))
        hasty = await stage.submit("slow", max_attempts=1)
        assert [job.state for job in await stage.ends_of([patient, hasty])] == [State.COMPLETED, State.DEAD]


async def test_a_thread_can_see_that_its_time_is_over(stage: Stage) -> None:
    def polite() -> None:
        job = current()
        while not job.cancelled():
            time.sleep(0.005)
        job.heartbeat()

    async with stage.worker(polite):
        job = await stage.end_of(await stage.submit("polite", timeout=SHORT, max_attempts=1))
    assert job.error is not None
    assert job.error.kind == "HandlerTimedOut"


async def test_a_thread_that_ignores_its_stop_is_abandoned_and_replaced(stage: Stage, stuck: threading.Event) -> None:
    def deaf() -> str:
        stuck.wait(timeout=60)
        return "too late"

    async with stage.worker(deaf, qsync, concurrency=1, stop_grace=GRACE):
        job_id = await stage.submit("deaf", timeout=SHORT, max_attempts=1)
        job = await stage.end_of(job_id)
        other = await stage.end_of(await stage.submit("qsync"))
        stuck.set()
        again = await stage.end_of(await stage.submit("qsync"))
    assert (job.state, other.state, again.state) == (State.DEAD, State.COMPLETED, State.COMPLETED)
    assert await stage.look(job_id) == job


async def test_the_number_of_abandoned_threads_is_bounded(stage: Stage, stuck: threading.Event) -> None:
    """Two slots: two stuck threads may be replaced; with four the worker takes nothing on until one comes back."""

    def deaf() -> None:
        stuck.wait(timeout=60)

    ids = await stage.submit_many(6, "deaf", timeout=timedelta(milliseconds=20), max_attempts=1)
    async with stage.worker(deaf, concurrency=2, stop_grace=timedelta(milliseconds=20)):
        for job_id in ids[:4]:
            await stage.end_of(job_id)
        left = [await stage.look(job_id) for job_id in ids[4:]]
        assert {job.state for job in left} == {State.PENDING}
        stuck.set()
        await stage.ends_of(ids[4:])


async def test_a_coroutine_that_ignores_its_cancellation_is_abandoned(
    stage: Stage, stuck: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    async def stubborn() -> None:
        while not stuck.is_set():
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                continue

    async with stage.worker(stubborn, quick, concurrency=1, stop_grace=GRACE):
        job = await stage.end_of(await stage.submit("stubborn", timeout=SHORT, max_attempts=1))
        other = await stage.end_of(await stage.submit("quick"))
    assert job.error is not None
    assert (job.error.kind, other.state) == ("HandlerTimedOut", State.COMPLETED)
    # It is told once, by us: not again by asyncio, about a task of ours.
    gc.collect()
    assert [record.name for record in caplog.records if record.name == "asyncio"] == []


async def test_a_thread_that_ends_late_within_its_grace_counts_and_later_it_does_not(
    stage: Stage, stuck: threading.Event
) -> None:
    def late() -> str:
        while not current().cancelled():
            time.sleep(0.005)
        return "done, if late"

    def too_late() -> str:
        stuck.wait(60)
        return "nobody waits for this"

    async with stage.worker(late, too_late, stop_grace=SHORT):
        within, after = [await stage.submit(name, timeout=SHORT, max_attempts=1) for name in ("late", "too_late")]
        done, dead = await stage.ends_of([within, after])
        stuck.set()
    assert (done.state, done.result) == (State.COMPLETED, '"done, if late"')
    assert dead.state is State.DEAD
    assert (await stage.look(after)).result is None


async def test_work_that_is_done_in_spite_of_a_timeout_counts(stage: Stage) -> None:
    async def finishes() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "finished all the same"
        return "never"

    async with stage.worker(finishes):
        job = await stage.end_of(await stage.submit("finishes", timeout=SHORT))
    assert (job.state, job.result) == (State.COMPLETED, '"finished all the same"')


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_cancel_reaches_a_running_handler_within_a_beat(stage: Stage, kind: str) -> None:
    begun = threading.Event()
    told: list[float] = []

    def sync() -> None:
        begun.set()
        while not current().cancelled():
            time.sleep(0.005)
        told.append(time.monotonic())
        raise Cancelled

    async def coroutine() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            told.append(time.monotonic())

    handler = handler_of(sync if kind == "thread" else coroutine, type="long")
    async with stage.worker(handler, lease=LEASE, beat=BEAT):
        job_id = await stage.submit("long")
        await asyncio.to_thread(begun.wait, 20)
        asked = time.monotonic()
        await stage.engine.cancel([job_id], OPERATOR)
        job = await stage.end_of(job_id)
    assert (job.state, job.reason) == (State.CANCELLED, Reason.CANCEL_REQUESTED)
    # One beat, and what a busy machine adds.
    assert told[0] - asked < BEAT.total_seconds() + 1


async def test_the_job_of_a_thread_that_ignores_its_cancel_is_cancelled_nevertheless(
    stage: Stage, stuck: threading.Event
) -> None:
    begun = threading.Event()

    def deaf() -> None:
        begun.set()
        stuck.wait(timeout=60)

    async with stage.worker(deaf, lease=LEASE, beat=BEAT, stop_grace=GRACE):
        job_id = await stage.submit("deaf")
        await asyncio.to_thread(begun.wait, 20)
        await stage.engine.cancel([job_id], OPERATOR)
        job = await stage.end_of(job_id)
    assert job.state is State.CANCELLED


async def test_many_cancels_racing_many_ends_leave_each_job_with_one_end(stage: Stage) -> None:
    async def short() -> None:
        await asyncio.sleep(0.01)

    ids = await stage.submit_many(200, "short")
    async with stage.worker(short, concurrency=20, lease=LEASE, beat=timedelta(milliseconds=50)):
        for start in range(0, 200, 20):
            await stage.engine.cancel(ids[start : start + 20 : 2], OPERATOR)
        jobs = await stage.ends_of(ids)
    assert {job.state for job in jobs} <= {State.COMPLETED, State.CANCELLED}
    assert all(job.attempts <= 1 and job.fence <= 1 for job in jobs)
