"""Each test gets an engine of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from engine.environment import EngineEnvironment, engine_in_memory


@pytest.fixture
async def env() -> AsyncIterator[EngineEnvironment]:
    async with engine_in_memory() as env:
        yield env
