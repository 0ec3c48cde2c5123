from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from brokers.redis_stage import Stage, staged
from servers.valkey import ValkeyServer, require_binary, shared_valkey


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    """A stage on the shared server, under a name of its own."""
    async with staged(shared_valkey()) as one:
        yield one


@pytest_asyncio.fixture
async def own_stage() -> AsyncIterator[Stage]:
    """A stage on a server of its own, which may be harmed."""
    server = ValkeyServer(require_binary())
    try:
        async with staged(server) as one:
            yield one
    finally:
        server.remove()
