"""Durable waiting from Python: sleeps, events, signals and calls, wherever the handler runs, on every store."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.stores.adapters import SHARED, Adapter
from rota import JobFailed, Rota, current
from rota.core.errors import InvalidRequest
from rota.core.lifecycle import State
from rota.sdk.handle import Handle

PATIENCE = 30


@pytest.fixture(params=SHARED, ids=lambda adapter: adapter.name)
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    adapter: Adapter = request.param
    async for place in adapter.place(tmp_path):
        yield place


@pytest.fixture
def app(url: str) -> Iterator[Rota]:
    app = Rota(url)
    yield app
    app.close()


@pytest.fixture
def file_app(tmp_path: Path) -> Iterator[Rota]:
    app = Rota(str(tmp_path / "rota.db"))
    yield app
    app.close()


class Effects:
    """Counts how often each part of a handler was performed."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, name: str) -> str:
        with self._lock:
            self.counts[name] += 1
        return name

    async def aadd(self, name: str) -> str:
        return self.add(name)


def until(handle: Handle[Any], *states: State) -> None:
    ends = time.monotonic() + PATIENCE
    while handle.state not in states:
        assert time.monotonic() < ends, f"{handle!r} is {handle.state}"
        time.sleep(0.01)


def onboarding(app: Rota, effects: Effects) -> None:
    @app.task
    def invoice(user: int) -> str:
        return f"invoice {user}"

    @app.task(retry=1)
    def onboard(user: int) -> list[object]:
        job = current()
        effects.add("runs")
        job.step("welcome", lambda: effects.add("welcome"))
        job.sleep("trial", 0.2)
        job.step("reminder", lambda: effects.add("reminder"))
        paid = job.wait("paid", event=f"paid:{user}", timeout="60s")
        number = job.call("invoice", invoice, user).result()
        return [paid, number, job.attempt]

    @app.task(retry=1)
    async def aonboard(user: int) -> list[object]:
        job = current()
        effects.add("runs")
        await job.astep("welcome", lambda: effects.aadd("welcome"))
        await job.asleep("trial", 0.2)
        await job.astep("reminder", lambda: effects.aadd("reminder"))
        paid = await job.await_event("paid", event=f"paid:{user}", timeout="60s")
        number = await (await job.acall("invoice", invoice, user)).aresult()
        return [paid, number, job.attempt]


@pytest.mark.parametrize("name", ["onboard", "aonboard"])
def test_a_handler_sleeps_waits_and_calls_and_each_effect_happens_once(app: Rota, name: str) -> None:
    effects = Effects()
    onboarding(app, effects)
    with app.run(concurrency=2):
        handle = app.tasks[name].submit(7)
        until(handle, State.BLOCKED)
        job = handle.job
        assert (job.attempts, job.lease_until) == (0, None)
        assert app.emit("paid:7", {"amount": 3})
        assert not app.emit("paid:7", {"amount": 4})
        assert handle.result(PATIENCE) == [{"amount": 3}, "invoice 7", 1]
    assert effects.counts["welcome"] == effects.counts["reminder"] == 1
    assert effects.counts["runs"] in {3, 4}


def test_a_wait_that_nobody_answers_returns_none(app: Rota) -> None:
    @app.task
    def hope() -> object:
        return current().wait("paid", event="never", timeout=0.1)

    with app.run():
        assert hope.submit().result(PATIENCE) is None


def test_a_suspended_job_holds_no_slot(app: Rota) -> None:
    @app.task
    def hold() -> object:
        return current().wait("go", event="go")

    @app.task
    def other() -> str:
        return "ran"

    with app.run(concurrency=1):
        holds = [hold.submit() for _ in range(3)]
        for one in holds:
            until(one, State.BLOCKED)
        assert other.submit().result(PATIENCE) == "ran"
        app.emit("go", "now")
        assert [one.result(PATIENCE) for one in holds] == ["now"] * 3


