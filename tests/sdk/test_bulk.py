"""Many calls in one batch: each makes the same job as a single call."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from builders import BASE
from rota import Rota
from rota.core.bulk import UniformJobs
from rota.core.errors import InvalidRequest
from rota.core.lifecycle import State
from rota.sdk import task as tasks
from rota.sdk.options import Options
from rota.sdk.task import Call


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Rota]:
    one = Rota(str(tmp_path / "rota.db"))
    yield one
    one.close()


def calls_of(app: Rota, number: int = 3, **options: Any) -> list[Call[int]]:  # noqa: ANN401 - any option
    @app.task(name=f"task {len(app.tasks)}")
    def square(number: int) -> int:
        return number * number

    wanted: Options = {**options}  # type: ignore[typeddict-item]  # as the test says
    task = square.using(**wanted)
    return [task.call(place) for place in range(number)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"delay": "1h", "expires": "2h", "queue": "other", "priority": 9},
        {"run_at": BASE, "tags": ["red"], "meta": {"a": "b"}},
        {"idempotency_key": "k"},
    ],
    ids=", ".join,
)
@pytest.mark.parametrize("number", [0, 1, 2, 20])
def test_each_call_makes_the_job_that_it_makes_by_itself(app: Rota, number: int, options: dict[str, Any]) -> None:
    calls = calls_of(app, number, **options)
    jobs = app._jobs(calls, BASE)
    assert list(jobs) == [call.job(job.id, BASE) for call, job in zip(calls, jobs, strict=True)]
    assert len({job.id for job in jobs}) == number


def test_calls_of_several_tasks_make_each_its_own(app: Rota) -> None:
    calls = [*calls_of(app), *calls_of(app, delay=timedelta(hours=1))]
    jobs = app._jobs(calls, BASE)
    assert [job.type for job in jobs] == ["task 0"] * 3 + ["task 1"] * 3
    assert list(jobs) == [call.job(job.id, BASE) for call, job in zip(calls, jobs, strict=True)]


def test_calls_of_several_spans_belong_each_to_its_own(app: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [f"00-{number:032x}-{number:016x}-01" for number in (1, 1, 2)]
    monkeypatch.setattr(tasks, "current_traceparent", iter(words).__next__)
    jobs = app._jobs(calls_of(app))
    assert [job.meta["traceparent"] for job in jobs] == words


def test_calls_of_one_span_all_belong_to_it(app: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    word = f"00-{1:032x}-{1:016x}-01"
    monkeypatch.setattr(tasks, "current_traceparent", lambda: word)
    jobs = app._jobs(calls_of(app))
    assert isinstance(jobs, UniformJobs)
    assert [job.meta["traceparent"] for job in jobs] == [word] * 3


def test_a_plain_bulk_is_not_made_one_by_one(app: Rota) -> None:
    assert isinstance(app._jobs(calls_of(app)), UniformJobs)


def test_handles_come_in_the_order_of_the_calls(app: Rota) -> None:
    handles = app.submit_many(calls_of(app, 300))
    assert [handle.job.payload for handle in handles[::50]] == [
        f'{{"args":[{number}],"kwargs":{{}}}}' for number in range(0, 300, 50)
    ]


def test_calls_and_handles_are_themselves_and_nobody_else(app: Rota) -> None:
    """They are made as values are, but two that look the same are two submissions, or two holds of a job."""
    call, same = calls_of(app, 1)[0], app.tasks["task 0"].call(0)
    assert call != same
    assert len({call, same}) == 2
    handle = call.submit()
    again = app.get(handle.id)
    assert handle != again
    assert len({handle, again}) == 2
    assert repr(handle) == repr(again) == f"<Handle of job {handle.id}>"


def test_a_call_does_not_show_what_it_is_called_with(app: Rota) -> None:
    """It ends up in logs and in the texts of errors."""
    assert repr(calls_of(app, 1)[0]) == "<Call of task 0>"


def test_a_handle_can_be_patched_in_tests(app: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = calls_of(app, 1)[0].submit()
    monkeypatch.setattr(handle, "result", lambda: 42)
    assert handle.result() == 42


def test_a_handle_can_be_held_loosely(app: Rota) -> None:
    handle = calls_of(app, 1)[0].submit()
    loosely = weakref.ref(handle)
    assert loosely() is handle
    del handle
    assert loosely() is None


@pytest.mark.parametrize(
    ("args", "kwargs", "payload"),
    [
        ((), {}, '{"args":[],"kwargs":{}}'),
        ((1, "ü{}"), {}, '{"args":[1,"ü{}"],"kwargs":{}}'),
        ((1,), {"b": [None]}, '{"args":[1],"kwargs":{"b":[null]}}'),
    ],
)
def test_a_call_is_written_down_as_ever(app: Rota, args: tuple[Any, ...], kwargs: dict[str, Any], payload: str) -> None:
    """The text of a call is part of what its idempotency key stands for, also across releases."""

    @app.task
    def anything(a: object = None, b: object = None) -> None:
        del a, b

    assert anything.call(*args, **kwargs).payload == payload


def test_nothing_is_stored_if_one_call_is_refused(app: Rota) -> None:
    calls = calls_of(app, 3)
    calls[1].payload = '"\0"'
    with pytest.raises(InvalidRequest, match="NUL"):
        app.submit_many(calls)
    (handle,) = app.submit_many(calls[:1])
    assert handle.job.payload == calls[0].payload
    assert app.portal.call(_count(app)) == 1


async def _count(app: Rota) -> int:
    return (await (await app.control()).census()).total(State.PENDING)
