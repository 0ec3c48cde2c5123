"""Each test gets a store on an empty database of its own, on every adapter."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

from builders import ManualClock
from conformance.stores.adapters import LIMITED, MODEL, STORES, Adapter
from rota.ports.store import Store

OpenStore = Callable[[], Awaitable[Store]]


#: Modules that also run with the database roles of `rota db grants`; with ROTA_TEST_LIMITED all do.
WITH_LIMITED_ROLES: Final = frozenset({"test_insert", "test_ledger", "test_operations", "test_prune", "test_workflows"})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the limited roles to the modules that are named above."""
    others = [item for item in items if "-limited" in item.nodeid and _module(item) not in WITH_LIMITED_ROLES]
    if others and STORES is not LIMITED:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in set(others)]


def _module(item: pytest.Item) -> str:
    return item.path.stem


@pytest.fixture(params=dict.fromkeys((*STORES, MODEL, *LIMITED)), ids=lambda adapter: adapter.name)
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
