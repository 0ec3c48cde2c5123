"""The Python API: defining tasks, submitting them, and results."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rota import GiveUp, Handle, JobFailed, ResultTimeout, Retry, RetryLater, Rota, RotaError, current
from rota.core.errors import InvalidRequest, KeyReused, QueueFull
from rota.core.lifecycle import State


@dataclass
class Order:
    number: int
    lines: list[str]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Rota]:
    one = Rota(str(tmp_path / "rota.db"))
    yield one
    one.close()


def test_a_task_can_be_called_like_the_function_it_is(app: Rota) -> None:
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    assert add(1, 2) == 3


def test_sync_and_async_tasks_give_their_results(app: Rota) -> None:
    @app.task
    def add(a: int, b: int = 2) -> int:
        return a + b

    @app.task
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return number * 2

    with app.run():
        assert add.submit(1).result(timeout="20s") == 3
        assert double.submit(4).result(timeout="20s") == 8


def test_arguments_and_results_keep_their_types(app: Rota) -> None:
    @app.task
    def grow(order: Order) -> Order:
        assert isinstance(order, Order)
        return Order(order.number + 1, [*order.lines, "more"])

    with app.run():
        assert grow.submit(Order(1, ["some"])).result(timeout="20s") == Order(2, ["some", "more"])


async def test_everything_works_inside_a_running_loop(app: Rota) -> None:
    @app.task
    async def shout(text: str) -> str:
        return text.upper()

    with app.run():
        handle = await shout.asubmit("quiet")
        assert await handle == "QUIET"
        assert await handle.aresult(timeout="5s") == "QUIET"


async def _in_a_group(submission: Coroutine[Any, Any, Handle[Any]]) -> Handle[Any]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(submission)
    return task.result()


async def _from_another_thread(submission: Coroutine[Any, Any, Handle[Any]]) -> Handle[Any]:
    loop = asyncio.get_running_loop()
    return await asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(submission, loop).result())


@pytest.mark.parametrize(
    "way",
    [
        asyncio.create_task,
        _in_a_group,
        lambda submission: asyncio.wait_for(submission, 5),
        asyncio.shield,
        _from_another_thread,
    ],
    ids=["task", "group", "wait_for", "shield", "thread"],
)
async def test_a_submission_is_a_coroutine_like_any_other(
    app: Rota, way: Callable[..., Awaitable[Handle[Any]]]
) -> None:
    mail = app.task(_mail)
    for submit in (partial(mail.asubmit, "ada"), mail.call("ada").asubmit):
        submission = submit()
        assert inspect.iscoroutine(submission)
        handle = await way(submission)
        assert await _state_of(handle) is State.PENDING


async def test_asubmit_is_seen_as_an_async_function(app: Rota) -> None:
    """Web frameworks run what is not in a thread, and drop what it gives: the job was never submitted."""
    mail = app.task(_mail)
    for function in (mail.asubmit, mail.call("ada").asubmit, app.asubmit_many):
        assert inspect.iscoroutinefunction(function)


async def test_arguments_that_do_not_fit_do_no_harm_to_submissions_beside_them(app: Rota) -> None:
    """They were refused at the call, so that gather was never reached, and the other was never awaited."""
    mail: Any = app.task(_mail)
    good: Any
    bad: Any
    good, bad = await asyncio.gather(mail.asubmit("ada"), mail.asubmit(), return_exceptions=True)
    assert await _state_of(good) is State.PENDING
    assert isinstance(bad, InvalidRequest)


async def _mail(to: str) -> None:
    del to


async def _state_of(handle: Handle[Any]) -> State:
    return await asyncio.to_thread(lambda: handle.state)


def test_a_task_that_gives_up_is_dead_with_its_reason(app: Rota) -> None:
    @app.task(retry=5)
    def charge(amount: int) -> None:
        raise GiveUp(f"bad card for {amount}")

    with app.run():
        with pytest.raises(JobFailed, match="bad card for 7") as failure:
            charge.submit(7).result(timeout="20s")
        assert failure.value.job.attempts == 1


def test_a_task_that_asks_for_later_is_not_counted(app: Rota) -> None:
    seen: list[int] = []

    @app.task(retry=1)
    def patient() -> int:
        seen.append(current().attempt)
        if len(seen) < 3:
            raise RetryLater(0.01)
        return len(seen)

    with app.run():
        assert patient.submit().result(timeout="20s") == 3
    assert seen == [1, 1, 1]


def test_failures_are_retried_as_the_task_says(app: Rota) -> None:
    tries: list[int] = []

    @app.task(retry=Retry(3, delays=[0.01]))
    def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("away")
        return "there"

    with app.run():
        assert flaky.submit().result(timeout="20s") == "there"


def test_the_same_key_is_the_same_job_and_another_call_under_it_is_refused(app: Rota) -> None:
    @app.task
    def add(a: int) -> int:
        return a

    first = add.using(idempotency_key="k").submit(1)
    assert add.using(idempotency_key="k").submit(1).id == first.id
    with pytest.raises(KeyReused, match="'k'"):
        add.using(idempotency_key="k").submit(2)


def test_many_calls_are_submitted_in_one_go(app: Rota) -> None:
    @app.task
    def square(number: int) -> int:
        return number * number

    with app.run():
        handles = app.submit_many(square.call(number) for number in range(50))
        assert [handle.result(timeout="20s") for handle in handles] == [number * number for number in range(50)]


def test_a_job_can_be_cancelled_and_taken_hold_of_again(app: Rota) -> None:
    @app.task
    def never() -> None: ...

    handle: Handle[None] = never.using(delay="1h").submit()
    assert app.get(handle.id).state is State.SCHEDULED
    handle.cancel()
    assert app.get(handle.id).state is State.CANCELLED
    with pytest.raises(InvalidRequest, match="already ended"):
        handle.cancel()


def test_whatever_python_says_of_a_job_names_it_by_its_id_and_no_number(app: Rota) -> None:
    @app.task(retry=1)
    def fail(secret: str) -> None:
        raise ValueError(len(secret))

    handle = fail.using(delay="1h").submit("hush")
    said = [repr(handle), repr(handle.job), repr(handle.cancel())]
    with pytest.raises(InvalidRequest) as refusal:
        handle.cancel()
    handle.retry()
    with app.run(), pytest.raises(JobFailed) as failure:
        handle.result(timeout="20s")
    with pytest.raises(InvalidRequest, match="not an id") as confusion:
        app.get(failure.value.job.id)  # type: ignore[arg-type]
    said += [str(refusal.value), str(failure.value), repr(failure.value.job)]
    assert [one for one in said if handle.id not in one or str(failure.value.job.id) in one or "hush" in one] == []
    assert handle.id in str(confusion.value)


def test_waiting_ends_in_time_and_the_job_goes_on(app: Rota) -> None:
    @app.task
    def never() -> None: ...

    with pytest.raises(ResultTimeout, match="still pending"):
        never.submit().result(timeout=0.05)


MISTAKES: dict[str, Callable[[Any], object]] = {
    "twice": lambda app: [app.task(name="x")(lambda: None), app.task(name="x")(lambda: None)],
    "priority": lambda app: app.task(priority=11)(lambda: None),
    "not an option": lambda app: app.task(colour="red")(lambda: None),
    "either cron or every": lambda app: app.task(cron="* * * * *", every="5m")(lambda: None),
    "duration": lambda app: app.task(timeout="soon")(lambda: None),
    "cron: 5 is not text; write": lambda app: app.task(cron=5)(lambda: None),
    "tz: 5 is not text; write": lambda app: app.task(cron="* * * * *", tz=5)(lambda: None),
    "url: 5 is not text; give": lambda _: Rota(5),  # type: ignore[arg-type]
    "name: 5 cannot be the name of an app; give": lambda _: Rota(name=5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_in_a_definition_is_refused_at_once(app: Rota, words: str) -> None:
    with pytest.raises(RotaError, match=words):
        MISTAKES[words](app)


def test_arguments_that_do_not_fit_or_cannot_be_json_are_refused_at_submission(app: Rota) -> None:
    @app.task
    def add(a: int) -> int:
        return a

    with pytest.raises(InvalidRequest, match="missing"):
        add.submit()  # type: ignore[call-arg]
    with pytest.raises(InvalidRequest, match="cannot be written as JSON"):
        add.submit(object())  # type: ignore[arg-type]


def test_arguments_are_checked_against_the_annotations_at_submission(app: Rota) -> None:
    """They were taken as they came, and the job failed when it ran."""

    @app.task
    def ship(order: Order, to: str, count: int = 1, *, marks: dict[int, str] | None = None) -> None:
        del order, to, count, marks

    @app.task
    def charge(amount: int) -> None:
        del amount

    order = Order(1, ["some"])
    wrong: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
        "'charge': argument 'amount': Expected `int`, got `str`": (charge, ("10",), {}),
        "argument 'amount': Expected `int`, got `null`": (charge, (None,), {}),
        "unexpected argument 'amont'; did you mean 'amount'": (charge, (), {"amont": 10}),
        "missing a required argument: 'amount'": (charge, (), {}),
        "too many positional": (charge, (1, 2), {}),
        "argument 'to': Expected `str`, got `int`": (ship, (order, 5), {}),
        "argument 'count': Expected `int`, got `str`": (ship, (order, "a"), {"count": "two"}),
        "argument 'order': Expected `object`, got `int`": (ship, (7, "a"), {}),
        "argument 'order': .*missing required field `number`": (ship, ({"lines": []}, "a"), {}),
        "argument 'marks': Expected `str`, got `int`": (ship, (order, "a"), {"marks": {1: 1}}),
    }
    for words, (task, args, kwargs) in wrong.items():
        for call in (task.submit, task.call, lambda *a, **k: task.using(priority=7).submit(*a, **k)):  # noqa: B023
            with pytest.raises(InvalidRequest, match=words):
                call(*args, **kwargs)
    for args, kwargs in (
        ((order, "a"), {}),
        ((order, "a", 2), {"marks": {1: "x"}}),
        (({"number": 1, "lines": []}, "a"), {}),
    ):
        ship.call(*args, **kwargs)  # type: ignore[arg-type]


def test_arguments_without_an_annotation_are_taken_as_they_are(app: Rota) -> None:
    def loose(a, b: Nowhere = 1, *rest, **named):  # type: ignore[no-untyped-def, name-defined] # noqa: ANN001, ANN002, ANN003, ANN202, F821
        return [a, b, *rest, *named.items()]

    task = app.task(loose)
    with app.run():
        assert task.submit(1, "b", None, c=2).result(timeout="20s") == [1, "b", None, ["c", 2]]


def test_a_submission_by_name_takes_the_defaults_of_a_task_of_the_app(app: Rota) -> None:
    @app.task(queue="mail", priority=8, timeout="30s", retry=7, tags=["slow"], delay="1h")
    def send(to: str = "") -> str:
        return to

    job = app.submit_by_name("send", {"to": "ann"}).job
    assert (job.queue, job.priority, job.max_attempts, tuple(job.tags)) == ("mail", 8, 7, ("slow",))
    assert (job.timeout, job.state) == (send.submit("ann").job.timeout, State.SCHEDULED)
    other = app.submit_by_name("send", priority=2, retry=None).job  # type: ignore[arg-type]
    assert (other.queue, other.priority, other.max_attempts) == ("mail", 2, app.settings.max_attempts)
    unknown = app.submit_by_name("elsewhere").job
    assert (unknown.queue, unknown.priority) == ("default", 5)


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ({"amont": 10}, r"task 'charge': .*unexpected argument 'amont'; did you mean 'amount'\?"),
        ({"amount": "ten"}, r"task 'charge': argument 'amount': Expected `int`, got `str`"),
        ({"args": [1, "a", 3]}, r"task 'charge': .*too many positional arguments"),
        (None, r"task 'charge': argument 'amount': Expected `int`, got `null`"),
    ],
)
def test_a_submission_by_name_of_a_task_of_the_app_checks_its_arguments(app: Rota, payload: object, words: str) -> None:
    """Such a job was stored, and died in the worker."""

    @app.task
    def charge(amount: int, currency: str = "EUR") -> str:
        return f"{amount} {currency}"

    with pytest.raises(InvalidRequest, match=words) as refusal:
        app.submit_by_name("charge", payload)
    assert refusal.value.field == "payload"
    assert app.submit_by_name("elsewhere", payload).id
    with app.run():
        handles = [app.submit_by_name("charge", good) for good in ({"amount": 3}, {"args": [3]}, 3)]
        assert [one.result(timeout="20s") for one in handles] == ["3 EUR"] * 3


def test_a_submission_by_name_has_the_key_that_the_task_makes_of_an_argument(app: Rota) -> None:
    """`per=` was ignored, so the limit of the key did not hold for such jobs."""

    @app.task(per="customer", max_running=1)
    def export(customer: str, year: int = 2026) -> str:
        return f"{customer} {year}"

    typed = export.submit("ann").job
    for payload in ({"customer": "ann"}, {"args": ["ann"]}, "ann"):
        assert app.submit_by_name("export", payload).job.concurrency_key == typed.concurrency_key
    other = app.submit_by_name("export", {"customer": "ann"}, concurrency_key="mine").job
    assert other.concurrency_key == "mine"


def test_a_recurring_task_is_put_up_when_it_runs_and_stays_as_it_is_the_next_time(app: Rota) -> None:
    @app.task(cron="0 3 * * *", tz="Europe/Berlin")
    def report() -> None: ...

    for _ in range(2):
        with app.run():
            engine = app.portal.call(app.link()).engine
            assert engine is not None
            schedules = app.portal.call(engine.schedules.all())
            assert [(one.name, one.rule, one.zone, one.version) for one in schedules] == [
                ("report", "0 3 * * *", "Europe/Berlin", 1)
            ]


def test_a_full_queue_is_said_to_be_full(app: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_QUEUE_SIZE", "1")

    @app.task(queue="narrow")
    def work() -> None: ...

    work.submit()
    with pytest.raises(QueueFull, match="'narrow' is full") as refusal:
        work.submit()
    assert refusal.value.handles == [None]
