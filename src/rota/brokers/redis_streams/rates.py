"""Fast rates counted in Redis: one Lua script (lua/rates.lua), which takes starts or refuses them in one step.

Nothing depends on what Redis remembers. A value is valid for one run of one server and for the ceilings that the store
has: after a restart, a failover, or a claim that had to count without Redis, the store's ceilings count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain
from typing import Final

from rota.brokers.redis_streams.connection import RedisConnection
from rota.brokers.redis_streams.keys import StreamKeys
from rota.core.errors import BrokerUnavailable
from rota.core.limit import MOST_RATES
from rota.ports.rates import Arrivals, CountedRate

#: A claim holds locks while it waits. Then the store decides.
PATIENCE_SECONDS: Final = 0.25
#: By how much the store's ceiling is raised above what is used: the store is written so often, and so much is lost at
#: most when Redis goes away.
BLOCK_MICROS: Final = 1_000_000


class RedisRates:
    """Verbs of `rota.ports.rates.RateCounter`."""

    def __init__(self, redis: RedisConnection, keys: StreamKeys) -> None:
        self._redis = redis
        self._keys = keys

    async def look(self, counted: Sequence[CountedRate], now: int) -> Sequence[Arrivals] | None:
        return await self._run("look", counted, now)

    async def take(self, counted: Sequence[CountedRate], now: int) -> Sequence[Arrivals] | None:
        return await self._run("take", counted, now) or None

    async def _run(self, verb: str, counted: Sequence[CountedRate], now: int) -> Sequence[Arrivals] | None:
        keys = [self._keys.rate(one.name) for one in counted]
        arguments = chain.from_iterable(map(_arguments, counted))
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                reply = await self._redis.run("rates", keys, now, verb, *arguments)
        except (BrokerUnavailable, TimeoutError):
            return None
        times = list(map(int, reply))
        return list(zip(times[::MOST_RATES], times[1::MOST_RATES], strict=True))


def _arguments(counted: CountedRate) -> list[int]:
    arguments = [counted.starts]
    for number, ceiling in enumerate(counted.ceilings):
        rate = counted.rates[number] if number < len(counted.rates) else None
        if rate is None:
            arguments += [ceiling, 0, 0, 0]
        else:
            arguments += [ceiling, rate.interval, rate.burst, BLOCK_MICROS // rate.interval * rate.interval]
    return arguments
