"""Topics of the live stream: changes of other processes, shared polling, and refusals."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest

from api.environment import ApiEnvironment, problem_of, until
from builders import new_job
from rota.api import live
from rota.api.topics import LookPace, TopicWatchers
from rota.core.cluster import Member, Role
from rota.core.ids import to_text
from rota.core.lease import Claim, Renewal, WorkerId
from rota.core.ledger import LedgerEntry
from rota.core.log_lines import LogTail

PATIENCE = 20.0
WORKER = Member(Role.WORKER, "ada", "b1", slots=4)


@asynccontextmanager
async def followed(remote: httpx.AsyncClient, topics: str) -> AsyncIterator[AsyncIterator[str]]:
    """Follow topics, and give the names of those that change."""
    async with remote.stream("GET", f"/v1/events/stream?topics={topics}") as response:
        assert response.status_code == 200
        lines = response.aiter_lines()
        await anext(lines)

        async def names() -> AsyncIterator[str]:
            kind = ""
            async for line in lines:
                if line.startswith("event: "):
                    kind = line.removeprefix("event: ")
                elif line.startswith("data: ") and kind == "changed":
                    yield json.loads(line.removeprefix("data: "))["topic"]

        yield names()


def _schedule_body() -> dict[str, Any]:
    return {"name": "nightly", "cron": "0 3 * * *", "job": {"type": "echo"}}


async def _beat(env: ApiEnvironment) -> None:
    await env.store.beat([WORKER])


async def _insert(env: ApiEnvironment) -> None:
    await env.store.insert([new_job(queue="mail")])


async def _ledger(env: ApiEnvironment) -> None:
    await env.store.record([LedgerEntry("olga", "queues.pause", "mail", "", "")])


async def _schedule(env: ApiEnvironment) -> None:
    assert (await env.client.post("/v1/schedules", json=_schedule_body())).status_code == 201


async def _operate(env: ApiEnvironment) -> None:
    body = {"action": "cancel", "q": "queue:nowhere", "start_after": 3600}
    assert (await env.client.post("/v1/operations", json=body)).status_code == 202


async def _dead(env: ApiEnvironment) -> None:
    await env.dead("disk full")


CHANGES: dict[str, Callable[[ApiEnvironment], Awaitable[None]]] = {
    "workers": _beat,
    "jobs": _insert,
    "jobs:mail": _insert,
    "ledger": _ledger,
    "schedules": _schedule,
    "operations": _operate,
    "dead": _dead,
}


@pytest.mark.parametrize("topic", CHANGES)
async def test_a_topic_tells_of_a_change_that_was_written_past_this_process(
    env: ApiEnvironment, remote: httpx.AsyncClient, topic: str
) -> None:
    async with asyncio.timeout(PATIENCE), followed(remote, topic) as names:
        change = asyncio.ensure_future(anext(names))
        while not change.done():
            # Again and again: the first look, which is the one to compare with, may come later than the change.
            if topic in {"schedules", "operations"} and await env.store.schedules():
                await env.client.delete("/v1/schedules/nightly")
            await CHANGES[topic](env)
            if topic == "workers":
                await env.store.beat([replace(WORKER, busy=1)])
            await asyncio.wait([change], timeout=0.6)
        assert change.result() == topic


@pytest.mark.parametrize(
    ("where", "look", "topics"),
    [
        pytest.param(live, "overview_now", "overview", id="overview"),
        pytest.param(TopicWatchers, "_workers", "workers", id="workers"),
    ],
)
async def test_a_watch_that_fails_unexpectedly_is_begun_again(
    env: ApiEnvironment,
    remote: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    where: object,
    look: str,
    topics: str,
) -> None:
    """The stream stayed open and sent nothing more."""
    calls, go_on = 0, getattr(where, look)

    async def fail_at_the_second(*arguments: Any) -> Any:  # noqa: ANN401 - as the function
        nonlocal calls
        calls += 1
        if calls == 2:
            raise RuntimeError("nobody expected this")
        return await go_on(*arguments)

    monkeypatch.setattr(where, look, fail_at_the_second)
    async with asyncio.timeout(PATIENCE), remote.stream("GET", f"/v1/events/stream?topics={topics}") as response:
        lines = response.aiter_lines()
        await anext(lines)
        answer = asyncio.ensure_future(_told(lines))
        while not answer.done() or calls < 3:
            await env.store.beat([replace(WORKER, busy=calls % 4)])
            await env.store.insert([new_job(queue="mail")])
            await asyncio.sleep(0.3)
        assert answer.result()
    assert "nobody expected this" in caplog.text


async def _told(lines: AsyncIterator[str]) -> str:
    async for line in lines:
        if line in {"event: changed", "event: update"}:
            return line
    return ""


async def test_a_job_tells_of_its_state_its_progress_and_its_log(
    env: ApiEnvironment, remote: httpx.AsyncClient
) -> None:
    job = new_job()
    await env.store.insert([job])
    topic = f"job:{to_text(job.id)}"
    async with asyncio.timeout(PATIENCE), followed(remote, topic) as names:
        await _looked(env)
        (held,) = await env.store.claim(Claim(WorkerId("ada", "b1"), 1))
        assert await anext(names) == topic
        tail = LogTail()
        tail.add("", "info", "a line")
        await env.store.renew([Renewal(job.id, held.fence, progress='{"done": 1}', log_tail=tail.text())])
        assert await anext(names) == topic


async def _looked(env: ApiEnvironment) -> None:
    """Wait until each topic that is followed was looked at."""
    calls = 0
    real = env.store.get

    async def counted(*arguments: Any) -> Any:  # noqa: ANN401 - as it is
        nonlocal calls
        calls += 1
        return await real(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(env.store, "get", counted)
        while calls < 2:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.02)


async def test_many_streams_share_one_look(
    env: ApiEnvironment, remote: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: Counter[str] = Counter()
    real = env.store.members

    async def counted(**named: Any) -> Any:  # noqa: ANN401 - as it is
        looks["members"] += 1
        return await real(**named)

    monkeypatch.setattr(env.store, "members", counted)
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
        begun = time.monotonic()
        streams = [await stack.enter_async_context(followed(remote, "workers")) for _ in range(10)]
        before = looks["members"]
        await asyncio.sleep(1.0)
        assert 1 <= looks["members"] - before <= 5, "one look in each quarter of a second, for all streams together"
        await env.store.beat([WORKER])
        assert [await anext(names) for names in streams] == ["workers"] * 10
        assert looks["members"] <= (time.monotonic() - begun) / 0.25 + 2
    await until(lambda: not env.api.context.live.topics._tasks)


@pytest.mark.parametrize("topics", ["cooks", "job:x", "jobs:a b", ",", "", ",".join(f"jobs:{n}" for n in range(21))])
async def test_an_unknown_topic_is_refused_by_name(env: ApiEnvironment, topics: str) -> None:
    response = await env.client.get(f"/v1/events/stream?topics={topics}")
    assert problem_of(response, 422)["errors"][0]["field"] == "topics"


def test_one_slow_look_of_a_busy_machine_does_not_make_looks_rare() -> None:
    pace = LookPace()
    assert pace.rest(0.010) == pytest.approx(0.1)
    assert pace.rest(0.150) == pytest.approx(0.1), "it waited for the processor"
    rests = [pace.rest(0.150) for _ in range(10)]
    assert rests[-1] == pytest.approx(1.5), "a store that is always slow is asked rarely"
