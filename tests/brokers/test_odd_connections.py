"""Redis behind a network that fails: the broker reports it in time, and is used again afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from rota.brokers.redis_streams.connection import RedisConnection
from rota.brokers.redis_streams.location import ANSWER_SECONDS, CONNECT_SECONDS, location_of
from rota.core.errors import BrokerUnavailable
from servers.proxies import Proxy
from servers.valkey import shared_valkey

#: What a busy machine may add.
SLACK_SECONDS = 2.0


@pytest.mark.parametrize("fail", [Proxy.reset, Proxy.swallow, Proxy.one_way], ids=["reset", "swallow", "one way"])
async def test_a_redis_that_cannot_be_reached_is_away_within_seconds_and_back_again(
    fail: Callable[[Proxy], None],
) -> None:
    valkey = shared_valkey()
    with Proxy(valkey.port) as proxy:
        server = RedisConnection(location_of(proxy.through(valkey.url)), "odd-connections", lambda *_: None)
        assert await server.check()
        fail(proxy)
        begun = time.monotonic()
        with pytest.raises(BrokerUnavailable):
            await server.command("PING")
        assert time.monotonic() - begun < CONNECT_SECONDS + ANSWER_SECONDS + SLACK_SECONDS
        assert not server.is_up
        proxy.forward()
        assert await server.check()
        await server.close()


@pytest.mark.parametrize("fail", [Proxy.cut, Proxy.lose_all], ids=["cut", "half-open"])
async def test_connections_to_redis_that_are_gone_are_replaced(fail: Callable[[Proxy], None]) -> None:
    valkey = shared_valkey()
    with Proxy(valkey.port) as proxy:
        server = RedisConnection(location_of(proxy.through(valkey.url)), "odd-connections", lambda *_: None)
        await server.check()
        fail(proxy)
        with pytest.raises(BrokerUnavailable):
            await server.command("PING")
        assert await server.check()
        await server.close()


async def test_a_slow_redis_is_not_away() -> None:
    valkey = shared_valkey()
    with Proxy(valkey.port) as proxy:
        proxy.delay(0.05)
        server = RedisConnection(location_of(proxy.through(valkey.url)), "odd-connections", lambda *_: None)
        assert await server.check()
        assert await server.command("PING")
        await server.close()
