"""Limits over HTTP: what could not be kept is refused, and nothing is stored."""

from __future__ import annotations

import pytest

from api.environment import ApiEnvironment

WRONG: list[tuple[str, str, dict[str, object], str, str]] = [
    ("PUT", "task:mail", {"order": "strict", "per_key_max_running": 3}, "per_key_max_running", "'3' will not do"),
    ("PUT", "key:a", {"order": "strict", "max_running": 3}, "max_running", "'3' will not do"),
    ("PUT", "queue:mail", {"order": "strict"}, "order", "'strict' will not do: 'queue:mail' is a queue"),
    ("PUT", "queue:mail", {"weight": 2}, "weight", "'2' will not do: 'queue:mail' is a queue"),
    ("PUT", "queue:mail", {"on_full": "drop"}, "on_full", "'drop' will not do: 'queue:mail' is a queue"),
    ("PUT", "key:a", {"on_full": "perhaps"}, "on_full", "perhaps"),
    ("PUT", "key:a", {"on_full": "drop", "rate_limit": "1/s"}, "on_full", "full only if max_running is set"),
    ("PUT", "task:mail", {"on_full": "drop", "per_key_rate_limit": "1/s"}, "on_full", "if per_key_max_running is set"),
    ("PATCH", "queue:mail", {"weight": 2}, "weight", "'2' will not do: 'queue:mail' is a queue"),
    ("PATCH", "queue:mail", {}, "max_running", "nothing is changed"),
    ("PATCH", "queue:mail", {"rate_limit": "often"}, "rate_limit", "write a count and a period"),
    ("POST", "queue:mail/close", {"until": "2001-01-01T00:00:00Z"}, "until", "is past; give a later time"),
]


@pytest.mark.parametrize(("method", "path", "body", "field", "message"), WRONG, ids=str)
async def test_a_limit_that_cannot_be_kept_is_refused(
    env: ApiEnvironment, method: str, path: str, body: dict[str, object], field: str, message: str
) -> None:
    reply = await env.client.request(method, f"/v1/limits/{path}", json=body)
    assert reply.status_code == 422, reply.text
    (error,) = reply.json()["errors"]
    assert error["field"] == field
    assert message in error["message"]
    assert await env.store.limits() == []


async def test_a_submission_that_a_full_key_drops_says_which_job_holds_its_place(env: ApiEnvironment) -> None:
    limit = await env.client.put("/v1/limits/key:a", json={"max_running": 1, "on_full": "drop"})
    assert limit.json()["on_full"] == "drop"
    body = {"type": "mail", "concurrency_key": "a"}
    first = (await env.client.post("/v1/jobs", json=body)).json()
    reply = await env.client.post("/v1/jobs", json=body)
    again = reply.json()
    assert (reply.status_code, again["id"], again["conflict"]["code"]) == (200, first["id"], "dropped")
    items = (await env.client.post("/v1/jobs:batch", json={"jobs": [body, {"type": "mail"}]})).json()["items"]
    assert [item["receipt"] for item in items] == ["dropped", "created"]


async def test_a_field_of_a_limit_is_changed_and_the_others_stay_until_none_is_left(env: ApiEnvironment) -> None:
    path = "/v1/limits/key:a"
    await env.client.put(path, json={"max_running": 2, "weight": 3})
    assert (await env.client.patch(path, json={"max_running": 5})).json()["weight"] == 3
    assert (await env.client.patch(path, json={"weight": None})).json()["weight"] is None
    # Without a limit of its own, a key runs one job at a time.
    assert (await env.client.patch(path, json={"max_running": None})).json()["max_running"] == 1
    assert await env.store.limits() == []
