"""Cases of namespaces."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from api.environment import ApiEnvironment
from api.route_cases.route_case import RouteClient, ledger_actions, of
from rota.core.namespace import Namespace, NamespaceLimits
from rota.ports.client import Actor
from rota.runtime.assembly import AppDefinition
from rota.runtime.components import BoundPorts, Components, RolePlan
from rota.runtime.link import Link
from rota.runtime.namespace_stores import exists, store_url
from rota.runtime.namespaces import NamespaceServices
from rota.settings import Settings


@asynccontextmanager
async def hosted(env: ApiEnvironment) -> AsyncIterator[str]:
    """Have the API manage namespaces beside a file; give its path."""
    plan = RolePlan(schedules=False, serves=True, works=False, is_hosted=True)

    def make(settings: Settings, link: Link) -> Components:
        return Components(plan, settings, AppDefinition(), link, BoundPorts())

    with tempfile.TemporaryDirectory() as folder:
        url = str(Path(folder) / "rota.db")
        services = NamespaceServices(env.engine, Settings(), url, make)
        env.api.context.namespaces = services
        yield url
        await services.close()


async def kept(env: ApiEnvironment) -> Namespace:
    (namespace,) = await env.store.namespaces()
    return namespace


async def listed(env: ApiEnvironment) -> None:
    await env.engine.namespaces.create("acme", NamespaceLimits(jobs_waiting=3), Actor("ann", surface="api"))


@of("POST /v1/namespaces")
async def create(env: ApiEnvironment, send: RouteClient) -> None:
    await send(404, json={"name": "acme"})
    async with hosted(env) as url:
        form = await send(201, json={"name": "acme", "limits": {"requests_per_second": 5}})
        assert (form["name"], form["limits"]) == ("acme", {"requests_per_second": 5})
        assert (await kept(env)).limits == NamespaceLimits(requests_per_second=5)
        assert await exists(store_url(url, "acme"))
        await send(409, json={"name": "acme"})
        await send(422, json={"name": "No Name"})
        await send(422, json={"name": "beta", "limits": {"jobs_waiting": 0}})
        assert await ledger_actions(env) == [("namespaces.create", "acme")]


@of("GET /v1/namespaces")
async def list_namespaces(env: ApiEnvironment, send: RouteClient) -> None:
    await listed(env)
    async with hosted(env):
        assert [(one["name"], one["limits"]) for one in (await send())["items"]] == [("acme", {"jobs_waiting": 3})]


@of("GET /v1/namespaces/{name}")
async def get(env: ApiEnvironment, send: RouteClient) -> None:
    await listed(env)
    async with hosted(env):
        assert (await send(name="acme"))["limits"] == {"jobs_waiting": 3}
        await send(404, name="other")


@of("PUT /v1/namespaces/{name}/limits")
async def set_limits(env: ApiEnvironment, send: RouteClient) -> None:
    await listed(env)
    async with hosted(env):
        assert (await send(name="acme", json={"bytes_in_flight": 9}))["limits"] == {"bytes_in_flight": 9}
        assert (await kept(env)).limits == NamespaceLimits(bytes_in_flight=9)
        await send(404, name="other", json={})
        await send(422, name="acme", json={"bytes": 9})


@of("DELETE /v1/namespaces/{name}")
async def delete(env: ApiEnvironment, send: RouteClient) -> None:
    await listed(env)
    async with hosted(env):
        await send(422, name="acme")
        await send(422, name="acme", params={"confirm": "acne"})
        assert (await kept(env)).is_live
        await send(name="acme", params={"confirm": "acme"})
        assert not (await kept(env)).is_live
        await send(404, name="acme", params={"confirm": "acme"})
