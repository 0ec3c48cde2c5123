"""Cases of limits."""

from __future__ import annotations

from api.route_cases.asking import Ask, of
from api.staging import Stage, body_of


async def _set(stage: Stage, name: str = "queue:slow", **fields: object) -> None:
    body_of(await stage.client.put(f"/v1/limits/{name}", json=fields or {"max_running": 1}))


@of("GET /v1/limits")
async def list_limits(stage: Stage, ask: Ask) -> None:
    await _set(stage, "task:mail", per_key_max_running=2, per_key_rate_limit="10/s")
    (limit,) = (await ask())["items"]
    assert (limit["name"], limit["per_key_max_running"]) == ("task:mail", 2)


@of("GET /v1/limits/{name}")
async def get_limit(stage: Stage, ask: Ask) -> None:
    for _ in range(3):
        await stage.submit(concurrency_key="a/b")
    (job,) = await stage.claim()
    shown = await ask(name="key:a%252Fb")
    assert (shown["name"], shown["max_running"], shown["running"], shown["waiting"]) == ("key:a/b", 1, 1, 2)
    assert shown["holders"] == [job["id"]]


@of("PUT /v1/limits/{name}")
async def put_limit(stage: Stage, ask: Ask) -> None:
    assert (await ask(name="queue:slow", json={"max_running": 1, "rate_limit": "10/s"}))["max_running"] == 1
    for _ in range(2):
        await stage.submit(queue="slow")
    assert len(await stage.claim(queues=["slow"])) == 1
    assert [one.action for one in await stage.store.ledger()] == ["limits.set"]


@of("PATCH /v1/limits/{name}")
async def change_limit(stage: Stage, ask: Ask) -> None:
    await _set(stage, max_running=1, rate_limit="10/s")
    shown = await ask(name="queue:slow", json={"max_running": 2})
    assert (shown["max_running"], shown["rate_limit"]) == (2, "10/s")


@of("DELETE /v1/limits/{name}")
async def delete_limit(stage: Stage, ask: Ask) -> None:
    await _set(stage)
    assert (await ask(name="queue:slow"))["max_running"] is None
    assert await stage.store.limits() == []


@of("POST /v1/limits/{name}/close")
async def close_limit(stage: Stage, ask: Ask) -> None:
    await stage.submit(queue="slow")
    shown = await ask(name="queue:slow", json={"reason": "drill", "until": "2027-01-01T00:00:00Z"})
    assert (shown["reason"], shown["closed_until"]) == ("drill", "2027-01-01T00:00:00Z")
    assert await stage.claim(queues=["slow"]) == []


@of("POST /v1/limits/{name}/open")
async def open_limit(stage: Stage, ask: Ask) -> None:
    await stage.submit(queue="slow")
    body_of(await stage.client.post("/v1/limits/queue:slow/close"))
    assert (await ask(name="queue:slow"))["closed_until"] is None
    assert len(await stage.claim(queues=["slow"])) == 1
