"""Unique, throttled and debounced submissions over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from api.environment import ApiEnvironment, api_environment, body_of, fields_of, problem_of
from builders import HOUR, SECOND


async def submit(env: ApiEnvironment, **fields: Any) -> tuple[int, dict[str, Any]]:  # noqa: ANN401 - any field
    answer = await env.client.post("/v1/jobs", json={"type": "mail", **fields})
    return answer.status_code, answer.json()


async def test_a_unique_submission_says_which_job_is_the_answer_and_why(env: ApiEnvironment) -> None:
    status, first = await submit(env, payload={"customer": 7}, unique_for="10m")
    assert (status, "conflict" in first) == (201, False)
    request = {"type": "mail", "payload": {"customer": 7}, "unique_for": "10m", "priority": 9}
    answer = await env.client.post("/v1/jobs", json=request)
    again = body_of(answer)
    assert "idempotent-replayed" not in answer.headers
    assert answer.headers["location"] == f"/v1/jobs/{first['id']}"
    assert (again["id"], again["conflict"]["code"], again["conflict"]["id"]) == (
        first["id"],
        "unique_conflict",
        first["id"],
    )
    assert first["id"] in again["conflict"]["detail"]
    assert again["conflict"]["fix"]
    for other in ({"payload": {"customer": 8}}, {"payload": {"customer": 7}, "queue": "other"}):
        # A job in another queue must not be shown to a token that may not read it.
        status, _ = await submit(env, unique_for="10m", **other)
        assert status == 201


async def test_a_throttled_task_makes_one_job_in_its_period(env: ApiEnvironment) -> None:
    _, first = await submit(env, payload={"customer": 7, "n": 1}, throttle="1h", unique_by=["customer"])
    status, again = await submit(env, payload={"customer": 7, "n": 2}, throttle="1h", unique_by=["customer"])
    assert (status, again["id"], again["conflict"]["code"]) == (200, first["id"], "throttled")
    assert again["payload"] == {"customer": 7, "n": 1}
    env.clock.move(HOUR)
    status, _ = await submit(env, payload={"customer": 7}, throttle="1h", unique_by=["customer"])
    assert status == 201


async def test_a_debounced_job_gets_the_last_payload_and_waits_at_most_for_max_wait(env: ApiEnvironment) -> None:
    _, first = await submit(env, payload=1, debounce="10s", max_wait="15s")
    env.clock.move(9 * SECOND)
    status, again = await submit(env, payload=2, debounce="10s", max_wait="15s")
    assert (status, again["id"], again["conflict"]["code"]) == (200, first["id"], "debounced")
    assert (again["payload"], again["state"]) == (2, "scheduled")
    env.clock.move(6 * SECOND)
    await env.engine.upkeep.promote(10)
    assert (await env.get(first["id"]))["state"] == "pending"


async def test_a_batch_says_for_each_job_what_became_of_it(env: ApiEnvironment) -> None:
    jobs = [{"type": "mail", "payload": n // 2, "unique_for": "1h"} for n in range(4)]
    reply = body_of(await env.client.post("/v1/jobs:batch", json={"jobs": jobs}))
    assert [item["status"] for item in reply["items"]] == [201, 200, 201, 200]
    assert [item["receipt"] for item in reply["items"]] == ["created", "unique_conflict"] * 2
    assert reply["items"][1]["conflict"]["id"] == reply["items"][0]["id"] == reply["items"][1]["id"]
    assert (reply["created"], reply["replayed"], reply["refused"]) == (2, 2, 0)


async def test_ten_at_once_make_one_job(tmp_path: Path) -> None:
    async with api_environment(location=str(tmp_path / "rota.db")) as env:
        answers = await asyncio.gather(*(submit(env, unique_for="1h") for _ in range(10)))
        assert sorted(status for status, _ in answers) == [200] * 9 + [201]
        assert len({job["id"] for _, job in answers}) == 1


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"unique_for": "1h", "throttle": "1h"}, "throttle"),
        ({"unique_by": ["a"]}, "unique_by"),
        ({"unique_by": ["a"], "unique_for": "1h", "payload": [1]}, "unique_by"),
        ({"unique_by": ["a"], "unique_for": "1h", "payload": {}}, "unique_by"),
        ({"unique_key": "k"}, "unique_key"),
        ({"max_wait": "1h"}, "max_wait"),
        ({"debounce": "1h", "max_wait": "1s"}, "max_wait"),
        ({"debounce": "1h", "delay": "1s"}, "delay"),
        ({"debounce": "1h", "run_at": "2030-01-01T00:00:00Z"}, "run_at"),
        ({"debounce": "1h", "after": ["0000000000001"]}, "after"),
        ({"unique_states": ["asleep"]}, "unique_states"),
        ({"unique_for": "soon"}, "unique_for"),
        ({"throttle": "1h", "cron": "@daily"}, "throttle"),
    ],
)
async def test_options_that_cannot_work_are_refused_by_name(
    env: ApiEnvironment, fields: dict[str, Any], field: str
) -> None:
    refused = await env.client.post("/v1/jobs", json={"type": "mail", **fields})
    assert fields_of(problem_of(refused, 422)) == {field}
