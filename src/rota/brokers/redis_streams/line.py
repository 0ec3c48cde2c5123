"""The dispatcher's end: puts ids into streams, as many as there is room for, and finds out which have got lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from rota.brokers.redis_streams.ear import PULSE, Ear
from rota.brokers.redis_streams.keys import Keys, name
from rota.brokers.redis_streams.reader import FRESH_SECONDS
from rota.brokers.redis_streams.server import Server
from rota.core.band import Band, band_of
from rota.core.identity import JobId
from rota.core.lane import Lane
from rota.ports.broker import Missing
from rota.ports.store import Dispatched

#: How many entries that nobody has taken yet may stand in a lane's line: so many may a more urgent job find before it.
WINDOW: Final = 256
PULSE_SECONDS: Final = 0.5
QUEUES_SECONDS: Final = 1.0
#: How long a lane that nobody reads is remembered, and its empty streams kept.
FORGOTTEN_SECONDS: Final = 3600.0
#: More entries than this in a lane are not gone through: something else is wrong there.
MANY: Final = 10_000
#: A consumer that was not heard of for so long, and has nothing, is deleted.
IDLE_MILLISECONDS: Final = 600_000
_BATCH: Final = 500


class StreamLine:
    """All verbs of `rota.ports.broker.Line` on streams."""

    def __init__(self, server: Server, keys: Keys, group: str, ear: Ear, *, window: int = WINDOW) -> None:
        self._server = server
        self._keys = keys
        self._group = group
        self._ear = ear
        self._window = window
        self._queues: Sequence[str] = ()
        self._queues_at = -QUEUES_SECONDS
        self._pulse_at = -PULSE_SECONDS
        self._lanes: frozenset[Lane] = frozenset()

    async def room(self) -> Mapping[Lane, int]:
        """Give the lanes that somebody reads, and how many more may stand in each."""
        await self._say_so()
        lanes: dict[Lane, int] = {}
        for queue in await self._known_queues():
            flat: list[Any] = await self._server.run(
                "room",
                [self._keys.lanes(queue)],
                self._keys.of_queue(queue),
                self._group,
                FRESH_SECONDS,
                FORGOTTEN_SECONDS,
                *Band,
            )
            for type_, waiting in zip(flat[::2], flat[1::2], strict=True):
                lanes[Lane(queue, name(type_))] = max(self._window - int(waiting), 0)
        self._lanes = frozenset(lanes)
        return lanes

    async def _say_so(self) -> None:
        """Tell the readers that somebody fills their lines."""
        now = asyncio.get_running_loop().time()
        if now - self._pulse_at >= PULSE_SECONDS:
            self._pulse_at = now
            await self._server.command("PUBLISH", self._keys.bell, PULSE)

    async def _known_queues(self) -> Sequence[str]:
        now = asyncio.get_running_loop().time()
        if now - self._queues_at >= QUEUES_SECONDS or self._ear.room.is_set():
            self._queues = sorted(await self._server.command("SMEMBERS", self._keys.queues))
            self._queues_at = now
        return self._queues

    async def hand_over(self, jobs: Sequence[Dispatched]) -> None:
        """Let queued jobs stand in line."""
        queues: dict[str, list[Dispatched]] = {}
        for job in jobs:
            queues.setdefault(job.lane.queue, []).append(job)
        for queue, ours in queues.items():
            for start in range(0, len(ours), _BATCH):
                await self._hand_over(queue, ours[start : start + _BATCH])

    async def _hand_over(self, queue: str, jobs: Sequence[Dispatched]) -> None:
        streams = [self._keys.stream(job.lane, band_of(job.priority)) for job in jobs]
        places = {stream: place for place, stream in enumerate(dict.fromkeys(streams), 1)}
        pairs = [part for job, stream in zip(jobs, streams, strict=True) for part in (places[stream], job.job_id)]
        await self._server.run("hand_over", list(places), self._group, self._keys.bell, queue, *pairs)

    async def missing(self, jobs: Sequence[Dispatched]) -> Missing:
        """Of queued jobs, give those that nobody will be handed; unsure where a line is very long."""
        lanes: dict[Lane, list[JobId]] = {}
        for job in jobs:
            lanes.setdefault(job.lane, []).append(job.job_id)
        lost: list[JobId] = []
        unsure: list[JobId] = []
        for lane, ids in lanes.items():
            coming = await self._coming(lane) if lane in self._lanes else frozenset[JobId]()
            if coming is None:
                unsure += ids
            else:
                lost += [job_id for job_id in ids if job_id not in coming]
        return Missing(lost, unsure)

    async def _coming(self, lane: Lane) -> frozenset[JobId] | None:
        """Give what stands in a lane's line or is with a reader; None if that is too much to say."""
        streams = [self._keys.stream(lane, band) for band in Band]
        ids = await self._server.run("audit", streams, self._group, MANY, IDLE_MILLISECONDS)
        return None if ids is None else frozenset(JobId(int(text)) for text in ids)

    async def wait(self, at_most: timedelta) -> None:
        """Wait until there may be room again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most.total_seconds()):
                await self._ear.room.wait()
        self._ear.room.clear()
