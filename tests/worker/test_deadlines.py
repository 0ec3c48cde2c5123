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
from worker.environment import OPERATOR, WorkerEnvironment

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


async def test_an_async_handler_past_its_limit_is_cancelled(env: WorkerEnvironment) -> None:
    cleaned = threading.Event()

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.set()

    async with env.worker(slow, concurrency=1), asyncio.timeout(20):
        job = await env.end_of(await env.submit("slow", timeout=SHORT, max_attempts=1))
    assert cleaned.is_set()
    assert (job.state, job.reason) == (State.DEAD, Reason.EXHAUSTED)
    assert job.error is not None
    assert (job.error.kind, job.error.message) == ("HandlerTimedOut", "ran past its limit of 0.15 s")
    assert "in slow" in job.error.traceback


async def test_the_watchdog_does_not_check_jobs_that_end_at_once(
    env: WorkerEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
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

    async with env.worker(quick):
        for _ in range(3):
            await env.end_of(await env.submit("quick"))
        assert checks <= 1, "except the first one, when the worker starts"


async def test_the_watchdog_checks_new_attempts_only_if_some_are_left(
    env: WorkerEnvironment, stuck: threading.Event, monkeypatch: pytest.MonkeyPatch
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

    async with env.worker(quick, slow):
        await env.end_of(await env.submit("quick"))
        (watchdog,) = watchdogs
        assert watchdog._alarm.at == inf
        long_one = await env.submit("slow")
        await env.until(long_one, lambda job: job.state is State.RUNNING)
        await env.end_of(await env.submit("quick"))
        assert watchdog._alarm.at < inf
        stuck.set()
        await env.end_of(long_one)
        assert watchdog._alarm.at == inf


async def test_the_jobs_own_limit_goes_before_the_handlers(env: WorkerEnvironment) -> None:
    async def slow() -> str:
        await asyncio.sleep(0.4)
        return "done"

    async with env.worker(handler_of(slow, timeout=SHORT)):
        patient = await env.submit("slow", timeout=timedelta(minutes=1))
        hasty = await env.submit("slow", max_attempts=1)
        assert [job.state for job in await env.ends_of([patient, hasty])] == [State.COMPLETED, State.DEAD]


async def test_a_thread_can_see_that_its_time_is_over(env: WorkerEnvironment) -> None:
    def polite() -> None:
        job = current()
        while not job.cancelled():
            time.sleep(0.005)
        job.heartbeat()

    async with env.worker(polite):
        job = await env.end_of(await env.submit("polite", timeout=SHORT, max_attempts=1))
    assert job.error is not None
    assert job.error.kind == "HandlerTimedOut"


async def test_a_thread_that_ignores_its_stop_is_abandoned_and_replaced(
    env: WorkerEnvironment, stuck: threading.Event
) -> None:
    def deaf() -> str:
        stuck.wait(timeout=60)
        return "too late"

    async with env.worker(deaf, qsync, concurrency=1, stop_grace=GRACE):
        job_id = await env.submit("deaf", timeout=SHORT, max_attempts=1)
        job = await env.end_of(job_id)
        other = await env.end_of(await env.submit("qsync"))
        stuck.set()
        again = await env.end_of(await env.submit("qsync"))
    assert (job.state, other.state, again.state) == (State.DEAD, State.COMPLETED, State.COMPLETED)
    assert await env.look(job_id) == job


async def test_the_number_of_abandoned_threads_is_bounded(env: WorkerEnvironment, stuck: threading.Event) -> None:
    """Two slots: two stuck threads may be replaced; with four the worker takes nothing on until one comes back."""

    def deaf() -> None:
        stuck.wait(timeout=60)

    ids = await env.submit_many(6, "deaf", timeout=timedelta(milliseconds=20), max_attempts=1)
    async with env.worker(deaf, concurrency=2, stop_grace=timedelta(milliseconds=20)):
        for job_id in ids[:4]:
            await env.end_of(job_id)
        left = [await env.look(job_id) for job_id in ids[4:]]
        assert {job.state for job in left} == {State.PENDING}
        stuck.set()
        await env.ends_of(ids[4:])


async def test_a_coroutine_that_ignores_its_cancellation_is_abandoned(
    env: WorkerEnvironment, stuck: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    async def stubborn() -> None:
        while not stuck.is_set():
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                continue

    async with env.worker(stubborn, quick, concurrency=1, stop_grace=GRACE):
        job = await env.end_of(await env.submit("stubborn", timeout=SHORT, max_attempts=1))
        other = await env.end_of(await env.submit("quick"))
    assert job.error is not None
    assert (job.error.kind, other.state) == ("HandlerTimedOut", State.COMPLETED)
    # It is told once, by us: not again by asyncio, about a task of ours.
    gc.collect()
    assert [record.name for record in caplog.records if record.name == "asyncio"] == []


async def test_a_thread_that_ends_late_within_its_grace_counts_and_later_it_does_not(
    env: WorkerEnvironment, stuck: threading.Event
) -> None:
    def late() -> str:
        while not current().cancelled():
            time.sleep(0.005)
        return "done, if late"

    def too_late() -> str:
        stuck.wait(60)
        return "nobody waits for this"

    async with env.worker(late, too_late, stop_grace=SHORT):
        within, after = [await env.submit(name, timeout=SHORT, max_attempts=1) for name in ("late", "too_late")]
        done, dead = await env.ends_of([within, after])
        stuck.set()
    assert (done.state, done.result) == (State.COMPLETED, '"done, if late"')
    assert dead.state is State.DEAD
    assert (await env.look(after)).result is None


async def test_work_that_is_done_in_spite_of_a_timeout_counts(env: WorkerEnvironment) -> None:
    async def finishes() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "finished all the same"
        return "never"

    async with env.worker(finishes):
        job = await env.end_of(await env.submit("finishes", timeout=SHORT))
    assert (job.state, job.result) == (State.COMPLETED, '"finished all the same"')


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_cancel_reaches_a_running_handler_within_a_beat(env: WorkerEnvironment, kind: str) -> None:
    begun = threading.Event()
    times: list[float] = []

    def sync() -> None:
        begun.set()
        while not current().cancelled():
            time.sleep(0.005)
        times.append(time.monotonic())
        raise Cancelled

    async def coroutine() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            times.append(time.monotonic())

    handler = handler_of(sync if kind == "thread" else coroutine, type="long")
    async with env.worker(handler, lease=LEASE, beat=BEAT):
        job_id = await env.submit("long")
        await asyncio.to_thread(begun.wait, 20)
        asked = time.monotonic()
        await env.engine.cancel([job_id], OPERATOR)
        job = await env.end_of(job_id)
    assert (job.state, job.reason) == (State.CANCELLED, Reason.CANCEL_REQUESTED)
    # One beat, and what a busy machine adds.
    assert times[0] - asked < BEAT.total_seconds() + 1


async def test_the_job_of_a_thread_that_ignores_its_cancel_is_cancelled_nevertheless(
    env: WorkerEnvironment, stuck: threading.Event
) -> None:
    begun = threading.Event()

    def deaf() -> None:
        begun.set()
        stuck.wait(timeout=60)

    async with env.worker(deaf, lease=LEASE, beat=BEAT, stop_grace=GRACE):
        job_id = await env.submit("deaf")
        await asyncio.to_thread(begun.wait, 20)
        await env.engine.cancel([job_id], OPERATOR)
        job = await env.end_of(job_id)
    assert job.state is State.CANCELLED


async def test_many_cancels_racing_many_ends_leave_each_job_with_one_end(env: WorkerEnvironment) -> None:
    async def short() -> None:
        await asyncio.sleep(0.01)

    ids = await env.submit_many(200, "short")
    async with env.worker(short, concurrency=20, lease=LEASE, beat=timedelta(milliseconds=50)):
        for start in range(0, 200, 20):
            await env.engine.cancel(ids[start : start + 20 : 2], OPERATOR)
        jobs = await env.ends_of(ids)
    assert {job.state for job in jobs} <= {State.COMPLETED, State.CANCELLED}
    assert all(job.attempts <= 1 and job.fence <= 1 for job in jobs)
