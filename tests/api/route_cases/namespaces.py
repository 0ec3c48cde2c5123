"""Cases of namespaces."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from api.route_cases.asking import Ask, acts, of
from api.staging import Stage
from rota.core.namespace import Namespace, NamespaceLimits
from rota.ports.client import Actor
from rota.runtime.assembly import AppDefinition
from rota.runtime.components import BoundPorts, Components, RolePlan
from rota.runtime.link import Link
from rota.runtime.namespace_stores import exists, store_url
from rota.runtime.namespaces import NamespaceServices
from rota.settings import Settings


@asynccontextmanager
async def hosted(stage: Stage) -> AsyncIterator[str]:
    """Have the API manage namespaces beside a file; give its path."""
    plan = RolePlan(schedules=False, serves=True, works=False, is_hosted=True)

    def make(settings: Settings, link: Link) -> Components:
        return Components(plan, settings, AppDefinition(), link, BoundPorts())

    with tempfile.TemporaryDirectory() as folder:
        url = str(Path(folder) / "rota.db")
        services = NamespaceServices(stage.engine, Settings(), url, make)
        stage.api.context.namespaces = services
        yield url
        await services.close()


async def kept(stage: Stage) -> Namespace:
    (namespace,) = await stage.store.namespaces()
    return namespace


async def listed(stage: Stage) -> None:
    await stage.engine.namespaces.create("acme", NamespaceLimits(jobs_waiting=3), Actor("ann", surface="api"))


@of("POST /v1/namespaces")
async def create(stage: Stage, ask: Ask) -> None:
    await ask(404, json={"name": "acme"})
    async with hosted(stage) as url:
        form = await ask(201, json={"name": "acme", "limits": {"requests_per_second": 5}})
        assert (form["name"], form["limits"]) == ("acme", {"requests_per_second": 5})
        assert (await kept(stage)).limits == NamespaceLimits(requests_per_second=5)
        assert await exists(store_url(url, "acme"))
        await ask(409, json={"name": "acme"})
        await ask(422, json={"name": "No Name"})
        await ask(422, json={"name": "beta", "limits": {"jobs_waiting": 0}})
        assert await acts(stage) == [("namespaces.create", "acme")]


@of("GET /v1/namespaces")
async def list_namespaces(stage: Stage, ask: Ask) -> None:
    await listed(stage)
    async with hosted(stage):
        assert [(one["name"], one["limits"]) for one in (await ask())["items"]] == [("acme", {"jobs_waiting": 3})]


@of("GET /v1/namespaces/{name}")
async def get(stage: Stage, ask: Ask) -> None:
    await listed(stage)
    async with hosted(stage):
        assert (await ask(name="acme"))["limits"] == {"jobs_waiting": 3}
        await ask(404, name="other")


@of("PUT /v1/namespaces/{name}/limits")
async def set_limits(stage: Stage, ask: Ask) -> None:
    await listed(stage)
    async with hosted(stage):
        assert (await ask(name="acme", json={"bytes_in_flight": 9}))["limits"] == {"bytes_in_flight": 9}
        assert (await kept(stage)).limits == NamespaceLimits(bytes_in_flight=9)
        await ask(404, name="other", json={})
        await ask(422, name="acme", json={"bytes": 9})


@of("DELETE /v1/namespaces/{name}")
async def delete(stage: Stage, ask: Ask) -> None:
    await listed(stage)
    async with hosted(stage):
        await ask(422, name="acme")
        await ask(422, name="acme", params={"confirm": "acne"})
        assert (await kept(stage)).is_live
        await ask(name="acme", params={"confirm": "acme"})
        assert not (await kept(stage)).is_live
        await ask(404, name="acme", params={"confirm": "acme"})
