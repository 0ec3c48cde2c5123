"""The overview: idle or not, workers by condition, and one answer a second for all callers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from api.environment import ApiEnvironment, body_of
from rota.core.cluster import Member, Role
from rota.runtime.history import HistoryWriter

WORKER = Member(role=Role.WORKER, name="w1", boot="b", queues=("default",), slots=4, busy=1, version="1")


async def shown(env: ApiEnvironment) -> dict[str, Any]:
    return body_of(await env.client.get("/v1/overview"))


async def test_an_idle_deployment_says_when_the_last_job_ended(env: ApiEnvironment) -> None:
    await env.dead()
    ended = env.clock()
    answer = await shown(env)
    assert answer["is_idle"]
    assert answer["last_ended_at"].startswith(ended.strftime("%Y-%m-%dT%H:%M:%S"))


async def test_workers_are_counted_by_condition(env: ApiEnvironment) -> None:
    await env.store.beat([replace(WORKER, name="gone", boot="a")])
    env.clock.move(timedelta(minutes=1))
    await env.store.beat([WORKER, replace(WORKER, name="w2", boot="c", is_draining=True)])
    workers = (await shown(env))["workers"]
    assert workers == {"live": 2, "draining": 1, "stale": 1, "slots": 8, "busy": 2}


async def test_the_last_hour_comes_from_the_history(env: ApiEnvironment) -> None:
    writer = HistoryWriter(env.engine)
    await env.submit()
    await env.claim()
    await writer.tick()
    last_hour = (await shown(env))["last_hour"]
    assert (last_hour["submitted"], last_hour["started"]) == (1, 1)


async def test_all_callers_share_one_answer_for_a_second(env: ApiEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    read = env.store.members

    async def counted(**options: Any) -> Any:  # noqa: ANN401 - of the verb
        nonlocal calls
        calls += 1
        return await read(**options)

    monkeypatch.setattr(env.store, "members", counted)
    answers = await asyncio.gather(*(shown(env) for _ in range(10)))
    assert calls == 1
    assert all(answer == answers[0] for answer in answers)
