"""Batch tasks: one call for several jobs, each with its own outcome, on every store and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rota import Handle, JobFailed, Retry, RetryLater, Rota, current
from rota.core.errors import InvalidRequest
from rota.core.lifecycle import State


@pytest.fixture
def app(tmp_path: Path) -> Rota:
    return Rota(str(tmp_path / "rota.db"))


def test_one_call_serves_several_jobs_and_each_gets_its_result(app: Rota) -> None:
    calls: list[list[int]] = []

    @app.task(batch=5, batch_wait="10s")
    def double(numbers: list[int]) -> list[int]:
        calls.append(numbers)
        return [2 * number for number in numbers]

    handles = app.submit_many([double.call(number) for number in range(10)])
    with app.run(concurrency=10):
        assert [handle.result(30) for handle in handles] == [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]
    assert sorted(map(len, calls)) == [5, 5]
    assert sorted(number for call in calls for number in call) == list(range(10))


def test_a_batch_that_is_not_full_starts_after_its_wait(app: Rota) -> None:
    @app.task(batch=100, batch_wait="50ms")
    def count(names: list[str]) -> list[int]:
        return [len(names)] * len(names)

    handles = app.submit_many([count.call("a"), count.call("b")])
    with app.run(concurrency=4):
        assert {handle.result(30) for handle in handles} <= {1, 2}


def test_an_async_batch_runs_on_the_event_loop(app: Rota) -> None:
    @app.task(batch=3, batch_wait="10s")
    async def double(numbers: list[int]) -> list[int]:
        await asyncio.sleep(0)
        return [2 * number for number in numbers]

    handles = app.submit_many([double.call(number) for number in range(3)])
    with app.run(concurrency=3):
        assert [handle.result(30) for handle in handles] == [0, 2, 4]


def ends(handles: list[Handle[Any]]) -> list[State]:
    found = []
    for handle in handles:
        with suppress(JobFailed):
            handle.result(30)
        found.append(handle.state)
    return found


def test_an_exception_in_the_list_fails_that_job_alone(app: Rota) -> None:
    @app.task(batch=3, batch_wait="10s", retry=1)
    def halve(numbers: list[int]) -> list[int | BaseException]:
        return [ValueError(f"{number} is odd") if number % 2 else number // 2 for number in numbers]

    handles = app.submit_many([halve.call(number) for number in (2, 3, 4)])
    with app.run(concurrency=3):
        assert ends(handles) == [State.COMPLETED, State.DEAD, State.COMPLETED]
        error = handles[1].job.error
    assert error is not None
    assert (error.kind, error.message) == ("ValueError", "3 is odd")


def test_an_exception_that_is_raised_fails_all_jobs_of_the_call(app: Rota) -> None:
    tries: list[int] = []

    @app.task(batch=2, batch_wait="10s", retry=Retry(2, base=0.01, jitter=0))
    def fragile(numbers: list[int]) -> None:
        tries.append(len(numbers))
        if len(tries) == 1:
            raise OSError("down")

    handles = app.submit_many([fragile.call(1), fragile.call(2)])
    with app.run(concurrency=2):
        assert ends(handles) == [State.COMPLETED, State.COMPLETED]
        assert [handle.job.attempts for handle in handles] == [2, 2]
    assert tries == [2, 2]


def test_a_job_that_asks_for_later_uses_no_attempt(app: Rota) -> None:
    seen: list[int] = []

    @app.task(batch=2, batch_wait="20ms", retry=1)
    def later(numbers: list[int]) -> list[Any]:
        seen.extend(numbers)
        return [RetryLater(0.01) if seen.count(number) == 1 and number else number for number in numbers]

    handles = app.submit_many([later.call(0), later.call(7)])
    with app.run(concurrency=2):
        assert [handle.result(30) for handle in handles] == [0, 7]
        assert handles[1].job.attempts == 1


@pytest.mark.parametrize("returned", [[1], "ab", 7], ids=str)
def test_a_wrong_number_of_results_fails_the_jobs_and_says_so(app: Rota, returned: Any) -> None:  # noqa: ANN401 - any
    @app.task(batch=2, batch_wait="10s", retry=1)
    def wrong(numbers: list[int]) -> list[int]:
        del numbers
        result: list[int] = returned
        return result

    handles = app.submit_many([wrong.call(1), wrong.call(2)])
    with app.run(concurrency=2):
        assert ends(handles) == [State.DEAD, State.DEAD]
        error = handles[0].job.error
    assert error is not None
    assert "got 2 items and returned" in error.message


def test_a_job_that_is_cancelled_before_the_call_is_left_out(app: Rota) -> None:
    calls: list[list[int]] = []

    @app.task(batch=2, batch_wait="2s")
    def gather(numbers: list[int]) -> None:
        calls.append(numbers)

    first = gather.submit(1)
    with app.run(concurrency=2):
        while first.state is not State.RUNNING:
            pass
        first.cancel()
        with pytest.raises(JobFailed, match="cancelled"):
            first.result(30)
        second = gather.submit(2)
        second.result(30)
    assert calls == [[2]]


def test_no_single_job_is_current_within_a_batch(app: Rota) -> None:
    @app.task(batch=1, retry=1)
    def who(numbers: list[int]) -> list[str]:
        try:
            return [current().id for _ in numbers]
        except LookupError:
            return ["nobody" for _ in numbers]

    handle = who.submit(1)
    with app.run():
        assert handle.result(30) == "nobody"


def test_a_direct_call_takes_one_item(app: Rota) -> None:
    @app.task(batch=10)
    def double(numbers: list[int]) -> list[int]:
        return [2 * number for number in numbers]

    @app.task(batch=10)
    async def triple(numbers: list[int]) -> list[int]:
        return [3 * number for number in numbers]

    assert double(4) == 8
    assert asyncio.run(triple(4)) == 12


def test_arguments_are_checked_by_the_type_of_the_items(app: Rota) -> None:
    @app.task(batch=10)
    def double(numbers: list[int]) -> list[int]:
        return numbers

    with pytest.raises(InvalidRequest, match="argument 'numbers'"):
        double.submit("one")  # type: ignore[arg-type]  # refused


def _two(first: list[int], second: int) -> None: ...


def _one(items: list[int]) -> None: ...


@pytest.mark.parametrize(
    ("function", "options", "field"),
    [
        (_one, {"batch": 0}, "batch"),
        (_one, {"batch": 1001}, "batch"),
        (_one, {"batch": True}, "batch"),
        (_two, {"batch": 10}, "batch"),
        (_one, {"batch": 10, "executor": "process"}, "executor"),
        (_one, {"batch": 10, "executor": "thread"}, "executor"),
        (_one, {"batch": 10, "batch_wait": "soon"}, "batch_wait"),
        (_one, {"batch_wait": "1s"}, "batch_wait"),
        (_one, {"batch": 10, "cron": "@daily"}, "cron"),
    ],
)
def test_what_cannot_work_is_refused_at_the_decorator(
    app: Rota,
    function: Callable[..., None],
    options: dict[str, Any],
    field: str,
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        app.task(**options)(function)
    assert caught.value.field == field


def test_a_batch_that_raises_stop_iteration_fails_its_jobs(app: Rota) -> None:
    """No future accepts this exception, so that the jobs would wait for ever."""

    @app.task(batch=2, batch_wait="10s", retry=1)
    def first(numbers: list[int]) -> list[int]:
        return [next(iter(numbers[:0]))]

    @app.task(batch=2, batch_wait="10s", retry=1)
    def second(numbers: list[int]) -> list[int | BaseException]:
        return [StopIteration(), *numbers[1:]]

    handles = app.submit_many([task.call(number) for task in (first, second) for number in (1, 2)])
    with app.run(concurrency=4):
        states = ends(handles)
    assert states[:2] == [State.DEAD, State.DEAD]
    assert sorted(states[2:]) == [State.COMPLETED, State.DEAD]
