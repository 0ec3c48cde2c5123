"""Cases of circuit breakers."""

from __future__ import annotations

from api.environment import ApiEnvironment
from api.route_cases.route_case import RouteClient, of
from rota.core.breaker import CircuitBreaker

STRIPE = CircuitBreaker("a/b", tasks=(("shop", "mail"),))


async def _stored(env: ApiEnvironment) -> None:
    await env.store.put_breaker(STRIPE)
    await env.submit(type="mail")


@of("GET /v1/breakers")
async def list_breakers(env: ApiEnvironment, send: RouteClient) -> None:
    await _stored(env)
    (shown,) = (await send())["items"]
    assert (shown["name"], shown["state"], shown["tasks"], shown["open_for"]) == ("a/b", "closed", ["mail"], 30.0)


@of("GET /v1/breakers/{name}")
async def get_breaker(env: ApiEnvironment, send: RouteClient) -> None:
    await _stored(env)
    shown = await send(name="a%252Fb")
    assert (shown["name"], shown["calls"], shown["waiting"], shown["is_forced"]) == ("a/b", 0, 0, False)


@of("POST /v1/breakers/{name}/open")
async def open_breaker(env: ApiEnvironment, send: RouteClient) -> None:
    await _stored(env)
    shown = await send(name="a%252Fb", json={"reason": "drill", "until": "2027-01-01T00:00:00Z"})
    assert (shown["state"], shown["reason"], shown["open_until"]) == ("open", "drill", "2027-01-01T00:00:00Z")
    assert (shown["waiting"], await env.claim()) == (1, [])
    assert [one.action for one in await env.store.ledger()] == ["breakers.open"]


@of("POST /v1/breakers/{name}/close")
async def close_breaker(env: ApiEnvironment, send: RouteClient) -> None:
    await _stored(env)
    await env.client.post("/v1/breakers/a%252Fb/open")
    assert await env.claim() == []
    shown = await send(name="a%252Fb", json={"reason": "false alarm"})
    assert (shown["state"], shown["is_forced"], shown["reason"]) == ("closed", True, "false alarm")
    assert len(await env.claim()) == 1


@of("POST /v1/breakers/{name}/reset")
async def reset_breaker(env: ApiEnvironment, send: RouteClient) -> None:
    await _stored(env)
    await env.client.post("/v1/breakers/a%252Fb/close")
    shown = await send(name="a%252Fb")
    assert (shown["state"], shown["is_forced"]) == ("closed", False)
