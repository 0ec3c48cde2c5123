"""The components of `rota scheduler --port`, run within the test on a store."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from rota.runtime import Link, open_link
from rota.runtime.assembly import AppDefinition
from rota.runtime.components import BoundPorts, Components, RolePlan
from rota.runtime.namespace_stores import drop, store_url
from rota.runtime.namespaces import NamespaceServices
from rota.settings import Settings
from servers.databases import fresh_database
from servers.postgres import migrated_database, shared_server

ROOT = "0123456789abcdef0123456789abcdef"
STORES = ("sqlite", "postgres", "mariadb")
NAMES = ("acme", "beta", "late-1")


@dataclass
class HostedProcess:
    """A running process and its client, which sends the bootstrap token."""

    settings: Settings
    link: Link
    components: Components
    client: httpx.AsyncClient
    address: str

    @property
    def namespaces(self) -> NamespaceServices:
        assert self.components._namespaces is not None
        return self.components._namespaces

    async def ask(
        self,
        method: str,
        path: str,
        status: int | None = 200,
        *,
        namespace: str = "",
        token: str = ROOT,
        **sent: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401 - JSON
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if namespace:
            headers["Rota-Namespace"] = namespace
        answer = await self.client.request(method, path, headers={**headers, **sent.pop("headers", {})}, **sent)
        if status is not None:
            assert answer.status_code == status, (method, path, answer.status_code, answer.text)
        is_json = "json" in answer.headers.get("content-type", "")
        return answer if status is None else answer.json() if is_json and answer.content else answer.text

    async def token(self, namespace: str, name: str = "ann", **fields: Any) -> str:  # noqa: ANN401 - its fields
        """Create a token of a namespace and return its secret."""
        body = {"name": name, "role": "admin", **fields}
        return str((await self.ask("POST", "/v1/tokens", 201, namespace=namespace, json=body))["secret"])


@asynccontextmanager
async def hosted_process(url: str, plan: RolePlan | None = None, **changes: Any) -> AsyncIterator[HostedProcess]:  # noqa: ANN401
    """Run the components of a plan on a store."""
    settings = replace(Settings(), store=url, port=0, token=ROOT, **changes)
    plan = plan or RolePlan(schedules=True, serves=True, works=False, instance=f"test-{secrets.token_hex(4)}")
    ports = BoundPorts.bound(plan, settings)
    try:
        link = await open_link(settings, store_url(url, settings.namespace))
    except BaseException:
        ports.close()
        raise
    components = Components(plan, settings, AppDefinition(), link, ports)
    try:
        await components.start()
        address = f"http://127.0.0.1:{ports.api[0].getsockname()[1]}"
        async with httpx.AsyncClient(base_url=address, timeout=30) as client:
            yield HostedProcess(settings, link, components, client, address)
    finally:
        await components.end()
        await link.close()


@asynccontextmanager
async def empty_store(kind: str, folder: Path) -> AsyncIterator[str]:
    """Make an empty store, and drop it with its namespaces at the end."""
    if kind == "sqlite":
        yield str(folder / "rota.db")
        return
    database = fresh_database() if kind == "mariadb" else migrated_database(shared_server())
    async with database as bare:
        url = bare if kind == "mariadb" else f"{bare}?schema=t_{secrets.token_hex(4)}"
        try:
            yield url
        finally:
            for name in NAMES:
                await drop(store_url(url, name))
            if kind == "postgres":
                await drop(url)
