"""Whatever a handler does becomes an outcome, and harms no other job."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import json
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, NoReturn

import pytest

from rota.core.lifecycle import State
from rota.core.log_lines import LONGEST_MESSAGE, lines_of
from rota.core.retry import Backoff, Growth
from rota.core.settlement import Reason
from rota.worker import GiveUp, RetryLater, current, handler_of
from rota.worker.attempt import RunningAttempt
from worker.environment import WorkerEnvironment

AT_ONCE = Backoff(growth=Growth.CONSTANT, base=timedelta(0))


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Opaque:
    """Nothing that JSON knows."""


async def add(a: int, b: int) -> int:
    return a + b


def multiply(a: int, b: int) -> int:
    return a * b


@pytest.mark.parametrize(("job_type", "result"), [("add", "5"), ("multiply", "6")])
async def test_a_result_is_kept_as_json(env: WorkerEnvironment, job_type: str, result: str) -> None:
    async with env.worker(add, multiply):
        job = await env.end_of(await env.submit(job_type, '{"args": [2, 3]}'))
    assert (job.state, job.result, job.attempts, job.worker) == (State.COMPLETED, result, 1, "ada")


@pytest.mark.parametrize("job_type", ["add", "multiply"])
async def test_what_has_run_is_gone_without_the_collector(env: WorkerEnvironment, job_type: str) -> None:
    """Rings of objects, one for each job, cost a busy worker a twelfth of its time."""
    gc.collect()
    gc.disable()
    try:
        async with env.worker(add, multiply, concurrency=2):
            for job in [await env.submit(job_type, '{"args": [2, 3]}') for _ in range(20)]:
                await env.end_of(job)
            # Whoever ran them may still have the last one at hand.
            assert sum(type(one) is RunningAttempt for one in gc.get_objects()) <= 4
    finally:
        gc.enable()


async def test_a_failure_is_tried_again_and_then_dead_with_its_traceback(env: WorkerEnvironment) -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("no such order")

    async with env.worker(fails), env.scheduler():
        job = await env.end_of(await env.submit("fails", max_attempts=2, backoff=AT_ONCE))
    assert (job.state, job.reason, job.attempts) == (State.DEAD, Reason.EXHAUSTED, 2)
    assert job.error is not None
    assert (job.error.kind, job.error.message) == ("ValueError", "no such order")
    assert "in fails" in job.error.traceback
    assert "in _perform" not in job.error.traceback


async def test_what_a_handler_declares_permanent_is_not_tried_again(env: WorkerEnvironment) -> None:
    def fails() -> NoReturn:
        raise KeyError("x")

    def gives_up() -> NoReturn:
        raise GiveUp("bad card")

    def only_timeouts() -> NoReturn:
        raise ValueError("not one")

    handlers = (
        handler_of(fails, give_up_on=(LookupError,)),
        gives_up,
        handler_of(only_timeouts, retry_on=(TimeoutError,)),
    )
    async with env.worker(*handlers):
        jobs = await env.ends_of([await env.submit(name) for name in ("fails", "gives_up", "only_timeouts")])
    assert [(job.reason, job.attempts) for job in jobs] == [(Reason.PERMANENT, 1)] * 3
    assert jobs[1].error is not None
    assert (jobs[1].error.kind, jobs[1].error.message) == ("GiveUp", "bad card")


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_later_is_no_failure_and_uses_no_attempt(env: WorkerEnvironment, kind: str) -> None:
    calls = []

    def later() -> str:
        calls.append(current().attempt)
        if len(calls) < 3:
            raise RetryLater("1ms")
        return "done"

    async def alater() -> str:
        return later()

    handler = handler_of(later if kind == "thread" else alater, type="later")
    async with env.worker(handler), env.scheduler():
        job = await env.end_of(await env.submit("later", max_attempts=1))
    assert (job.state, job.attempts, calls) == (State.COMPLETED, 1, [1, 1, 1])


async def returns_opaque() -> Opaque:
    return Opaque()


async def returns_surrogate() -> str:
    return "\ud800"


async def returns_knot() -> list[Any]:
    knot: list[Any] = []
    knot.append(knot)
    return knot


async def returns_too_much() -> str:
    return "x" * 5000


@pytest.mark.parametrize("handler", [returns_opaque, returns_surrogate, returns_knot, returns_too_much])
async def test_a_result_that_cannot_be_kept_fails_the_job_for_good(env: WorkerEnvironment, handler: Any) -> None:  # noqa: ANN401
    async with env.worker(handler, add, result_bytes=4000):
        job = await env.end_of(await env.submit(handler.__name__))
        other = await env.end_of(await env.submit("add", '{"a": 1, "b": 1}'))
    assert (job.state, job.reason) == (State.DEAD, Reason.PERMANENT)
    assert job.error is not None
    assert "NotJson" in job.error.kind
    assert other.state is State.COMPLETED


def raises_unspeakable() -> NoReturn:
    raise Unspeakable


def raises_exit() -> NoReturn:
    sys.exit(3)


def raises_interrupt() -> NoReturn:
    raise KeyboardInterrupt


def raises_memory() -> NoReturn:
    raise MemoryError


def recurses(depth: int = 0) -> int:
    return recurses(depth + 1)


def raises_surrogates() -> NoReturn:
    raise ValueError("\ud800\0" + "x" * 100_000)


RAISING = [raises_unspeakable, raises_exit, raises_interrupt, raises_memory, recurses, raises_surrogates]


@pytest.mark.parametrize("kind", ["async", "thread"])
@pytest.mark.parametrize("function", RAISING)
async def test_whatever_is_raised_fails_the_job_and_not_the_worker(
    env: WorkerEnvironment, kind: str, function: Callable[[], None]
) -> None:
    async def wrapped() -> None:
        function()

    handler = handler_of(function if kind == "thread" else wrapped, type="raises")
    async with env.worker(handler, add, multiply):
        job = await env.end_of(await env.submit("raises", max_attempts=1))
        others = [await env.submit(name, '{"args": [1, 1]}') for name in ("add", "multiply")]
        assert [one.state for one in await env.ends_of(others)] == [State.COMPLETED] * 2
    assert (job.state, job.reason) == (State.DEAD, Reason.EXHAUSTED)
    assert job.error is not None
    assert len(job.error.message) <= 4000
    json.dumps([job.error.kind, job.error.message, job.error.traceback]).encode()


async def test_wrong_arguments_are_a_permanent_error_with_a_message(env: WorkerEnvironment) -> None:
    async with env.worker(add):
        job = await env.end_of(await env.submit("add", '{"a": 1, "b": "two"}'))
    assert job.reason is Reason.PERMANENT
    assert job.error is not None
    assert "argument 'b'" in job.error.message


async def test_a_type_without_a_handler_is_never_claimed(env: WorkerEnvironment) -> None:
    async with env.worker(add):
        unknown = await env.submit("unheard_of")
        await env.end_of(await env.submit("add", '{"args": [1, 2]}'))
    job = await env.look(unknown)
    assert (job.state, job.fence) == (State.PENDING, 0)


async def test_fail_rate_fails_as_often_as_the_dice_say(env: WorkerEnvironment) -> None:
    rng = Random(7)
    thrown = iter([rng.random() for _ in range(10_000)])
    async with env.worker(add, fail_rate=0.5, rng=lambda: next(thrown)):
        jobs = await env.ends_of(await env.submit_many(60, "add", payload='{"args": [1, 2]}', max_attempts=1))
    failed = [job for job in jobs if job.state is State.DEAD]
    assert 15 < len(failed) < 45
    assert {job.error.kind for job in failed if job.error is not None} == {"InjectedFailure"}


LEAK: contextvars.ContextVar[str] = contextvars.ContextVar("leak", default="clean")


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_what_one_job_sets_in_its_context_the_next_does_not_see(env: WorkerEnvironment, kind: str) -> None:
    def leaks() -> str:
        seen = LEAK.get()
        LEAK.set("dirty")
        return seen

    async def aleaks() -> str:
        seen = leaks()
        await asyncio.sleep(0)
        assert LEAK.get() == "dirty"
        return seen

    handler = handler_of(leaks if kind == "thread" else aleaks, type="leaks")
    async with env.worker(handler, concurrency=1):
        jobs = await env.ends_of(await env.submit_many(5, "leaks"))
    assert [job.result for job in jobs] == ['"clean"'] * 5


async def test_a_handler_that_cancels_its_own_task_harms_only_itself(env: WorkerEnvironment) -> None:
    async def cancels_late() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    async def cancels() -> None:
        await cancels_late()
        await asyncio.sleep(0)

    async def innocent() -> int:
        await asyncio.sleep(0)
        async with asyncio.timeout(1):
            await asyncio.sleep(0)
        return 1

    async with env.worker(cancels, cancels_late, innocent, concurrency=1):
        ids = [await env.submit(name, max_attempts=1) for name in ("cancels", "innocent", "cancels_late", "innocent")]
        jobs = await env.ends_of(ids)
    assert [job.state for job in jobs] == [State.DEAD, State.COMPLETED, State.COMPLETED, State.COMPLETED]


async def test_handlers_that_wait_run_side_by_side(env: WorkerEnvironment) -> None:
    """Each of ten handlers waits for all ten to be there."""
    barrier = asyncio.Barrier(10)

    async def meets() -> None:
        async with asyncio.timeout(10):
            await barrier.wait()

    async with env.worker(meets, concurrency=10):
        jobs = await env.ends_of(await env.submit_many(10, "meets"))
    assert {job.state for job in jobs} == {State.COMPLETED}


async def test_sync_handlers_run_side_by_side(env: WorkerEnvironment) -> None:
    barrier = threading.Barrier(10)

    def meets() -> None:
        barrier.wait(timeout=10)

    async with env.worker(meets, concurrency=10):
        jobs = await env.ends_of(await env.submit_many(10, "meets"))
    assert {job.state for job in jobs} == {State.COMPLETED}


async def test_a_handler_that_never_suspends_does_not_keep_the_loop_for_itself(env: WorkerEnvironment) -> None:
    """A flood of jobs that never suspend, and one that wants to be woken in between."""

    async def floods() -> None:
        return

    async def wakes() -> str:
        for _ in range(20):
            await asyncio.sleep(0)
        return "woken"

    async with env.worker(floods, wakes, concurrency=8):
        flood = await env.submit_many(2000, "floods")
        job = await env.end_of(await env.submit("wakes", priority=10))
        await env.ends_of(flood[-1:])
    assert job.result == '"woken"'


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_handler_can_read_its_job_and_its_log_is_kept(env: WorkerEnvironment, kind: str) -> None:
    def tells() -> list[Any]:
        job = current()
        job.progress(1, 2, "half")
        job.log("first line")
        job.log("x" * 20_000)
        job.log("last line")
        assert not job.cancelled()
        assert job.deadline is not None
        left = (job.deadline - datetime.now(UTC)).total_seconds()
        return [job.id, job.type, job.attempt, job.max_attempts, 50 < left <= 60]

    async def atells() -> list[Any]:
        return tells()

    handler = handler_of(tells if kind == "thread" else atells, type="tells", timeout=timedelta(minutes=1))
    async with env.worker(handler):
        job_id = await env.submit("tells", max_attempts=4)
        job = await env.end_of(job_id)
    (attempt,) = await env.engine.store.attempts(job_id)
    assert job.result is not None
    assert json.loads(job.result)[1:] == ["tells", 1, 4, True]
    first, cut_line, last = lines_of(attempt.log_tail or "")
    assert (first.message, last.message, last.number) == ("first line", "last line", 3)
    assert cut_line.message == "x" * (LONGEST_MESSAGE - 1) + "…"
    # The last progress goes with the outcome.
    assert json.loads(attempt.progress or "")["message"] == "half"


def test_outside_of_a_handler_there_is_no_current_job() -> None:
    with pytest.raises(LookupError):
        current()


@pytest.fixture(autouse=True)
def _no_leak() -> Iterator[None]:
    yield
    assert LEAK.get() == "clean"
