"""The consumer of a process: takes ids from the streams, and acknowledges them when their jobs are claimed.

Between taking and acknowledging an id is pending for this consumer; if the process dies then, other consumers take it
over. If a caller is cancelled while ids are coming, or cannot claim them, they are kept here for the next caller.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from rota.brokers.redis_streams.connection import RedisConnection
from rota.brokers.redis_streams.keys import StreamKeys, escaped
from rota.brokers.redis_streams.subscription import RedisSubscription
from rota.core.errors import BrokerUnavailable
from rota.core.ids import JobId
from rota.core.queue import Lane

#: For how long a lane has a reader after its last registration.
REGISTERED_SECONDS: Final = 10.0
#: For how long after its last `take` a lane is still registered.
READ_SECONDS: Final = 5.0
#: An entry that is pending for this time is taken over; how often such entries are searched for.
STALLED_SECONDS: Final = 15.0
TAKE_OVER_SECONDS: Final = 5.0
#: How often workers claim from the store while the streams are empty, in case a job was not dispatched.
STORE_SECONDS: Final = 1.0
#: A stream with fewer entries than this is to be filled.
LOW: Final = 128
#: A `take` for more lanes than this is left to the store, which finds the lanes that have jobs.
MANY_LANES: Final = 500
#: How many entries one call acknowledges.
_BATCH: Final = 500


class StreamEntry(NamedTuple):
    """The stream entry of an id."""

    lane: Lane
    stream: str
    number: str


class StreamReader:
    """Takes ids and acknowledges them."""

    def __init__(
        self, redis: RedisConnection, keys: StreamKeys, group: str, subscription: RedisSubscription, *, is_cluster: bool
    ) -> None:
        self._redis = redis
        self._keys = keys
        self._group = group
        self._subscription = subscription
        self._is_cluster = is_cluster
        self.consumer = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._asked: dict[Lane, float] = {}
        self._registered: dict[Lane, float] = {}
        self._store_claimed: dict[Lane, float] = {}
        self._took_over_at = 0.0
        #: Taken and not acknowledged.
        self._entries: dict[JobId, StreamEntry] = {}
        #: Taken and not given to a caller.
        self._kept: dict[JobId, Lane] = {}
        self._streams: dict[str, str] = {}
        self._to_acknowledge: list[StreamEntry] = []
        self._acknowledging: asyncio.Task[None] | None = None
        self._taking: set[asyncio.Task[list[JobId]]] = set()

    async def take(self, queues: Collection[str], types: Collection[str] | None, limit: int) -> Sequence[JobId] | None:
        """Take ids; None if the caller is to claim from the store."""
        if types is None or limit <= 0 or not self._redis.is_up or len(queues) * len(types) > MANY_LANES:
            return None
        lanes = [Lane(queue, type_) for queue in dict.fromkeys(queues) for type_ in dict.fromkeys(types)]
        if lanes:
            # In random order: the first lane would starve the others.
            start = secrets.randbelow(len(lanes))
            lanes = lanes[start:] + lanes[:start]
        now = asyncio.get_running_loop().time()
        self._asked.update(dict.fromkeys(lanes, now))
        taking = asyncio.ensure_future(self._take(lanes, limit))
        # Not to be cancelled: ids that the server has given would be lost here.
        self._taking.add(taking)
        try:
            ids = await asyncio.shield(taking)
        except asyncio.CancelledError:
            taking.add_done_callback(self._keep_result)
            raise
        except BrokerUnavailable:
            return None
        finally:
            taking.add_done_callback(self._taking.discard)
        if ids or (self._subscription.has_dispatcher and not self._is_store_due(lanes, now)):
            return ids
        self._store_claimed.update(dict.fromkeys(lanes, now))
        return None

    def _is_store_due(self, lanes: Iterable[Lane], now: float) -> bool:
        return any(now - self._store_claimed.get(lane, -STORE_SECONDS) >= STORE_SECONDS for lane in lanes)

    def _keep_result(self, taking: asyncio.Task[list[JobId]]) -> None:
        if not taking.cancelled() and taking.exception() is None:
            self.hand_back(taking.result())

    async def _take(self, lanes: Sequence[Lane], limit: int) -> list[JobId]:
        ids = self._take_kept(lanes, limit)
        try:
            await self._take_more(lanes, limit, ids)
        except BrokerUnavailable:
            # Ids that came before the failure can be claimed all the same.
            if not ids:
                raise
        # Ids that were taken over come on top, so that neither full streams nor many dead readers delay the other.
        ids = list(dict.fromkeys(ids))
        self.hand_back(ids[limit:])
        return ids[:limit]

    async def _take_more(self, lanes: Sequence[Lane], limit: int, ids: list[JobId]) -> None:
        loop = asyncio.get_running_loop()
        if any(loop.time() - self._registered.get(lane, -REGISTERED_SECONDS) > READ_SECONDS for lane in lanes):
            await self.register(lanes)
        for batch in self._batches(lanes):
            if len(ids) < limit:
                ids += await self._run_take("take", self._keys.streams(batch), limit - len(ids))
        if loop.time() - self._took_over_at >= TAKE_OVER_SECONDS:
            self._took_over_at = loop.time()
            for batch in self._batches(lanes):
                ids += await self._run_take("take_over", self._keys.streams(batch), limit)

    async def _run_take(self, script: str, streams: Sequence[tuple[str, Lane]], limit: int) -> list[JobId]:
        more = (self._keys.channel, LOW) if script == "take" else (int(STALLED_SECONDS * 1000),)
        keys = [stream for stream, _ in streams]
        flat: list[Any] = await self._redis.run(script, keys, self._group, self.consumer, limit, *more)
        ids: list[JobId] = []
        for place, number, text in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
            stream, lane = streams[int(place) - 1]
            self._streams[stream] = lane.queue
            job_id = JobId(int(text))
            before = self._entries.pop(job_id, None)
            if before is not None and before.number != number:
                # The same job twice in a stream: one entry is enough.
                self._acknowledge([before])
            self._entries[job_id] = StreamEntry(lane, stream, number)
            ids.append(job_id)
        return list(dict.fromkeys(ids))

    def _batches(self, lanes: Sequence[Lane]) -> list[Sequence[Lane]]:
        """Group the lanes by script call: all in one, but in a cluster one call for each queue."""
        if not self._is_cluster:
            return [lanes]
        queues: dict[str, list[Lane]] = {}
        for lane in lanes:
            queues.setdefault(lane.queue, []).append(lane)
        return list(queues.values())

    def _take_kept(self, lanes: Sequence[Lane], limit: int) -> list[JobId]:
        served = set(lanes)
        ids = [job_id for job_id, lane in self._kept.items() if lane in served][:limit] if self._kept else []
        for job_id in ids:
            del self._kept[job_id]
        return ids

    async def register(self, lanes: Sequence[Lane] | None = None) -> None:
        """Register lanes as read by this process; by default those of recent calls of `take`."""
        now = asyncio.get_running_loop().time()
        if lanes is None:
            self._asked = {lane: at for lane, at in self._asked.items() if now - at < READ_SECONDS}
            lanes = list(self._asked)
        queues: dict[str, list[str]] = {}
        for lane in lanes:
            queues.setdefault(lane.queue, []).append(escaped(lane.type))
        for queue, types in queues.items():
            await self._redis.command("SADD", self._keys.queues, queue)
            await self._redis.run("register", [self._keys.lanes(queue)], self._keys.channel, REGISTERED_SECONDS, *types)
        self._registered = {lane: at for lane, at in self._registered.items() if now - at < REGISTERED_SECONDS}
        self._registered.update(dict.fromkeys(lanes, now))
        self._store_claimed = {lane: at for lane, at in self._store_claimed.items() if now - at < STORE_SECONDS}

    def keep_reading(self, queues: Collection[str], types: Collection[str]) -> None:
        """Keep lanes registered for a listener that still waits."""
        if len(queues) * len(types) <= MANY_LANES:
            now = asyncio.get_running_loop().time()
            self._asked.update((Lane(queue, type_), now) for queue in queues for type_ in types)

    def hand_back(self, ids: Iterable[JobId]) -> None:
        """Keep ids that were not claimed for the next caller."""
        for job_id in ids:
            entry = self._entries.get(job_id)
            if entry is not None:
                self._kept[job_id] = entry.lane

    def acknowledge(self, ids: Iterable[JobId]) -> None:
        """Acknowledge ids in the background."""
        entries = [entry for job_id in ids if (entry := self._entries.pop(job_id, None)) is not None]
        if entries:
            self._acknowledge(entries)

    def _acknowledge(self, entries: Iterable[StreamEntry]) -> None:
        self._to_acknowledge += entries
        if self._acknowledging is None:
            self._acknowledging = asyncio.get_running_loop().create_task(self._acknowledge_all())

    async def _acknowledge_all(self) -> None:
        try:
            while self._to_acknowledge:
                some, self._to_acknowledge = self._to_acknowledge[:_BATCH], self._to_acknowledge[_BATCH:]
                # If it fails, another reader takes them over, is refused by the store, and acknowledges them.
                with suppress(BrokerUnavailable):
                    await self._acknowledge_now(some)
        finally:
            self._acknowledging = None

    async def _acknowledge_now(self, entries: Sequence[StreamEntry]) -> None:
        queues: dict[str, list[StreamEntry]] = {}
        for entry in entries:
            queues.setdefault(entry.lane.queue if self._is_cluster else "", []).append(entry)
        for some in queues.values():
            places = {stream: place for place, stream in enumerate(dict.fromkeys(entry.stream for entry in some), 1)}
            pairs = [part for entry in some for part in (places[entry.stream], entry.number)]
            await self._redis.run("acknowledge", list(places), self._group, *pairs)

    async def close(self) -> None:
        """Finish acknowledging, and delete the consumer where nothing is pending for it."""
        if self._taking:
            await asyncio.wait(self._taking)
        if self._acknowledging is not None:
            await asyncio.wait([self._acknowledging])
        queues: dict[str, list[str]] = {}
        for stream, queue in self._streams.items():
            queues.setdefault(queue, []).append(stream)
        with suppress(BrokerUnavailable):
            for streams in queues.values():
                await self._redis.run("leave", streams, self._group, self.consumer)
