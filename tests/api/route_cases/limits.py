"""Cases of limits."""

from __future__ import annotations

from api.environment import ApiEnvironment, body_of
from api.route_cases.route_case import RouteClient, of


async def _set(env: ApiEnvironment, name: str = "queue:slow", **fields: object) -> None:
    body_of(await env.client.put(f"/v1/limits/{name}", json=fields or {"max_running": 1}))


@of("GET /v1/limits")
async def list_limits(env: ApiEnvironment, send: RouteClient) -> None:
    await _set(env, "task:mail", per_key_max_running=2, per_key_rate_limit="10/s")
    (limit,) = (await send())["items"]
    assert (limit["name"], limit["per_key_max_running"]) == ("task:mail", 2)


@of("GET /v1/limits/{name}")
async def get_limit(env: ApiEnvironment, send: RouteClient) -> None:
    for _ in range(3):
        await env.submit(concurrency_key="a/b")
    (job,) = await env.claim()
    shown = await send(name="key:a%252Fb")
    assert (shown["name"], shown["max_running"], shown["running"], shown["waiting"]) == ("key:a/b", 1, 1, 2)
    assert shown["holders"] == [job["id"]]


@of("PUT /v1/limits/{name}")
async def put_limit(env: ApiEnvironment, send: RouteClient) -> None:
    assert (await send(name="queue:slow", json={"max_running": 1, "rate_limit": "10/s"}))["max_running"] == 1
    for _ in range(2):
        await env.submit(queue="slow")
    assert len(await env.claim(queues=["slow"])) == 1
    assert [one.action for one in await env.store.ledger()] == ["limits.set"]


@of("PATCH /v1/limits/{name}")
async def change_limit(env: ApiEnvironment, send: RouteClient) -> None:
    await _set(env, max_running=1, rate_limit="10/s")
    shown = await send(name="queue:slow", json={"max_running": 2})
    assert (shown["max_running"], shown["rate_limit"]) == (2, "10/s")


@of("DELETE /v1/limits/{name}")
async def delete_limit(env: ApiEnvironment, send: RouteClient) -> None:
    await _set(env)
    assert (await send(name="queue:slow"))["max_running"] is None
    assert await env.store.limits() == []


@of("POST /v1/limits/{name}/close")
async def close_limit(env: ApiEnvironment, send: RouteClient) -> None:
    await env.submit(queue="slow")
    shown = await send(name="queue:slow", json={"reason": "drill", "until": "2027-01-01T00:00:00Z"})
    assert (shown["reason"], shown["closed_until"]) == ("drill", "2027-01-01T00:00:00Z")
    assert await env.claim(queues=["slow"]) == []


@of("POST /v1/limits/{name}/open")
async def open_limit(env: ApiEnvironment, send: RouteClient) -> None:
    await env.submit(queue="slow")
    body_of(await env.client.post("/v1/limits/queue:slow/close"))
    assert (await send(name="queue:slow"))["closed_until"] is None
    assert len(await env.claim(queues=["slow"])) == 1
