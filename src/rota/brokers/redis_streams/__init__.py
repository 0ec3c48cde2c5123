"""The broker on Redis Streams: carries ids of dispatched jobs to workers. All of it can be rebuilt from the store."""

from __future__ import annotations

from rota.brokers.redis_streams.broker import RedisStreamsBroker

__all__ = ["RedisStreamsBroker"]
