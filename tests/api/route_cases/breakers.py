"""Cases of circuit breakers."""

from __future__ import annotations

from api.route_cases.asking import Ask, of
from api.staging import Stage
from rota.core.breaker import CircuitBreaker

STRIPE = CircuitBreaker("a/b", tasks=(("shop", "mail"),))


async def _stored(stage: Stage) -> None:
    await stage.store.put_breaker(STRIPE)
    await stage.submit(type="mail")


@of("GET /v1/breakers")
async def list_breakers(stage: Stage, ask: Ask) -> None:
    await _stored(stage)
    (shown,) = (await ask())["items"]
    assert (shown["name"], shown["state"], shown["tasks"], shown["open_for"]) == ("a/b", "closed", ["mail"], 30.0)


@of("GET /v1/breakers/{name}")
async def get_breaker(stage: Stage, ask: Ask) -> None:
    await _stored(stage)
    shown = await ask(name="a%252Fb")
    assert (shown["name"], shown["calls"], shown["waiting"], shown["is_forced"]) == ("a/b", 0, 0, False)


@of("POST /v1/breakers/{name}/open")
async def open_breaker(stage: Stage, ask: Ask) -> None:
    await _stored(stage)
    shown = await ask(name="a%252Fb", json={"reason": "drill", "until": "2027-01-01T00:00:00Z"})
    assert (shown["state"], shown["reason"], shown["open_until"]) == ("open", "drill", "2027-01-01T00:00:00Z")
    assert (shown["waiting"], await stage.claim()) == (1, [])
    assert [one.action for one in await stage.store.ledger()] == ["breakers.open"]


@of("POST /v1/breakers/{name}/close")
async def close_breaker(stage: Stage, ask: Ask) -> None:
    await _stored(stage)
    await stage.client.post("/v1/breakers/a%252Fb/open")
    assert await stage.claim() == []
    shown = await ask(name="a%252Fb", json={"reason": "false alarm"})
    assert (shown["state"], shown["is_forced"], shown["reason"]) == ("closed", True, "false alarm")
    assert len(await stage.claim()) == 1


@of("POST /v1/breakers/{name}/reset")
async def reset_breaker(stage: Stage, ask: Ask) -> None:
    await _stored(stage)
    await stage.client.post("/v1/breakers/a%252Fb/close")
    shown = await ask(name="a%252Fb")
    assert (shown["state"], shown["is_forced"]) == ("closed", False)
