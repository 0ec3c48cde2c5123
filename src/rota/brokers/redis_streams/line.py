"""The dispatcher's end: puts ids into streams, as many as there is room for, and finds out which have got lost."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
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

#: How many entries that nobody has taken yet may stand in a band of a lane: so many may an urgent job find before it.
WINDOW: Final = 256
#: Where a band is full, how many jobs are tried, and how often, to see whether one of them belongs into a higher band.
#: Twice as many each time, and at once, as long as all of them do.
PROBE: Final = 4
PROBE_SECONDS: Final = 0.25
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
        #: How many more may stand in each band of a lane, as we saw last.
        self._free: dict[Lane, dict[Band, int]] = {}
        #: When to try a lane that has a full band, and with how many.
        self._probe_at: dict[Lane, float] = {}
        self._probes: dict[Lane, int] = {}

    async def room(self) -> Mapping[Lane, int]:
        """Give the lanes that somebody reads, and how many more may stand in each."""
        await self._say_so()
        free: dict[Lane, dict[Band, int]] = {}
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
            width = 1 + len(Band)
            for start in range(0, len(flat), width):
                type_, *waiting = flat[start : start + width]
                rooms = (max(self._window - int(count), 0) for count in waiting)
                free[Lane(queue, name(type_))] = dict(zip(Band, rooms, strict=True))
        self._free = free
        return {lane: self._room_of(lane) for lane in free}

    def _room_of(self, lane: Lane) -> int:
        """Say how many jobs of a lane may come, whichever band they belong into.

        Only the store knows what comes next. So where a lower band is full, a few are tried now and then: the urgent
        ones come first, and for the others there is no room after all.
        """
        free = self._free[lane]
        room = min(free.values())
        if room or not free[Band.HIGH]:
            self._probe_at.pop(lane, None)
            self._probes.pop(lane, None)
            return room
        now = asyncio.get_running_loop().time()
        if now < self._probe_at.get(lane, now):
            return 0
        self._probe_at[lane] = now + PROBE_SECONDS
        return min(self._probes.setdefault(lane, PROBE), free[Band.HIGH])

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

    async def hand_over(self, jobs: Sequence[Dispatched]) -> Sequence[JobId]:
        """Let queued jobs stand in line, but those whose band is full."""
        queues: dict[str, list[Dispatched]] = {}
        refused: list[JobId] = []
        for job in jobs:
            free = self._free.get(job.lane)
            band = band_of(job.priority)
            if free is not None and not free[band]:
                refused.append(job.job_id)
                continue
            if free is not None:
                free[band] -= 1
            queues.setdefault(job.lane.queue, []).append(job)
        for queue, ours in queues.items():
            for start in range(0, len(ours), _BATCH):
                await self._hand_over(queue, ours[start : start + _BATCH])
        self._learn(jobs, frozenset(refused))
        return refused

    def _learn(self, jobs: Sequence[Dispatched], refused: Collection[JobId]) -> None:
        """Where all that were tried have found room there may be more; where not, there is time."""
        full = {job.lane for job in jobs if job.job_id in refused}
        for lane in self._probes.keys() & {job.lane for job in jobs}:
            self._probes[lane] = PROBE if lane in full else min(self._probes[lane] * 2, self._window)
            if lane not in full:
                self._probe_at.pop(lane, None)

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
            coming = await self._coming(lane) if lane in self._free else frozenset[JobId]()
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
        now = asyncio.get_running_loop().time()
        self._probe_at = {lane: at for lane, at in self._probe_at.items() if lane in self._free}
        self._probes = {lane: size for lane, size in self._probes.items() if lane in self._free}
        until = min([now + at_most.total_seconds(), *self._probe_at.values()])
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._ear.room.wait()
        self._ear.room.clear()
