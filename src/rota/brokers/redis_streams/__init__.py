"""Redis Streams carry the ids of dispatched jobs to workers. Nothing is kept there that the store does not know."""

from __future__ import annotations

from rota.brokers.redis_streams.broker import RedisStreamsBroker

__all__ = ["RedisStreamsBroker"]
