"""Running jobs in the program that defines them: `run`, `serve`, and what holds there."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rota import Cancelled, Retry, Rota, RotaError, current
from rota.core.cluster import Role
from rota.core.errors import InvalidRequest


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Rota]:
    one = Rota(str(tmp_path / "rota.db"))
    yield one
    one.close()


def test_a_run_serves_the_queues_of_its_own_tasks(app: Rota) -> None:
    @app.task(queue="mail")
    def send() -> str:
        return "sent"

    @app.task
    def plain() -> str:
        return "done"

    with app.run():
        assert send.submit().result(timeout="20s") == "sent"
        assert plain.submit().result(timeout="20s") == "done"


def test_a_run_serves_no_more_than_the_queues_it_is_told(app: Rota) -> None:
    @app.task(queue="mail")
    def send() -> str:
        return "sent"

    @app.task
    def plain() -> str:
        return "done"

    with app.run(queues=["default"]):
        waiting = send.submit()
        assert plain.submit().result(timeout="20s") == "done"
        assert waiting.state == "pending"


@pytest.mark.parametrize("concurrency", [0, -1, 2.5, 4.0, "4", True])
def test_a_run_is_refused_with_a_concurrency_that_is_no_whole_number(app: Rota, concurrency: Any) -> None:  # noqa: ANN401
    words = f"concurrency: {concurrency!r} is not a whole number of 1 or more; give how many jobs"
    with pytest.raises(InvalidRequest, match=re.escape(words)), app.run(concurrency=concurrency):
        pass


@pytest.mark.parametrize("queues", [[], 5])
def test_a_run_is_refused_without_queues(app: Rota, queues: Any) -> None:  # noqa: ANN401
    with pytest.raises(InvalidRequest, match=r"queues: .*leave it out"), app.run(queues=queues):
        pass


def test_a_job_that_says_nothing_is_tried_as_the_settings_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_MAX_ATTEMPTS", "7")
    monkeypatch.setenv("BACKOFF_BASE_MS", "2500")
    app = Rota(str(tmp_path / "rota.db"))

    @app.task
    def silent() -> None: ...

    @app.task(retry=4)
    def counted() -> None: ...

    @app.task(retry=Retry(base="4s"))
    def slow() -> None: ...

    @app.task(every="1h", on_failure=silent.call())
    def recurring() -> None: ...

    two_and_a_half = timedelta(seconds=2.5)
    jobs = [task.submit().job for task in (silent, counted, slow)]
    assert [(job.max_attempts, job.backoff.base) for job in jobs] == [
        (7, two_and_a_half),
        (4, two_and_a_half),
        (7, timedelta(seconds=4)),
    ]
    (draft,) = app.recurring
    assert draft.template.max_attempts == 7
    assert draft.template.on_failure is not None
    assert draft.template.on_failure.max_attempts == 7
    by_name = app.submit_by_name("elsewhere").job
    assert (by_name.max_attempts, by_name.backoff.base) == (7, two_and_a_half)
    app.close()


def test_which_exceptions_are_permanent_cannot_be_changed_for_one_submission(app: Rota) -> None:
    defined = Retry(5, give_up_on=(KeyError,))

    @app.task(retry=defined)
    def flaky() -> None: ...

    for other in (Retry(on=(ValueError,)), Retry(give_up_on=(ValueError,))):
        with pytest.raises(InvalidRequest, match=r"'flaky'.*@app\.task\(retry"):
            flaky.using(retry=other)
        with pytest.raises(InvalidRequest, match="elsewhere"):
            app.submit_by_name("elsewhere", retry=other)
    assert flaky.using(retry=Retry(9)).submit().job.max_attempts == 9
    again = flaky.using(retry=2).using(retry=Retry(8, give_up_on=(KeyError,)))
    assert again.submit().job.max_attempts == 8


def test_leaving_an_inner_run_leaves_the_outer_one_working(app: Rota) -> None:
    @app.task
    def plain(number: int) -> int:
        return number

    with app.run(), app.run(concurrency=1):
        assert plain.submit(1).result(timeout="20s") == 1
    with app.run():
        with app.run(concurrency=1):
            assert plain.submit(2).result(timeout="20s") == 2
        handle = plain.submit(3)
        assert handle.result(timeout="20s") == 3


def test_no_two_runs_of_a_process_have_the_same_worker_name(app: Rota) -> None:
    """Runs that overlap without one inside the other had one name, and so had the runs of two apps."""
    other = Rota(app.url)
    names: list[str] = []
    try:
        first, second, third, fourth = app.run(), app.run(), app.run(), other.run()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        third.__enter__()
        fourth.__enter__()
        deadline = time.monotonic() + 20
        while len(names := _worker_names(app)) < 3:
            assert time.monotonic() < deadline, names
        for run in (fourth, third, second):
            run.__exit__(None, None, None)
    finally:
        other.close()
    assert len(names) == len(set(names)) == 3


def test_a_run_that_has_ended_is_no_longer_known(app: Rota) -> None:
    with app.run():
        deadline = time.monotonic() + 20
        while not _worker_names(app):
            assert time.monotonic() < deadline, "the worker was never announced"
    assert _worker_names(app) == []


def _worker_names(app: Rota) -> list[str]:
    async def names() -> list[str]:
        engine = (await app.link()).engine
        assert engine is not None
        return [member.name for member in await engine.store.members() if member.role is Role.WORKER]

    return app.portal.call(names())


def test_a_run_whose_port_is_taken_fails_and_leads_nothing(app: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("ROTA_PORT", str(port))
        other = Rota(app.url)
        with pytest.raises(InvalidRequest, match=str(port)), other.run(api=True):
            pass


def test_a_job_that_dies_in_a_run_is_warned_of_once(app: Rota, caplog: pytest.LogCaptureFixture) -> None:
    @app.task(retry=1)
    def fail() -> None:
        raise ValueError("no such customer")

    with caplog.at_level("INFO", "rota"), app.run(), pytest.raises(RotaError):
        fail.submit().result(timeout="20s")
    warnings = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert len(warnings) == 1, warnings
    assert "no such customer" in warnings[0]
    assert any("is dead" in one.getMessage() for one in caplog.records if one.levelname == "INFO")


def test_serve_is_refused_where_no_signal_arrives(app: Rota) -> None:
    raised: list[BaseException] = []

    def serve() -> None:
        try:
            app.serve()
        except InvalidRequest as error:
            raised.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    thread.join(30)
    assert "main thread" in str(raised[0])


SERVING = """
import sys, time
from rota import Rota
app = Rota(sys.argv[1])

