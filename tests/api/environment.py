"""Test environment of the API: an engine on a store in memory, a manual clock, and a client without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from builders import ManualClock
from rota.api import Api, ApiSettings, Timeouts, create_app, serve
from rota.api.server.tls import ServerTls
from rota.brokers.in_store import InStoreBroker
from rota.engine import Engine
from rota.ports.store import Store
from rota.stores.sqlite import SqliteStore

HERE = "http://127.0.0.1"
SECURED = "https://127.0.0.1"


@dataclass
class ApiEnvironment:
    """The API on a store in memory, with a client."""

    clock: ManualClock
    store: Store
    engine: Engine
    api: Api
    client: httpx.AsyncClient

    async def submit(self, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any field
        """Submit a job and return the response."""
        return body_of(await self.client.post("/v1/jobs", json=fields), 201)

    async def claim(self, worker: str = "ada", **fields: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - any field
        """Claim jobs for a worker."""
        request = {"worker_id": worker, "boot_id": "boot", "max": 100, **fields}
        jobs: list[dict[str, Any]] = body_of(await self.client.post("/v1/leases:claim", json=request))["jobs"]
        return jobs

    async def settle(self, job: Mapping[str, Any], outcome: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
        """Report the outcome of a job."""
        report = {"id": job["id"], "fence": job["fence"], "outcome": outcome, **fields}
        return body_of(await self.client.post("/v1/leases:settle", json={"reports": [report]}))

    async def get(self, job_id: str) -> dict[str, Any]:
        """Read a job."""
        return body_of(await self.client.get(f"/v1/jobs/{job_id}"))

    async def dead(self, message: str = "no", **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any field
        """Make a dead letter."""
        job = await self.submit(**{"type": "mail", "max_attempts": 1, **fields})
        (claimed,) = await self.claim(queues=[job["queue"]])
        await self.settle(claimed, "failed", error={"kind": "OSError", "message": message})
        return await self.get(job["id"])


OpenStore = Callable[[ManualClock], Awaitable[Store]]


@asynccontextmanager
async def api_environment(
    settings: ApiSettings | None = None, location: str = ":memory:", open_store: OpenStore | None = None
) -> AsyncIterator[ApiEnvironment]:
    """Open an environment, and close it at the end."""
    clock = ManualClock()
    store: Store = await (SqliteStore.open(location, clock=clock) if open_store is None else open_store(clock))
    broker = InStoreBroker(store)
    engine = Engine(store, broker, clock=clock, steady=clock.steady)
    # As if a scheduler had read the store's clock before the test begins.
    await engine.upkeep.timetable()
    api = create_app(engine, settings=settings or ApiSettings(instance_id="here", version="1.2.3"))
    transport = httpx.ASGITransport(app=api)
    async with httpx.AsyncClient(transport=transport, base_url=HERE) as client:
        yield ApiEnvironment(clock, store, engine, api, client)
    await api.aclose()
    await broker.close()
    await store.close()


@asynccontextmanager
async def served(api: Api, timeouts: Timeouts | None = None, tls: ServerTls | None = None) -> AsyncIterator[str]:
    """Serve an API on a free port and give its address."""
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def on_ready(_host: str, port: int) -> None:
        ready.set_result(port)

    serving = asyncio.create_task(serve(api, port=0, tls=tls, on_ready=on_ready, timeouts=timeouts))
    done, _ = await asyncio.wait((serving, ready), return_when=asyncio.FIRST_COMPLETED)
    if serving in done:
        await serving
    try:
        yield f"{HERE if tls is None else SECURED}:{ready.result()}"
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def until(condition: Callable[[], object]) -> None:
    """Run other tasks until a condition holds that no event reports."""
    while not condition():  # noqa: ASYNC110 - no event reports it
        await asyncio.sleep(0)


def body_of(response: httpx.Response, status: int = 200) -> dict[str, Any]:
    """Return the body of a response, which must have this status."""
    assert response.status_code == status, response.text
    found: dict[str, Any] = json.loads(response.content)
    return found


def problem_of(response: httpx.Response, status: int) -> dict[str, Any]:
    """Return the error body, which must have this status and the form of all errors."""
    problem = body_of(response, status)
    assert response.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail", "code"} <= set(problem)
    assert problem["status"] == status
    assert "Traceback" not in response.text
    return problem


def fields_of(problem: Mapping[str, Any]) -> set[str]:
    """Return the fields that an error names."""
    return {error["field"] for error in problem.get("errors", ())}
