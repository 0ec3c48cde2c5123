"""Each test gets a store on an empty database of its own, on every adapter."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from building import ManualClock
from conformance.stores.adapters import MODEL, STORES, Adapter
from rota.ports.store import Store

OpenStore = Callable[[], Awaitable[Store]]


@pytest.fixture(params=[*STORES, MODEL], ids=lambda adapter: adapter.name)
def adapter(request: pytest.FixtureRequest) -> Adapter:
    chosen: Adapter = request.param
    return chosen


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def place(adapter: Adapter, tmp_path: Path) -> AsyncIterator[str]:
    async for place in adapter.place(tmp_path):
        yield place


@pytest.fixture
async def open_store(adapter: Adapter, place: str, clock: ManualClock) -> AsyncIterator[OpenStore]:
    """Open one more store on the test's database."""
    opened: list[Store] = []

    async def open_one() -> Store:
        opened.append(await adapter.open(place, clock))
        return opened[-1]

    yield open_one
    for store in opened:
        await store.close()


@pytest.fixture
async def store(open_store: OpenStore) -> Store:
    return await open_store()
