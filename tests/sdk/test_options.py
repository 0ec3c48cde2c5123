"""Options of tasks and submissions: what is refused, where, and with which words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rota import Options, Retry, Rota
from rota.core.errors import InvalidRequest
from rota.core.lifecycle import State


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Rota]:
    one = Rota(str(tmp_path / "rota.db"))
    yield one
    one.close()


def _nothing() -> None: ...


async def _nothing_async() -> None: ...


#: Wrong options, and the words that an error must have: the option, the value, and what to do.
WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({"colour": "red"}, ["'colour'", "not an option", "queue"]),
    ({"prioritty": 3}, ["'prioritty'", "did you mean 'priority'?"]),
    ({"concurrency_key": ""}, ["concurrency_key", "''"]),
    ({"concurrency_key": 5}, ["concurrency_key", "5", "one at a time"]),
    ({"queue": ""}, ["queue", "''"]),
    ({"queue": 5}, ["queue", "5", 'queue="mail"']),
    ({"queue": "a b"}, ["queue", "'a b'", "blank"]),
    ({"queue": "a/b"}, ["queue", "'a/b'", "slash"]),
    ({"priority": 11}, ["priority", "11", "10"]),
    ({"priority": 0}, ["priority", "0", "1"]),
    ({"priority": True}, ["priority", "True"]),
    ({"priority": "high"}, ["priority", "'high'"]),
    ({"delay": "soon"}, ["delay", "'soon'", "5m"]),
    ({"delay": -1}, ["delay", "-1"]),
    ({"delay": True}, ["delay", "True"]),
    ({"delay": [1]}, ["delay", "[1]"]),
    ({"delay": 1, "run_at": datetime(2030, 1, 1, tzinfo=UTC)}, ["run_at", "delay", "not both"]),
    ({"expires": "never"}, ["expires", "'never'"]),
    ({"expires": 0}, ["expires", "longer"]),
    ({"timeout": 0}, ["timeout", "longer"]),
    ({"timeout": "x"}, ["timeout", "'x'"]),
    ({"retry": True}, ["retry", "True", "retry=5"]),
    ({"retry": 0}, ["retry", "0", "1"]),
    ({"retry": -3}, ["retry", "-3"]),
    ({"retry": 1.5}, ["retry", "1.5"]),
    ({"retry": "often"}, ["retry", "'often'", "retry=5"]),
    ({"delivery": "exactly_once"}, ["delivery", "'exactly_once'", "at_least_once", "at_most_once"]),
    ({"delivery": 1}, ["delivery", "1", "at_most_once"]),
    ({"tags": "abc"}, ["tags", "'abc'", 'tags=["abc"]']),
    ({"tags": [1]}, ["tags", "[1]", "str"]),
    ({"tags": 7}, ["tags", "7"]),
    ({"tags": [""]}, ["tags"]),
    ({"tags": [str(number) for number in range(33)]}, ["tags", "32"]),
    ({"meta": {"k": 1}}, ["meta", "1", "str"]),
    ({"meta": {1: "k"}}, ["meta", "str"]),
    ({"meta": "k=v"}, ["meta", "'k=v'"]),
    ({"meta": [("k", "v")]}, ["meta"]),
    ({"on_success": "x"}, ["on_success", "'x'", "task.call("]),
    ({"on_failure": 5}, ["on_failure", "5", "task.call("]),
]
#: Wrong options of one submission. For a task they are refused in any case.
WRONG_OF_ONE: list[tuple[dict[str, Any], list[str]]] = [
    ({"idempotency_key": ""}, ["idempotency_key", "''"]),
    ({"idempotency_key": 7}, ["idempotency_key", "7"]),
    ({"idempotency_key": "k" * 201}, ["idempotency_key", "200"]),
    ({"run_at": datetime(2030, 1, 1)}, ["run_at", "2030", "zone", "UTC"]),  # noqa: DTZ001 - the mistake
    ({"run_at": "2030-01-01"}, ["run_at", "'2030-01-01'", "datetime"]),
    ({"run_at": datetime(9999, 1, 1, tzinfo=UTC)}, ["run_at", "9999"]),
    ({"tx": "BEGIN"}, ["tx", "connection"]),
]
WAYS: dict[str, Callable[[Any, dict[str, Any]], object]] = {
    "using": lambda app, options: app.task(_nothing).using(**options).submit(),
    "submit_by_name": lambda app, options: app.submit_by_name("other", **options),
}


@pytest.mark.parametrize("way", [*WAYS, "decorator", "decorator of async"])
@pytest.mark.parametrize(("options", "words"), WRONG, ids=lambda one: str(one)[:40])
def test_a_wrong_option_is_refused_with_its_name_its_value_and_a_remedy(
    app: Rota, way: str, options: dict[str, Any], words: list[str]
) -> None:
    functions = {"decorator": _nothing, "decorator of async": _nothing_async}
    with pytest.raises(InvalidRequest) as refusal:
        app.task(**options)(functions[way]) if way in functions else WAYS[way](app, options)
    _assert_says(refusal.value, options, words)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("options", "words"), WRONG_OF_ONE, ids=lambda one: str(one)[:40])
def test_a_wrong_option_of_one_submission_is_refused_as_well(
    app: Rota, way: str, options: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        WAYS[way](app, options)
    _assert_says(refusal.value, options, words)


def _assert_says(refusal: InvalidRequest, options: dict[str, Any], words: list[str]) -> None:
    assert [word for word in words if word not in str(refusal)] == [], refusal
    assert refusal.field is not None
    assert refusal.field.partition(".")[0] in options


def test_a_wrong_option_is_refused_where_it_is_written(app: Rota) -> None:
    """`using` only noted it, and the error came at the submission, perhaps from another place."""
    task = app.task(_nothing)
    with pytest.raises(InvalidRequest, match="priority"):
        task.using(priority=11)
    with pytest.raises(InvalidRequest, match="idempotency_key"):
        task.using(idempotency_key="")


@pytest.mark.parametrize(
    ("name", "value"),
    [("tx", object()), ("run_at", datetime(2030, 1, 1, tzinfo=UTC)), ("idempotency_key", "k")],
)
def test_what_belongs_to_one_submission_is_refused_for_a_task_and_for_a_follow_up(
    app: Rota, name: str, value: object
) -> None:
    options: Any = {name: value}
    with pytest.raises(InvalidRequest, match=rf"{name}: .*\.using\({name}=…\)"):
        app.task(**options)(_nothing)
    task = app.task(_nothing)
    with pytest.raises(InvalidRequest, match=f"on_success: .*{name}"):
        task.using(on_success=task.using(**options).call())


def test_a_task_without_a_parameter_is_no_follow_up_but_a_call_of_it_is(app: Rota) -> None:
    task: Any = app.task(_nothing)
    with pytest.raises(InvalidRequest, match=r"on_success: <Task _nothing>.*task\.call\(…\)"):
        task.using(on_success=task)
    assert task.using(on_success=task.call()).submit().job.on_success.type == "_nothing"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"max_attempts": 0}, ["retry.max_attempts", "0"]),
        ({"max_attempts": True}, ["retry.max_attempts", "True"]),
        ({"base": "x"}, ["retry.base", "'x'"]),
        ({"cap": -1}, ["retry.cap", "-1"]),
        ({"factor": 0.5}, ["retry.factor", "0.5"]),
        ({"factor": "fast"}, ["retry.factor", "'fast'"]),
        ({"jitter": 2}, ["retry.jitter", "2"]),
        ({"jitter": "some"}, ["retry.jitter", "'some'"]),
        ({"delays": []}, ["retry.delays", "[]"]),
        ({"delays": "5m"}, ["retry.delays", "'5m'", 'delays=["1s", "5m"]']),
        ({"delays": 5}, ["retry.delays", "5"]),
        ({"on": ValueError}, ["retry.on", "on=(ValueError,)"]),
        ({"on": ("ValueError",)}, ["retry.on", "'ValueError'"]),
        ({"give_up_on": [5]}, ["retry.give_up_on", "5"]),
        ({"max_elapsed": "long"}, ["retry.max_elapsed", "'long'"]),
        ({"delays": ["1s"], "base": "2s"}, ["retry.base", "'2s'", "beside delays"]),
        ({"delays": ["1s"], "factor": 3}, ["retry.factor", "beside delays"]),
        ({"delays": ["1s"], "cap": 60}, ["retry.cap", "beside delays"]),
        ({"budget_window": "5m"}, ["retry.budget_window", "'5m'", "give budget"]),
    ],
)
def test_a_wrong_retry_rule_is_refused_when_it_is_made(fields: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        Retry(**fields)
    assert [word for word in words if word not in str(refusal.value)] == [], refusal.value


@pytest.mark.parametrize("executor", ["proc", "", None, 5])
def test_an_unknown_executor_is_refused_at_the_definition(app: Rota, executor: Any) -> None:  # noqa: ANN401 - mistakes
    with pytest.raises(InvalidRequest, match=f"executor: {re.escape(repr(executor))}.*auto, async, thread, process"):
        app.task(executor=executor)(_nothing)


def test_an_executor_that_cannot_run_the_function_is_refused_at_the_definition(app: Rota) -> None:
    with pytest.raises(InvalidRequest, match=r"executor: 'async'.*async function"):
        app.task(executor="async")(_nothing)
    with pytest.raises(InvalidRequest, match=r"executor: 'thread'.*async function"):
        app.task(executor="thread")(_nothing_async)


def _counting() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("send_email", "'send_email' is not a function; write @app.task above"),
        (5, "5 is not a function"),
        (partial(_nothing), "has no name; give one"),
        (_counting, "is a generator"),
    ],
)
def test_what_cannot_be_a_task_is_refused(app: Rota, function: Any, words: str) -> None:  # noqa: ANN401 - mistakes
    """`@app.task("send_email")` said that a text has no `__name__`."""
    with pytest.raises(InvalidRequest, match=words):
        app.task(function)
    assert app.tasks == {}


@pytest.mark.parametrize("name", ["", 5, "a\nb", "n" * 201])
def test_a_wrong_name_is_refused(app: Rota, name: Any) -> None:  # noqa: ANN401 - mistakes
    with pytest.raises(InvalidRequest, match="name: "):
        app.task(name=name)(_nothing)
    with pytest.raises(InvalidRequest, match="name: "):
        app.submit_by_name(name)


def test_a_payload_that_cannot_be_json_is_refused(app: Rota) -> None:
    for payload in (object(), float("nan"), {"a": {1, 2, object()}}):
        with pytest.raises(InvalidRequest, match=r"payload: .*JSON"):
            app.submit_by_name("other", payload)


def test_what_is_no_call_cannot_be_submitted_with_others(app: Rota) -> None:
    task: Any = app.task(_nothing)
    with pytest.raises(InvalidRequest, match=r"calls: <Task _nothing>.*task\.call\(…\)"):
        app.submit_many([task.call(), task])


def test_none_stands_for_an_option_that_is_not_given(app: Rota) -> None:
    task: Any = app.task(queue="mail", tags=["a"])(_nothing)
    job = task.using(queue=None, tags=None, delay=None, idempotency_key=None, tx=None, on_success=None).submit().job
    assert (job.queue, job.tags, job.state) == ("default", (), State.PENDING)
    nothing: Any = dict.fromkeys(Options.__annotations__)
    app.task(name="other", **nothing)(_nothing)
    with app.run():
        assert app.submit_by_name("other", {"args": []}, **nothing).result(timeout="20s") is None


def test_a_time_of_one_submission_goes_before_the_delay_of_its_task(app: Rota) -> None:
    moment = datetime(2040, 1, 1, tzinfo=UTC)
    task = app.task(delay="1h")(_nothing)
    assert task.using(run_at=moment).submit().job.run_at == moment
    later = task.using(run_at=moment).using(delay="2h").submit().job
    assert timedelta(hours=1, minutes=50) < later.run_at - later.created_at < timedelta(hours=2, minutes=1)


def test_a_task_that_starts_at_most_once_is_not_retried(app: Rota) -> None:
    with pytest.raises(InvalidRequest, match="starts once; leave retry out"):

        @app.task(delivery="at_most_once", retry=3)
        def refused() -> None: ...

    @app.task(delivery="at_most_once")
    def once() -> None: ...

    @app.task(retry=4)
    def often() -> None: ...

    assert once.submit().job.max_attempts == 1
    with pytest.raises(InvalidRequest, match="starts once; leave retry out"):
        once.using(retry=2).submit()
    assert often.using(delivery="at_most_once").submit().job.max_attempts == 1
