"""The dispatcher's side: adds ids to streams up to their capacity, and finds ids that were lost."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from rota.brokers.redis_streams.connection import RedisConnection
from rota.brokers.redis_streams.keys import StreamKeys, unescaped
from rota.brokers.redis_streams.reader import REGISTERED_SECONDS
from rota.brokers.redis_streams.subscription import HEARTBEAT, RedisSubscription
from rota.core.ids import JobId
from rota.core.queue import Lane, PriorityClass, priority_class_of
from rota.ports.broker import MissingJobs
from rota.ports.store import Dispatched

#: How many untaken entries a stream may hold: a job waits behind at most this many of its priority class.
WINDOW: Final = 256
#: While a priority class is full: how many jobs are tried, and how often, to find jobs of a higher class. The number
#: doubles, and is repeated at once, as long as all of them find capacity.
PROBE: Final = 4
PROBE_SECONDS: Final = 0.25
HEARTBEAT_SECONDS: Final = 0.5
QUEUES_SECONDS: Final = 1.0
#: How long a lane without a reader is kept, with its empty streams.
KEPT_SECONDS: Final = 3600.0
#: A lane with more entries than this is not audited.
MOST_AUDITED: Final = 10_000
#: A consumer that was idle for this time, and has nothing pending, is deleted.
IDLE_MILLISECONDS: Final = 600_000
_BATCH: Final = 500


class StreamDispatch:
    """Dispatches ids of queued jobs into streams."""

    def __init__(
        self,
        redis: RedisConnection,
        keys: StreamKeys,
        group: str,
        subscription: RedisSubscription,
        *,
        window: int = WINDOW,
    ) -> None:
        self._redis = redis
        self._keys = keys
        self._group = group
        self._subscription = subscription
        self._window = window
        self._queues: Sequence[str] = ()
        self._queues_at = -QUEUES_SECONDS
        self._heartbeat_at = -HEARTBEAT_SECONDS
        #: The capacity of each priority class of a lane, as last read.
        self._free: dict[Lane, dict[PriorityClass, int]] = {}
        #: When to try a lane with a full priority class, and with how many jobs.
        self._probe_at: dict[Lane, float] = {}
        self._probes: dict[Lane, int] = {}

    async def room(self) -> Mapping[Lane, int]:
        """Return the lanes with readers, and the capacity of each."""
        await self._publish_heartbeat()
        free: dict[Lane, dict[PriorityClass, int]] = {}
        for queue in await self._known_queues():
            flat: list[Any] = await self._redis.run(
                "capacity",
                [self._keys.lanes(queue)],
                self._keys.of_queue(queue),
                self._group,
                REGISTERED_SECONDS,
                KEPT_SECONDS,
                *PriorityClass,
            )
            width = 1 + len(PriorityClass)
            for start in range(0, len(flat), width):
                type_, *waiting = flat[start : start + width]
                counts = (max(self._window - int(count), 0) for count in waiting)
                free[Lane(queue, unescaped(type_))] = dict(zip(PriorityClass, counts, strict=True))
        self._free = free
        return {lane: self._capacity_of(lane) for lane in free}

    def _capacity_of(self, lane: Lane) -> int:
        """Return how many jobs of a lane may be dispatched, of whichever priority class.

        The priority classes of the next jobs are known to the store only. So while a lower class is full, a few jobs
        are tried now and then: urgent ones come first, and the others are refused.
        """
        free = self._free[lane]
        capacity = min(free.values())
        if capacity or not free[PriorityClass.HIGH]:
            self._probe_at.pop(lane, None)
            self._probes.pop(lane, None)
            return capacity
        now = asyncio.get_running_loop().time()
        if now < self._probe_at.get(lane, now):
            return 0
        self._probe_at[lane] = now + PROBE_SECONDS
        return min(self._probes.setdefault(lane, PROBE), free[PriorityClass.HIGH])

    async def _publish_heartbeat(self) -> None:
        """Publish the heartbeat by which readers know that a dispatcher fills their streams."""
        now = asyncio.get_running_loop().time()
        if now - self._heartbeat_at >= HEARTBEAT_SECONDS:
            self._heartbeat_at = now
            await self._redis.command("PUBLISH", self._keys.channel, HEARTBEAT)

    async def _known_queues(self) -> Sequence[str]:
        now = asyncio.get_running_loop().time()
        if now - self._queues_at >= QUEUES_SECONDS or self._subscription.capacity.is_set():
            self._queues = sorted(await self._redis.command("SMEMBERS", self._keys.queues))
            self._queues_at = now
        return self._queues

    async def hand_over(self, jobs: Sequence[Dispatched]) -> Sequence[JobId]:
        """Add queued jobs to their streams; return those whose priority class is full."""
        queues: dict[str, list[Dispatched]] = {}
        refused: list[JobId] = []
        for job in jobs:
            free = self._free.get(job.lane)
            priority_class = priority_class_of(job.priority)
            if free is not None and not free[priority_class]:
                refused.append(job.job_id)
                continue
            if free is not None:
                free[priority_class] -= 1
            queues.setdefault(job.lane.queue, []).append(job)
        for queue, ours in queues.items():
            for start in range(0, len(ours), _BATCH):
                await self._add(queue, ours[start : start + _BATCH])
        self._adjust_probes(jobs, frozenset(refused))
        return refused

    def _adjust_probes(self, jobs: Sequence[Dispatched], refused: Collection[JobId]) -> None:
        """Try more jobs at once in lanes where all found capacity, and few later in the others."""
        full = {job.lane for job in jobs if job.job_id in refused}
        for lane in self._probes.keys() & {job.lane for job in jobs}:
            self._probes[lane] = PROBE if lane in full else min(self._probes[lane] * 2, self._window)
            if lane not in full:
                self._probe_at.pop(lane, None)

    async def _add(self, queue: str, jobs: Sequence[Dispatched]) -> None:
        streams = [self._keys.stream(job.lane, priority_class_of(job.priority)) for job in jobs]
        places = {stream: place for place, stream in enumerate(dict.fromkeys(streams), 1)}
        pairs = [part for job, stream in zip(jobs, streams, strict=True) for part in (places[stream], job.job_id)]
        await self._redis.run("hand_over", list(places), self._group, self._keys.channel, queue, *pairs)

    async def missing(self, jobs: Sequence[Dispatched]) -> MissingJobs:
        """Return the queued jobs that are in no stream; unsure where a stream is very long."""
        lanes: dict[Lane, list[JobId]] = {}
        for job in jobs:
            lanes.setdefault(job.lane, []).append(job.job_id)
        lost: list[JobId] = []
        unsure: list[JobId] = []
        for lane, ids in lanes.items():
            present = await self._present(lane) if lane in self._free else frozenset[JobId]()
            if present is None:
                unsure += ids
            else:
                lost += [job_id for job_id in ids if job_id not in present]
        return MissingJobs(lost, unsure)

    async def _present(self, lane: Lane) -> frozenset[JobId] | None:
        """Return the ids that wait in a lane's streams or are pending for a reader; None if there are too many."""
        streams = [self._keys.stream(lane, priority_class) for priority_class in PriorityClass]
        ids = await self._redis.run("audit", streams, self._group, MOST_AUDITED, IDLE_MILLISECONDS)
        return None if ids is None else frozenset(JobId(int(text)) for text in ids)

    async def wait(self, at_most: timedelta) -> None:
        """Wait until there may be capacity again."""
        now = asyncio.get_running_loop().time()
        self._probe_at = {lane: at for lane, at in self._probe_at.items() if lane in self._free}
        self._probes = {lane: size for lane, size in self._probes.items() if lane in self._free}
        until = min([now + at_most.total_seconds(), *self._probe_at.values()])
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._subscription.capacity.wait()
        self._subscription.capacity.clear()
