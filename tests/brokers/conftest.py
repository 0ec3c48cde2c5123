from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from brokers.redis_environment import RedisEnvironment, redis_environment
from servers.valkey import ValkeyServer, require_binary, shared_valkey


@pytest_asyncio.fixture
async def env() -> AsyncIterator[RedisEnvironment]:
    """An environment on the shared server, with a stream name of its own."""
    async with redis_environment(shared_valkey()) as one:
        yield one


@pytest_asyncio.fixture
async def own_stage() -> AsyncIterator[RedisEnvironment]:
    """An environment on a private server, which tests may break."""
    server = ValkeyServer(require_binary())
    try:
        async with redis_environment(server) as one:
            yield one
    finally:
        server.remove()
