"""A Redis server that is unreachable or hangs: no call waits for it."""

from __future__ import annotations

import asyncio

import pytest

from brokers.redis_environment import RedisEnvironment, until
from rota.brokers.redis_streams import RedisStreamsBroker
from rota.brokers.redis_streams.connection import RedisConnection
from rota.brokers.redis_streams.location import location_of
from rota.core.errors import BrokerUnavailable
from rota.stores.sqlite import SqliteStore
from servers.private_server import free_port


@pytest.mark.parametrize("scheme", ["redis", "redis+cluster"])
async def test_a_broker_opens_without_a_server(scheme: str) -> None:
    store = await SqliteStore.open(":memory:")
    broker = await RedisStreamsBroker.open(store, f"{scheme}://127.0.0.1:{free_port()}")
    assert not broker.is_up
    await broker.close()
    await store.close()


@pytest.mark.parametrize("scheme", ["redis", "redis+cluster"])
async def test_an_unreachable_server_is_unavailable(scheme: str) -> None:
    server = RedisConnection(location_of(f"{scheme}://127.0.0.1:{free_port()}"), "probe", lambda *_: None)
    assert not await server.check()
    server.is_up = True
    with pytest.raises(BrokerUnavailable):
        await server.command("GET", "key")
    assert not server.is_up
    await server.close()


async def test_calls_fail_at_once_while_a_server_hangs(env: RedisEnvironment) -> None:
    """While `check` tries to reach it, all other calls fail at once."""
    server = RedisConnection(location_of(env.url), "probe", lambda *_: None)
    assert await server.check()
    env.server.freeze()
    try:
        with pytest.raises(BrokerUnavailable):
            await server.command("GET", "key")
        checking = asyncio.create_task(server.check())
        seen = set()
        while not checking.done():
            seen.add(server.is_up)
            await asyncio.sleep(0.01)
        assert seen == {False}
        assert not await checking
    finally:
        env.server.thaw()

    async def healed() -> bool:
        await server.check()
        return server.is_up

    await until(healed, bool)
    await server.close()
