"""Test environment of the API: an engine on a store in memory, a manual clock, and a client without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from building import ManualClock
from rota.api import Api, ApiSettings, Timeouts, create_app, serve
from rota.api.server.tls import ServerTls
from rota.brokers.in_store import InStoreBroker
from rota.engine import Engine
from rota.ports.store import Store
from rota.stores.sqlite import SqliteStore

HERE = "http://127.0.0.1"
SECURED = "https://127.0.0.1"


@dataclass
class Stage:
    """All that a test of the API needs."""

    clock: ManualClock
    store: Store
    engine: Engine
    api: Api
    client: httpx.AsyncClient

    async def submit(self, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any field
        """Submit a job and give it as it was answered."""
        return body_of(await self.client.post("/v1/jobs", json=fields), 201)

    async def claim(self, worker: str = "ada", **fields: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - any field
        """Claim jobs for a worker."""
        request = {"worker_id": worker, "boot_id": "boot", "max": 100, **fields}
        jobs: list[dict[str, Any]] = body_of(await self.client.post("/v1/leases:claim", json=request))["jobs"]
        return jobs

    async def settle(self, job: Mapping[str, Any], outcome: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
        """Report what came of a job."""
        report = {"id": job["id"], "fence": job["fence"], "outcome": outcome, **fields}
        return body_of(await self.client.post("/v1/leases:settle", json={"reports": [report]}))

    async def get(self, job_id: str) -> dict[str, Any]:
        """Look at a job."""
        return body_of(await self.client.get(f"/v1/jobs/{job_id}"))

    async def dead(self, message: str = "no", **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any field
        """Make a dead letter."""
        job = await self.submit(**{"type": "mail", "max_attempts": 1, **fields})
        (claimed,) = await self.claim(queues=[job["queue"]])
        await self.settle(claimed, "failed", error={"kind": "OSError", "message": message})
        return await self.get(job["id"])


OpenStore = Callable[[ManualClock], Awaitable[Store]]


@asynccontextmanager
async def staged(
    settings: ApiSettings | None = None, location: str = ":memory:", open_store: OpenStore | None = None
) -> AsyncIterator[Stage]:
    """Set a stage up and clear it away."""
    clock = ManualClock()
    store: Store = await (SqliteStore.open(location, clock=clock) if open_store is None else open_store(clock))
    broker = InStoreBroker(store)
    engine = Engine(store, broker, clock=clock, steady=clock.steady)
    # A scheduler has looked at the store's clock when anything begins.
    await engine.upkeep.timetable()
    api = create_app(engine, settings=settings or ApiSettings(instance_id="here", version="1.2.3"))
    transport = httpx.ASGITransport(app=api)
    async with httpx.AsyncClient(transport=transport, base_url=HERE) as client:
        yield Stage(clock, store, engine, api, client)
    await api.aclose()
    await broker.close()
    await store.close()


@asynccontextmanager
async def served(api: Api, timeouts: Timeouts | None = None, tls: ServerTls | None = None) -> AsyncIterator[str]:
    """Serve an API on a free port and give its address."""
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def tell(_host: str, port: int) -> None:
        ready.set_result(port)

    serving = asyncio.create_task(serve(api, port=0, tls=tls, on_ready=tell, timeouts=timeouts))
    done, _ = await asyncio.wait((serving, ready), return_when=asyncio.FIRST_COMPLETED)
    if serving in done:
        await serving
    try:
        yield f"{HERE if tls is None else SECURED}:{ready.result()}"
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def until(condition: Callable[[], object]) -> None:
    """Let others go on until something holds that nobody tells of."""
    while not condition():  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0)


def body_of(response: httpx.Response, status: int = 200) -> dict[str, Any]:
    """Give what was answered, which must have been with this status."""
    assert response.status_code == status, response.text
    found: dict[str, Any] = json.loads(response.content)
    return found


def problem_of(response: httpx.Response, status: int) -> dict[str, Any]:
    """Give the refusal, which must have this status and the form that all refusals have."""
    problem = body_of(response, status)
    assert response.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail", "code"} <= set(problem)
    assert problem["status"] == status
    assert "Traceback" not in response.text
    return problem


def fields_of(problem: Mapping[str, Any]) -> set[str]:
    """Name the fields that a refusal is about."""
    return {error["field"] for error in problem.get("errors", ())}
