"""Follow-ups that are tasks take the result or the failure of their job: on a file, and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from api.environment import api_environment, served
from rota import GiveUp, Rota
from rota.client import connect
from rota.core.errors import InvalidRequest
from rota.worker import Handlers, Worker, WorkerOptions, handler_of

seen: Queue[Any] = Queue()


def tasks_of(app: Rota) -> Rota:
    @app.task
    def keep(value: Mapping[str, Any]) -> None:
        seen.put(value)

    @app.task(on_success=keep, on_failure=keep)
    def work(number: int) -> dict[str, int]:
        if number < 0:
            raise GiveUp("negative")
        return {"double": 2 * number}

    return app


def submit_both(app: Rota) -> None:
    app.tasks["work"].submit(4)
    assert seen.get(timeout=30) == {"double": 8}
    failed = app.tasks["work"].submit(-1)
    answer = seen.get(timeout=30)
    assert (answer["id"], answer["type"], answer["state"]) == (failed.id, "work", "dead")
    assert answer["error"] == {"kind": "GiveUp", "message": "negative"}
    assert answer["payload"] == {"args": [-1], "kwargs": {}}


def test_a_follow_up_takes_the_result_or_the_failure(tmp_path: Path) -> None:
    app = tasks_of(Rota(str(tmp_path / "rota.db")))
    with app.run(concurrency=2):
        submit_both(app)


async def test_a_worker_over_http_reads_them_through_the_api() -> None:
    async with api_environment() as env, served(env.api) as url:
        app, client = tasks_of(Rota(url)), connect([url])
        handlers = Handlers(handler_of(task.function, type=name) for name, task in app.tasks.items())
        worker = Worker(client, handlers, WorkerOptions("ada", poll_interval=timedelta(seconds=1)), inputs=client)
        running = asyncio.create_task(worker.run())
        try:
            await asyncio.to_thread(submit_both, app)
        finally:
            worker.stop()
            await running
            await client.close()
            await asyncio.to_thread(app.close)


def test_a_task_that_cannot_take_one_argument_is_refused(tmp_path: Path) -> None:
    app = Rota(str(tmp_path / "rota.db"))

    @app.task
    def two(a: int, b: int) -> int:
        return a + b

    with pytest.raises(InvalidRequest, match="one argument"):

        @app.task(on_success=two)  # type: ignore[arg-type]  # a type checker refuses it too
        def first() -> int:
            return 1
