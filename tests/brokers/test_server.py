"""The broker's server that is not there, or does not answer: nobody waits for it, and nobody fails of it."""

from __future__ import annotations

import asyncio

import pytest

from brokers.stage import Stage, until
from rota.brokers.redis_streams import RedisStreamsBroker
from rota.brokers.redis_streams.location import location_of
from rota.brokers.redis_streams.server import Server
from rota.core.errors import BrokerUnavailable
from rota.stores.sqlite import SqliteStore
from servers.housing import free_port


@pytest.mark.parametrize("scheme", ["redis", "redis+cluster"])
async def test_a_broker_is_opened_though_nobody_answers(scheme: str) -> None:
    store = await SqliteStore.open(":memory:")
    broker = await RedisStreamsBroker.open(store, f"{scheme}://127.0.0.1:{free_port()}")
    assert not broker.is_up
    await broker.close()
    await store.close()


@pytest.mark.parametrize("scheme", ["redis", "redis+cluster"])
async def test_a_server_that_is_not_there_is_away(scheme: str) -> None:
    server = Server(location_of(f"{scheme}://127.0.0.1:{free_port()}"), "probe", lambda *_: None)
    assert not await server.heal()
    server.is_up = True
    with pytest.raises(BrokerUnavailable):
        await server.command("GET", "key")
    assert not server.is_up
    await server.close()


async def test_nobody_is_sent_to_a_server_that_hangs(stage: Stage) -> None:
    """While `heal` knocks, all others are told at once that it is away."""
    server = Server(location_of(stage.url), "probe", lambda *_: None)
    assert await server.heal()
    stage.server.freeze()
    try:
        with pytest.raises(BrokerUnavailable):
            await server.command("GET", "key")
        knocking = asyncio.create_task(server.heal())
        seen = set()
        while not knocking.done():
            seen.add(server.is_up)
            await asyncio.sleep(0.01)
        assert seen == {False}
        assert not await knocking
    finally:
        stage.server.thaw()

    async def healed() -> bool:
        await server.heal()
        return server.is_up

    await until(healed, bool)
    await server.close()
