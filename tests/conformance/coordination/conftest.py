"""Each test gets an empty coordinator on every adapter, as two processes open it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from conformance.coordination.adapters import COORDINATORS, Adapter, Place
from rota.ports.coordinator import Coordinator

T = TypeVar("T")
Eventually = Callable[[Callable[[], Awaitable[T]], Callable[[T], bool]], Awaitable[T]]


@pytest.fixture(params=COORDINATORS, ids=lambda adapter: adapter.name)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    adapter: Adapter = request.param
    async with adapter.place(tmp_path) as place:
        yield place


@pytest.fixture
async def ours(place: Place) -> Coordinator:
    return await place.open()


@pytest.fixture
async def theirs(place: Place) -> Coordinator:
    return await place.open()


@pytest.fixture
def eventually(place: Place) -> Eventually[T]:
    """Look again and again while time passes, until something holds."""

    async def look(read: Callable[[], Awaitable[T]], holds: Callable[[T], bool]) -> T:
        async with asyncio.timeout(60):
            while not holds(seen := await read()):
                await place.pass_time(0.1)
            return seen

    return look