def test_a_signal_reaches_one_job_only(file_app: Rota) -> None:
    app = file_app

    @app.task
    def approve() -> object:
        return current().wait("approval", event=current().signal_name("approved"), timeout="60s")

    with app.run():
        first, second = approve.submit(), approve.submit()
        until(first, State.BLOCKED)
        assert first.signal("approved", {"by": "olga"})
        assert not first.signal("approved", {"by": "max"})
        assert first.result(PATIENCE) == {"by": "olga"}
        until(second, State.BLOCKED)


def test_children_that_are_called_before_the_first_result_run_together(file_app: Rota) -> None:
    app = file_app

    @app.task
    def part(number: int) -> int:
        return number * number

    @app.task
    def total() -> int:
        calls = [current().call(f"part {number}", part, number) for number in range(5)]
        assert len({call.id for call in calls}) == 5
        return sum(call.result() for call in calls)

    with app.run():
        assert total.submit().result(PATIENCE) == 30


def test_the_failure_of_a_child_is_raised_and_can_be_caught(file_app: Rota) -> None:
    app = file_app

    @app.task(retry=1)
    def breaks() -> None:
        raise ValueError("no")

    @app.task
    def parent() -> str:
        try:
            current().call("child", breaks).result()
        except JobFailed as failed:
            return f"{failed.job.state} {failed.job.type} {failed}"
        return "fine"

    with app.run():
        text = parent.submit().result(PATIENCE)
    assert text.startswith("dead breaks job ")
    assert text.endswith(" is dead (exhausted): ValueError: no")


def test_code_between_the_waits_may_change_while_a_job_waits(file_app: Rota) -> None:
    app, versions = file_app, Effects()

    @app.task
    def grows() -> list[object]:
        job = current()
        seen: list[object] = []
        if versions.counts["new"]:
            seen.append(job.step("added", lambda: versions.add("added")))
        seen.append(job.wait("go", event="go"))
        return seen

    with app.run():
        handle = grows.submit()
        until(handle, State.BLOCKED)
        versions.add("new")
        app.emit("go", 1)
        assert handle.result(PATIENCE) == ["added", 1]


def test_an_except_exception_does_not_catch_a_suspension_and_finally_is_run(file_app: Rota) -> None:
    app, effects = file_app, Effects()

    @app.task
    def careful() -> object:
        try:
            return current().wait("go", event="go")
        except Exception:  # noqa: BLE001 - the point of the test
            return "caught"
        finally:
            effects.add("finally")

    with app.run():
        handle = careful.submit()
        until(handle, State.BLOCKED)
        app.emit("go", "went")
        assert handle.result(PATIENCE) == "went"
    assert effects.counts["finally"] == 2


def test_waits_in_a_task_group_suspend_the_job(file_app: Rota) -> None:
    app = file_app

    @app.task
    async def both() -> list[object]:
        job = current()
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(job.await_event(name, event=name)) for name in ("one", "two")]
        return [wait.result() for wait in waits]

    with app.run():
        handle = both.submit()
        until(handle, State.BLOCKED)
        app.emit("one", 1)
        app.emit("two", 2)
        assert handle.result(PATIENCE) == [1, 2]


def test_a_wait_within_an_effect_is_refused_at_once(file_app: Rota) -> None:
    """Otherwise the effect would be in doubt when the wait is over, and the job would be parked days later."""
    effects = Effects()

    @file_app.task(retry=1)
    def onboard() -> None:
        current().step("welcome", lambda: current().sleep("trial", "3d"))

    @file_app.task(retry=1)
    async def onboard_async() -> None:
        job = current()

        async def open_transaction() -> None:
            effects.add("welcome")
            await job.await_event("paid", event="paid:7")

        await job.astep("welcome", open_transaction)

    with file_app.run():
        for task in (onboard, onboard_async):
            with pytest.raises(JobFailed, match="step 'welcome' is under way; wait before or after it"):
                task.submit().result(PATIENCE)
    assert effects.counts == {"welcome": 1}


def test_a_key_for_two_kinds_of_steps_is_refused(file_app: Rota) -> None:
    app = file_app

    @app.task(retry=1)
    def confused() -> None:
        current().step("x", lambda: 1)
        current().sleep("x", "1s")

    with app.run(), pytest.raises(JobFailed, match="kind effect, and now for one of kind sleep"):
        confused.submit().result(PATIENCE)


