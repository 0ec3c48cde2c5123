"""The history over HTTP: split by queue and type, steps, and refusals that name the parameter."""

from __future__ import annotations

from typing import Any

import pytest

from api.environment import ApiEnvironment, body_of
from rota.runtime.history import HistoryWriter


async def shown(env: ApiEnvironment, query: str = "", status: int = 200) -> Any:  # noqa: ANN401 - JSON
    response = await env.client.get(f"/v1/stats/history{query}")
    assert response.status_code == status, response.text
    return body_of(response, status)


async def test_counts_are_split_by_queue_and_by_type(env: ApiEnvironment) -> None:
    writer = HistoryWriter(env.engine)
    await env.submit(queue="slow", type="mail")
    await env.submit(queue="slow", type="report")
    await env.submit(queue="fast", type="mail")
    await writer.tick()
    for by, expected in (("queue", {"fast": 1, "slow": 2}), ("type", {"mail": 2, "report": 1})):
        answer = await shown(env, f"?by={by}")
        assert {bucket["key"]: bucket["submitted"] for bucket in answer["buckets"]} == expected
        assert answer["total"]["submitted"] == 3


async def test_longer_steps_merge_buckets(env: ApiEnvironment) -> None:
    writer = HistoryWriter(env.engine)
    for _ in range(2):
        await env.submit()
        await writer.tick()
    for step, seconds in (("1m", 60), ("5m", 300), ("1h", 3_600)):
        answer = await shown(env, f"?since=2h&step={step}")
        assert answer["step"] == seconds
        assert sum(bucket["submitted"] for bucket in answer["buckets"]) == 2
    assert (await shown(env, "?since=30d"))["step"] >= 3_600


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("?since=soon", "since"),
        ("?since=0s", "since"),
        ("?since=91d", "since"),
        ("?since=2026-01-01T00:00:00", "since"),
        ("?step=90s", "step"),
        ("?step=0", "step"),
        ("?step=90m", "step"),
        ("?since=7d&step=1m", "step"),
        ("?since=40h&step=1m", "step"),
        ("?since=20h&step=1m&by=queue", "step"),
        ("?by=worker", "by"),
    ],
)
async def test_a_wrong_parameter_is_named(env: ApiEnvironment, query: str, field: str) -> None:
    problem = await shown(env, query, 422)
    assert [one["field"] for one in problem["errors"]] == [field]
