"""Each test gets a stage of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from api.staging import Stage, staged


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with staged() as stage:
        yield stage


@pytest.fixture
def client(stage: Stage) -> httpx.AsyncClient:
    return stage.client