@app.task
def slow():
    print("begun", flush=True)
    time.sleep(1.5)
    print("finished", flush=True)

slow.submit()
app.serve()
print("left", flush=True)
"""


def test_serve_lets_running_jobs_finish_when_it_is_told_to_stop(tmp_path: Path) -> None:
    path = str(tmp_path / "rota.db")
    command = [sys.executable, "-c", SERVING, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=30)[0] == "finished\nleft\n"
    assert process.returncode == 0


@pytest.mark.parametrize("kind", ["async", "thread"])
def test_a_cancel_in_the_same_process_reaches_a_handler_at_once(app: Rota, kind: str) -> None:
    """It came with the next heartbeat, up to five seconds later."""
    begun = threading.Event()
    ended: list[float] = []

    @app.task(name="thread")
    def sync() -> None:
        begun.set()
        while not current().cancelled():
            time.sleep(0.005)
        ended.append(time.monotonic())
        raise Cancelled

    @app.task(name="async")
    async def coroutine() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(time.monotonic())

    with app.run():
        # In the middle between two heartbeats, or so: the first comes after five seconds.
        handle = app.tasks[kind].submit()
        assert begun.wait(20)
        asked = time.monotonic()
        handle.cancel()
        with pytest.raises(RotaError):
            handle.result(timeout="20s")
        assert handle.state == "cancelled"
    assert ended[0] - asked < 2
