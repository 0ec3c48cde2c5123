"""Each test gets a store on an empty database, a program that is connected to it, and an app with one task."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from conformance.caller_tx.callers import OWN_TABLE, WAYS, Caller, Way
from rota import Rota, Task
from rota.ports.store import Store


@pytest.fixture(params=WAYS, ids=lambda way: way.name)
def way(request: pytest.FixtureRequest) -> Way:
    chosen: Way = request.param
    return chosen


@pytest.fixture
async def place(way: Way, tmp_path: Path) -> AsyncIterator[str]:
    async for place in way.store.place(tmp_path):
        yield place


@pytest.fixture
async def store(way: Way, place: str) -> AsyncIterator[Store]:
    store = await way.store.open(place, lambda: datetime.now(UTC))
    yield store
    await store.close()


@pytest.fixture
async def caller(way: Way, place: str, store: Store) -> AsyncIterator[Caller]:
    del store
    async with way.connect(place) as caller:
        await caller.start()
        await caller.execute(OWN_TABLE)
        await caller.commit()
        await caller.start()
        yield caller
        await caller.rollback()
        await caller.start()
        await caller.execute("DROP TABLE purchase")
        await caller.commit()


@pytest.fixture
def app(place: str) -> Iterator[Rota]:
    app = Rota(place)
    yield app
    app.close()


@pytest.fixture
def task(app: Rota) -> Task[[int], int]:
    @app.task
    def ship(number: int) -> int:
        return number * 2

    return ship
