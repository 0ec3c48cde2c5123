"""Every route of the table does what it is for: over a socket, by its answer and by what it changed in the store.

The cases are compared with the table, so that a route without a case fails. And each case is tried on a server where
its route answers and does empty_response: a case that would not notice fails too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import pytest

from api.environment import ApiEnvironment, api_environment, served
from api.route_cases import CASES, RouteClient
from rota.api import ApiSettings
from rota.api.http import Request, Response, empty_response, json_response
from rota.api.router import Route
from rota.api.routes import ROUTES
from rota.coordination.local import LocalCoordinator

NAMED = [pytest.param(route, id=f"{route.method} {route.path}") for route in ROUTES]


@asynccontextmanager
async def open_route(route: Route) -> AsyncIterator[tuple[ApiEnvironment, RouteClient]]:
    coordinator = LocalCoordinator()
    settings = ApiSettings(instance_id="here", version="1.2.3", coordinator=coordinator)
    async with (
        api_environment(settings) as env,
        served(env.api) as address,
        httpx.AsyncClient(base_url=address, timeout=30) as client,
    ):
        yield env, RouteClient(env, client, route, coordinator)


def test_every_route_has_a_case() -> None:
    assert set(CASES) == {f"{route.method} {route.path}" for route in ROUTES}
    assert len(ROUTES) == len(CASES), "no route is in the table twice"


@pytest.mark.parametrize("route", NAMED)
async def test_a_route_does_what_it_is_for(route: Route) -> None:
    async with open_route(route) as (env, send):
        await CASES[f"{route.method} {route.path}"](env, send)
        assert send.count, "the case did not use its route"


@pytest.mark.parametrize("route", NAMED)
async def test_a_case_notices_a_route_that_does_nothing(route: Route, monkeypatch: pytest.MonkeyPatch) -> None:
    async def idle(call: Request) -> Response:
        await call.body()
        (status, body), *_ = route.responses.items()
        return empty_response() if body is None else json_response({}, status)

    routes = tuple(replace(one, handler=idle) if one is route else one for one in ROUTES)
    monkeypatch.setattr("rota.api.app.ROUTES", routes)
    async with open_route(route) as (env, send):
        with pytest.raises((AssertionError, LookupError, ValueError)):
            await CASES[f"{route.method} {route.path}"](env, send)
