"""Durable waiting wherever a handler runs: in child processes, over HTTP, with faults on the way."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from api.environment import served
from rota import Rota, current
from rota.api import create_app
from rota.client import connect
from rota.core.errors import StoreUnavailable
from rota.core.ids import JobId
from rota.core.lifecycle import State
from rota.core.step import Step
from rota.core.waiting import Emission, Wait
from rota.ports.client import Actor
from rota.worker import handler_of
from worker import child_handlers as children
from worker.environment import WorkerEnvironment

SETTINGS: dict[str, Any] = {"lease": timedelta(seconds=15), "beat": timedelta(milliseconds=250)}
OLGA = Actor("olga")
CHILD = Rota().task(name="add")(children.add)


async def waits() -> list[object]:
    job = current()
    await job.asleep("nap", 0.1)
    paid = await job.await_event("paid", event="paid", timeout="60s")
    total = await (await job.acall("sum", CHILD, 3, 4)).aresult()
    return [paid, total, job.attempt]


def waits_on_a_thread() -> list[object]:
    job = current()
    job.sleep("nap", 0.1)
    paid = job.wait("paid", event="paid", timeout="60s")
    return [paid, job.call("sum", CHILD, 3, 4).result(), job.attempt]


async def run_through(env: WorkerEnvironment, kind: str, *handlers: Any, **parts: Any) -> None:  # noqa: ANN401 - parts of a worker
    async with env.scheduler(), env.worker(*handlers, handler_of(children.add), **parts, **SETTINGS):
        job_id = await env.submit(kind)
        blocked = await env.until(job_id, lambda job: job.state is State.BLOCKED)
        assert (blocked.attempts, blocked.lease_until) == (0, None)
        await env.engine.events.emit(Emission("paid", '{"amount": 3}'), OLGA)
        job = await env.end_of(job_id)
    assert (job.state, json.loads(job.result or "")) == (State.COMPLETED, [{"amount": 3}, 7, 1])
    assert job.fence >= 2


@pytest.mark.parametrize("handler", [waits, waits_on_a_thread])
async def test_a_handler_waits_over_http(env: WorkerEnvironment, handler: Any) -> None:  # noqa: ANN401 - sync or async
    async with served(create_app(env.engine)) as url:
        client = connect([url])
        await run_through(env, handler.__name__, handler_of(handler), source=client, steps=client)
        await client.close()


async def test_a_client_emits_over_http(env: WorkerEnvironment) -> None:
    async with served(create_app(env.engine)) as url:
        client = connect([url])
        first = await client.emit(Emission("paid: 50 %", "1"), OLGA)
        again = await client.emit(Emission("paid: 50 %", "2"), OLGA)
        await client.close()
    assert (first.is_new, again.is_new, again.event.payload) == (True, False, "1")
    assert (await env.engine.events.one("paid: 50 %")) == first.event


@pytest.mark.parametrize("name", ["waits_in_a_child", "waits_in_a_child_async"])
async def test_a_handler_waits_in_a_child_process(env: WorkerEnvironment, name: str) -> None:
    await run_through(env, name, handler_of(getattr(children, name), executor="process"))


async def test_a_refused_wait_fails_the_attempt_in_a_child_process(env: WorkerEnvironment) -> None:
    async with env.worker(handler_of(children.confuses_keys, executor="process"), **SETTINGS):
        job = await env.end_of(await env.submit("confuses_keys", max_attempts=1))
    assert job.error is not None
    assert "of kind sleep, and now for one of kind event" in job.error.message


class Unreliable:
    """A keeper of steps whose answers to waits are lost now and then, after the write or before it."""

    def __init__(self, env: WorkerEnvironment) -> None:
        self._steps = env.engine.steps
        self.calls = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any verb
        return getattr(self._steps, name)

    async def begin_wait(self, job_id: JobId, fence: int, wait: Wait) -> Step | None:
        self.calls += 1
        if self.calls % 3 == 1:
            raise StoreUnavailable("before the write")
        step = await self._steps.begin_wait(job_id, fence, wait)
        if self.calls % 3 == 2:
            raise StoreUnavailable("after the write")
        return step


async def test_lost_answers_neither_repeat_nor_lose_a_wait(env: WorkerEnvironment) -> None:
    keeper = Unreliable(env)
    await run_through(env, "waits", handler_of(waits), steps=keeper)
    assert keeper.calls >= 9
    (census,) = [await env.engine.census()]
    assert census.total(State.COMPLETED) == 2


async def test_a_job_that_drains_while_it_waits_is_suspended_and_not_released(env: WorkerEnvironment) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> object:
        begun.set()
        await asyncio.shield(asyncio.ensure_future(go_on.wait()))
        return await current().await_event("paid", event="paid")

    async with env.worker(slow, **SETTINGS) as worker:
        job_id = await env.submit("slow")
        await begun.wait()
        worker.stop()
        go_on.set()
        # Leaving the block stops the worker a second time, which would hand the job back at once.
        await env.until(job_id, lambda job: job.state is not State.RUNNING)
    job = await env.look(job_id)
    assert (job.state, job.attempts) == (State.BLOCKED, 0)
