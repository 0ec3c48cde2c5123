"""The overview: idle or not, workers by condition, and one answer a second for all callers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from api.staging import Stage, body_of
from rota.core.cluster import Member, Role
from rota.runtime.history import HistoryWriter

WORKER = Member(role=Role.WORKER, name="w1", boot="b", queues=("default",), slots=4, busy=1, version="1")


async def shown(stage: Stage) -> dict[str, Any]:
    return body_of(await stage.client.get("/v1/overview"))


async def test_an_idle_deployment_says_when_the_last_job_ended(stage: Stage) -> None:
    await stage.dead()
    ended = stage.clock()
    answer = await shown(stage)
    assert answer["is_idle"]
    assert answer["last_ended_at"].startswith(ended.strftime("%Y-%m-%dT%H:%M:%S"))


async def test_workers_are_counted_by_condition(stage: Stage) -> None:
    await stage.store.beat([replace(WORKER, name="gone", boot="a")])
    stage.clock.move(timedelta(minutes=1))
    await stage.store.beat([WORKER, replace(WORKER, name="w2", boot="c", is_draining=True)])
    workers = (await shown(stage))["workers"]
    assert workers == {"live": 2, "draining": 1, "stale": 1, "slots": 8, "busy": 2}


async def test_the_last_hour_comes_from_the_history(stage: Stage) -> None:
    writer = HistoryWriter(stage.engine)
    await stage.submit()
    await stage.claim()
    await writer.tick()
    last_hour = (await shown(stage))["last_hour"]
    assert (last_hour["submitted"], last_hour["started"]) == (1, 1)


async def test_all_callers_share_one_answer_for_a_second(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    read = stage.store.members

    async def counted(**options: Any) -> Any:  # noqa: ANN401 - of the verb
        nonlocal calls
        calls += 1
        return await read(**options)

    monkeypatch.setattr(stage.store, "members", counted)
    answers = await asyncio.gather(*(shown(stage) for _ in range(10)))
    assert calls == 1
    assert all(answer == answers[0] for answer in answers)