def test_a_key_for_two_events_is_refused(file_app: Rota) -> None:
    app, effects = file_app, Effects()

    @app.task(retry=1)
    def confused() -> None:
        current().wait("x", event=f"event {effects.counts['runs']}", timeout="60s")

    with app.run():
        handle = confused.submit()
        until(handle, State.BLOCKED)
        effects.add("runs")
        app.gateway.portal.call(_wake(app, handle))
        with pytest.raises(JobFailed, match="waits for the event 'event 0', not for 'event 1'"):
            handle.result(PATIENCE)


async def _wake(app: Rota, handle: Handle[Any]) -> None:
    """Wake a job though its wait is not over, as a stale wait would."""
    link = await app.link()
    assert link.engine is not None
    store = link.engine.store
    await store._writer.run(  # type: ignore[attr-defined]
        lambda connection: connection.run(
            "UPDATE rota_job SET state = 'pending', blockers = 0 WHERE id = ?",
            (handle._job_id,),
        )
    )


@pytest.mark.parametrize("kind", ["sleep", "wait", "call"])
def test_a_job_that_may_start_only_once_cannot_wait(file_app: Rota, kind: str) -> None:
    app = file_app

    @app.task
    def child() -> None: ...

    @app.task(delivery="at_most_once")
    def once(kind: str) -> None:
        match kind:
            case "sleep":
                current().sleep("x", "1s")
            case "wait":
                current().wait("x", event="e")
            case _:
                current().call("x", child)

    with app.run(), pytest.raises(JobFailed, match="has delivery at_most_once"):
        once.submit(kind).result(PATIENCE)


def test_a_called_job_with_options_of_a_single_submission_is_refused(file_app: Rota) -> None:
    app = file_app

    @app.task
    def child() -> None: ...

    @app.task(retry=1)
    def parent() -> None:
        current().call("x", child.using(idempotency_key="k"))

    with app.run(), pytest.raises(JobFailed, match="idempotency_key: a job that another one calls cannot have it"):
        parent.submit().result(PATIENCE)


def test_a_cancelled_sleeper_never_wakes(file_app: Rota) -> None:
    app = file_app

    @app.task
    def sleeper() -> None:
        current().sleep("long", "1d")

    with app.run():
        handle = sleeper.submit()
        until(handle, State.SCHEDULED)
        handle.cancel()
        assert handle.state is State.CANCELLED


def test_a_sleeper_that_is_run_now_sleeps_on_until_its_time(file_app: Rota) -> None:
    app, effects = file_app, Effects()

    @app.task
    def sleeper() -> None:
        effects.add("runs")
        current().sleep("long", "1d")

    with app.run():
        handle = sleeper.submit()
        until(handle, State.SCHEDULED)
        due = handle.job.run_at
        handle.retry()
        ends = time.monotonic() + PATIENCE
        while effects.counts["runs"] < 2 or handle.state is not State.SCHEDULED:
            assert time.monotonic() < ends
            time.sleep(0.01)
        assert (handle.job.run_at, handle.job.attempts) == (due, 0)


def test_the_timeout_of_a_task_counts_running_time_only(file_app: Rota) -> None:
    app = file_app

    @app.task(timeout=0.5, retry=1)
    def slow() -> str:
        current().sleep("pause", 0.8)
        return "done"

    with app.run():
        assert slow.submit().result(PATIENCE) == "done"


@pytest.mark.parametrize("name", ["", "a/b", "stream", "x" * 201, "a\nb"])
def test_an_event_without_a_usable_name_is_refused(file_app: Rota, name: str) -> None:
    with pytest.raises(InvalidRequest, match="event"):
        file_app.emit(name)


def test_a_payload_that_is_too_large_or_no_json_is_refused(file_app: Rota) -> None:
    with pytest.raises(InvalidRequest, match="at most 65,536"):
        file_app.emit("big", "x" * 70_000)
    with pytest.raises(InvalidRequest, match="cannot be written as JSON"):
        file_app.emit("odd", object())
