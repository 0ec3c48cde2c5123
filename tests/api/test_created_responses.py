"""The response to a submission shows the job as stored, with the times of the store's clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.environment import HERE, body_of
from conformance.stores.adapters import SHARED, Adapter, opened
from rota.api import create_app
from rota.brokers.in_store import InStoreBroker
from rota.engine import Engine

LATER = (datetime.now(UTC) + timedelta(days=1)).isoformat()


def now() -> datetime:
    return datetime.now(UTC)


def slow_clock() -> datetime:
    """Return the time of a host whose clock is behind the store's."""
    return now() - timedelta(minutes=1)


@pytest.fixture(params=SHARED, ids=lambda adapter: adapter.name)
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    adapter: Adapter = request.param
    async with opened(adapter, tmp_path, now) as store:
        broker = InStoreBroker(store)
        api = create_app(Engine(store, broker, clock=slow_clock))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url=HERE) as client:
            yield client
        await api.aclose()
        await broker.close()


async def submit(client: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any field
    """Submit a job and check that it was answered as it is stored."""
    job = body_of(await client.post("/v1/jobs", json=fields), 201)
    assert body_of(await client.get(f"/v1/jobs/{job['id']}")) == job
    return job


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"run_at": LATER},
        {"run_at": "2020-01-01T00:00:00Z"},
        {"delay": "1h", "expires": "1h"},
        {"idempotency_key": "a"},
        {"tags": ["a"], "meta": {"b": "c"}, "timeout": 5, "retry": {"base": 3}},
        {"on_success": {"type": "thank"}, "on_failure": {"type": "alarm"}},
    ],
    ids=lambda fields: " ".join(fields) or "plain",
)
async def test_a_new_job_is_answered_as_it_is_stored(client: httpx.AsyncClient, fields: dict[str, Any]) -> None:
    # Twice: the second of a kind is shown by another way than the first.
    for number in range(3):
        key = {"idempotency_key": f"a{number}"} if "idempotency_key" in fields else {}
        await submit(client, type="mail", payload=number, **{**fields, **key})


async def test_a_job_in_a_paused_queue_is_answered_as_it_is_stored(client: httpx.AsyncClient) -> None:
    assert (await client.post("/v1/queues/slow/pause", json={"reason": "deploy"})).is_success
    for _ in range(2):
        assert (await submit(client, queue="slow"))["state"] == "pending"


async def test_a_job_that_waits_for_others_is_answered_as_it_is_stored(client: httpx.AsyncClient) -> None:
    done, open_ = [await submit(client, queue="parents", priority=priority) for priority in (9, 1)]
    (leased,) = body_of(
        await client.post(
            "/v1/leases:claim", json={"worker_id": "ada", "boot_id": "b", "queues": ["parents"], "max": 1}
        )
    )["jobs"]
    assert leased["id"] == done["id"]
    report = {"id": leased["id"], "fence": leased["fence"], "outcome": "succeeded"}
    assert (await client.post("/v1/leases:settle", json={"reports": [report]})).is_success
    assert (await submit(client, after=[done["id"]]))["state"] == "pending"
    assert (await submit(client, after=[done["id"]], run_at=LATER))["state"] == "scheduled"
    assert (await submit(client, after=[done["id"], open_["id"]]))["state"] == "blocked"
    assert (await client.post(f"/v1/jobs/{open_['id']}/cancel")).is_success
    assert (await submit(client, after=[open_["id"]]))["state"] == "cancelled"


async def test_jobs_that_are_submitted_at_once_are_answered_as_they_are_stored(client: httpx.AsyncClient) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(40):
            group.create_task(submit(client, type="mail", payload=number))
