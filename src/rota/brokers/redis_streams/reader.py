"""The reader's end: takes ids from the streams, and lets go of them when the store has said who has their jobs.

A process reads as one consumer. What it took is with it for that short while; if it dies in it, others take it over.
If a caller goes away while ids are on their way to it, or cannot try them, they are kept here and given to the next.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from rota.brokers.redis_streams.ear import Ear
from rota.brokers.redis_streams.keys import Keys, word
from rota.brokers.redis_streams.server import Server
from rota.core.errors import BrokerUnavailable
from rota.core.identity import JobId
from rota.core.lane import Lane

#: For how long a lane counts as one that somebody takes jobs from after it was last said so.
FRESH_SECONDS: Final = 10.0
#: How long after it was last asked for a lane is still said to be read.
READ_SECONDS: Final = 5.0
#: An entry that was not touched for so long is taken over; how often to look for such.
STALLED_SECONDS: Final = 15.0
STEAL_SECONDS: Final = 5.0
#: How often the store is asked too while the lines are empty: nothing may wait there for ever.
STORE_SECONDS: Final = 1.0
#: A line with fewer entries than this is to be filled.
SHORT: Final = 128
#: Who asks for more lanes than this is left to the store, which finds out which of them have work.
MANY_LANES: Final = 500
#: How many entries one call lets go of.
_BATCH: Final = 500


class Entry(NamedTuple):
    """Where an id was taken from."""

    lane: Lane
    stream: str
    number: str


class Reader:
    """Takes and lets go."""

    def __init__(self, server: Server, keys: Keys, group: str, ear: Ear, *, is_cluster: bool) -> None:
        self._server = server
        self._keys = keys
        self._group = group
        self._ear = ear
        self._is_cluster = is_cluster
        self.consumer = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._asked: dict[Lane, float] = {}
        self._greeted: dict[Lane, float] = {}
        self._store_asked: dict[Lane, float] = {}
        self._stolen_at = 0.0
        #: Taken, and not yet tried.
        self._entries: dict[JobId, Entry] = {}
        #: Taken and tried by nobody.
        self._left: dict[JobId, Lane] = {}
        self._streams: dict[str, str] = {}
        self._settled: list[Entry] = []
        self._letting_go: asyncio.Task[None] | None = None
        self._taking: set[asyncio.Task[list[JobId]]] = set()

    async def take(self, queues: Collection[str], types: Collection[str] | None, limit: int) -> Sequence[JobId] | None:
        """Take ids; None when the store is to be asked."""
        if types is None or limit <= 0 or not self._server.is_up or len(queues) * len(types) > MANY_LANES:
            return None
        lanes = [Lane(queue, type_) for queue in dict.fromkeys(queues) for type_ in dict.fromkeys(types)]
        if lanes:
            # Each time begun elsewhere: the lane that is named first would starve the others.
            start = secrets.randbelow(len(lanes))
            lanes = lanes[start:] + lanes[:start]
        now = asyncio.get_running_loop().time()
        self._asked.update(dict.fromkeys(lanes, now))
        taking = asyncio.ensure_future(self._take(lanes, limit))
        # Not to be broken off: what the server has given would be with us and nobody would know.
        self._taking.add(taking)
        try:
            ids = await asyncio.shield(taking)
        except asyncio.CancelledError:
            taking.add_done_callback(self._keep)
            raise
        except BrokerUnavailable:
            return None
        finally:
            taking.add_done_callback(self._taking.discard)
        if ids or (self._ear.is_tended and not self._is_store_due(lanes, now)):
            return ids
        self._store_asked.update(dict.fromkeys(lanes, now))
        return None

    def _is_store_due(self, lanes: Iterable[Lane], now: float) -> bool:
        return any(now - self._store_asked.get(lane, -STORE_SECONDS) >= STORE_SECONDS for lane in lanes)

    def _keep(self, taking: asyncio.Task[list[JobId]]) -> None:
        if not taking.cancelled() and taking.exception() is None:
            self.hand_back(taking.result())

    async def _take(self, lanes: Sequence[Lane], limit: int) -> list[JobId]:
        ids = self._kept(lanes, limit)
        try:
            await self._take_more(lanes, limit, ids)
        except BrokerUnavailable:
            # What came before it went is with us, and can be tried all the same.
            if not ids:
                raise
        # What was taken over comes on top, so that neither full lines nor many dead readers can hold the other up.
        ids = list(dict.fromkeys(ids))
        self.hand_back(ids[limit:])
        return ids[:limit]

    async def _take_more(self, lanes: Sequence[Lane], limit: int, ids: list[JobId]) -> None:
        loop = asyncio.get_running_loop()
        if any(loop.time() - self._greeted.get(lane, -FRESH_SECONDS) > READ_SECONDS for lane in lanes):
            await self.greet(lanes)
        for batch in self._batches(lanes):
            if len(ids) < limit:
                ids += await self._taken("take", self._keys.streams(batch), limit - len(ids))
        if loop.time() - self._stolen_at >= STEAL_SECONDS:
            self._stolen_at = loop.time()
            for batch in self._batches(lanes):
                ids += await self._taken("steal", self._keys.streams(batch), limit)

    async def _taken(self, script: str, streams: Sequence[tuple[str, Lane]], limit: int) -> list[JobId]:
        more = (self._keys.bell, SHORT) if script == "take" else (int(STALLED_SECONDS * 1000),)
        keys = [stream for stream, _ in streams]
        flat: list[Any] = await self._server.run(script, keys, self._group, self.consumer, limit, *more)
        ids: list[JobId] = []
        for place, number, text in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
            stream, lane = streams[int(place) - 1]
            self._streams[stream] = lane.queue
            job_id = JobId(int(text))
            before = self._entries.pop(job_id, None)
            if before is not None and before.number != number:
                # The same job twice in line: one entry is enough.
                self._let_go([before])
            self._entries[job_id] = Entry(lane, stream, number)
            ids.append(job_id)
        return list(dict.fromkeys(ids))

    def _batches(self, lanes: Sequence[Lane]) -> list[Sequence[Lane]]:
        """Say which lanes one script can reach: all, but in a cluster only those of one queue."""
        if not self._is_cluster:
            return [lanes]
        queues: dict[str, list[Lane]] = {}
        for lane in lanes:
            queues.setdefault(lane.queue, []).append(lane)
        return list(queues.values())

    def _kept(self, lanes: Sequence[Lane], limit: int) -> list[JobId]:
        wanted = set(lanes)
        ids = [job_id for job_id, lane in self._left.items() if lane in wanted][:limit] if self._left else []
        for job_id in ids:
            del self._left[job_id]
        return ids

    async def greet(self, lanes: Sequence[Lane] | None = None) -> None:
        """Say which lanes are read here; without any, those that were asked for lately."""
        now = asyncio.get_running_loop().time()
        if lanes is None:
            self._asked = {lane: at for lane, at in self._asked.items() if now - at < READ_SECONDS}
            lanes = list(self._asked)
        queues: dict[str, list[str]] = {}
        for lane in lanes:
            queues.setdefault(lane.queue, []).append(word(lane.type))
        for queue, types in queues.items():
            await self._server.command("SADD", self._keys.queues, queue)
            await self._server.run("hello", [self._keys.lanes(queue)], self._keys.bell, FRESH_SECONDS, *types)
        self._greeted = {lane: at for lane, at in self._greeted.items() if now - at < FRESH_SECONDS}
        self._greeted.update(dict.fromkeys(lanes, now))
        self._store_asked = {lane: at for lane, at in self._store_asked.items() if now - at < STORE_SECONDS}

    def attending(self, queues: Collection[str], types: Collection[str]) -> None:
        """Learn that somebody still waits for work of some queues and types."""
        if len(queues) * len(types) <= MANY_LANES:
            now = asyncio.get_running_loop().time()
            self._asked.update((Lane(queue, type_), now) for queue in queues for type_ in types)

    def hand_back(self, ids: Iterable[JobId]) -> None:
        """Keep ids that nobody has tried for the next caller."""
        for job_id in ids:
            entry = self._entries.get(job_id)
            if entry is not None:
                self._left[job_id] = entry.lane

    def acknowledge(self, ids: Iterable[JobId]) -> None:
        """Let go of ids soon."""
        entries = [entry for job_id in ids if (entry := self._entries.pop(job_id, None)) is not None]
        if entries:
            self._let_go(entries)

    def _let_go(self, entries: Iterable[Entry]) -> None:
        self._settled += entries
        if self._letting_go is None:
            self._letting_go = asyncio.get_running_loop().create_task(self._let_go_all())

    async def _let_go_all(self) -> None:
        try:
            while self._settled:
                some, self._settled = self._settled[:_BATCH], self._settled[_BATCH:]
                # If it fails, somebody takes them over after a while, is refused by the store, and lets go.
                with suppress(BrokerUnavailable):
                    await self._let_go_of(some)
        finally:
            self._letting_go = None

    async def _let_go_of(self, entries: Sequence[Entry]) -> None:
        queues: dict[str, list[Entry]] = {}
        for entry in entries:
            queues.setdefault(entry.lane.queue if self._is_cluster else "", []).append(entry)
        for some in queues.values():
            places = {stream: place for place, stream in enumerate(dict.fromkeys(entry.stream for entry in some), 1)}
            pairs = [part for entry in some for part in (places[entry.stream], entry.number)]
            await self._server.run("let_go", list(places), self._group, *pairs)

    async def close(self) -> None:
        """Let go of what is settled, and of the consumer where nothing is with it."""
        if self._taking:
            await asyncio.wait(self._taking)
        if self._letting_go is not None:
            await asyncio.wait([self._letting_go])
        queues: dict[str, list[str]] = {}
        for stream, queue in self._streams.items():
            queues.setdefault(queue, []).append(stream)
        with suppress(BrokerUnavailable):
            for streams in queues.values():
                await self._server.run("leave", streams, self._group, self.consumer)
