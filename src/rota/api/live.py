"""The live stream: server-sent events with a snapshot of all counts, then updates, at most four a second.

One task counts for all clients, and only while there are any: a hundred open pages cost the store as much as one. It is
woken by events of this process and by the broker, which reports most writes of other processes but not all (the
PostgreSQL and MariaDB stores do not announce the end of a job): so it also counts at a regular interval. The more a
count costs, the rarer it is made. Updates are numbered. A client that reconnects with the number of its last update
gets those it missed if they are still in memory, and a new snapshot otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

import msgspec

from rota.api.counts import JobCounts, overview_now
from rota.api.topics import OVERVIEW, LookPace, Topic, TopicWatchers
from rota.core.errors import RotaError
from rota.core.ids import JobId, to_text
from rota.core.lifecycle import State
from rota.engine import Engine
from rota.ports.wakeup import ANY_CHANGE
from rota.supervision import supervised
from rota.telemetry.events import CancelAsked, Event, JobsClaimed, JobsSettled, JobsSubmitted
from rota.wire.system import Overview

#: The shortest time between two updates, and the longest silence before a comment keeps the connection open.
PACE_SECONDS: Final = 0.25
SILENCE_SECONDS: Final = 15.0
#: How long to wait at most for a wake-up before counting again.
LOOK_SECONDS: Final = 0.2
_REMEMBERED: Final = 256
_SHOWN_JOBS: Final = 200
_log = logging.getLogger("rota.api.live")


def sse_event(kind: str, data: bytes, number: str | None = None) -> bytes:
    """Encode one server-sent event."""
    head = b"" if number is None else b"id: " + number.encode() + b"\n"
    return head + b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"


async def _next_of(inbox: asyncio.Queue[bytes]) -> bytes:
    try:
        # Not wait_for: on Python 3.11 it swallows a cancellation that arrives together with an update.
        async with asyncio.timeout(SILENCE_SECONDS):
            return await inbox.get()
    except TimeoutError:
        return b": still here\n\n"


class LiveStream:
    """Sends changes to all connected clients."""

    def __init__(self, engine: Engine, counts: JobCounts, *, on_update: Callable[[], None] = lambda: None) -> None:
        """`on_update` is called before the clients are told of a change."""
        self._on_update = on_update
        self._engine = engine
        self._counts = counts
        self._boot = secrets.token_hex(4)
        self._number = 0
        self._past: deque[tuple[int, bytes]] = deque(maxlen=_REMEMBERED)
        self._listeners: set[asyncio.Queue[bytes]] = set()
        self._changes: dict[JobId, dict[str, Any]] = {}
        self._left_out = 0
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.topics = TopicWatchers(engine, counts, on_change=on_update)

    async def follow(
        self, last_seen: str | None, topics: Sequence[Topic] = (Topic(OVERVIEW),)
    ) -> AsyncGenerator[bytes, None]:
        """Return a snapshot or the missed updates, and then every update and every change of a topic."""
        inbox: asyncio.Queue[bytes] = asyncio.Queue(_REMEMBERED)
        with self.topics.following(topics, inbox):
            if Topic(OVERVIEW) in topics:
                async for event in self._follow_overview(last_seen, inbox):
                    yield event
                return
            # At once, so that the client knows that it is connected.
            yield b": here\n\n"
            while True:
                yield await _next_of(inbox)

    async def _follow_overview(self, last_seen: str | None, inbox: asyncio.Queue[bytes]) -> AsyncGenerator[bytes, None]:
        missed = self._missed_updates(last_seen)
        self._listeners.add(inbox)
        try:
            if missed is None:
                overview = await overview_now(self._engine, self._counts)
                yield sse_event("snapshot", msgspec.json.encode(overview), self._id(self._number))
            else:
                for update in missed:
                    yield update
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(supervised("the live stream", self._run))
            while True:
                yield await _next_of(inbox)
        finally:
            self._listeners.discard(inbox)

    def _missed_updates(self, last_seen: str | None) -> list[bytes] | None:
        boot, _, number = (last_seen or "").partition("-")
        if boot != self._boot or not number.isdecimal() or self._task is None or self._task.done():
            return None
        oldest = self._past[0][0] if self._past else self._number + 1
        if not oldest - 1 <= int(number) <= self._number:
            return None
        return [update for one, update in self._past if one > int(number)]

    def _id(self, number: int) -> str:
        return f"{self._boot}-{number}"

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        leave = self._engine.telemetry.listen(self._on_event)
        last: Overview | None = None
        pace = LookPace()
        try:
            with self._engine.broker.subscribe(ANY_CHANGE) as subscription:
                while self._listeners:
                    begun = loop.time()
                    try:
                        last = self._publish(await overview_now(self._engine, self._counts), last)
                    except RotaError as error:
                        _log.warning("live stream: could not count the jobs: %s", error)
                    spent = loop.time() - begun
                    await asyncio.sleep(max(PACE_SECONDS, pace.rest(spent)))
                    await self._wait_for_change(subscription.wait(timedelta(seconds=LOOK_SECONDS)))
        finally:
            leave()

    async def _wait_for_change(self, wakeup: Any) -> None:  # noqa: ANN401 - a coroutine of the broker's
        waits = (asyncio.ensure_future(wakeup), asyncio.ensure_future(self._woken.wait()))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
                with suppress(asyncio.CancelledError):
                    await wait
        self._woken.clear()

    def _publish(self, overview: Overview, last: Overview | None) -> Overview:
        jobs, left_out = list(self._changes.values()), self._left_out
        self._changes, self._left_out = {}, 0
        # The time of the count is not a change.
        is_same = last is not None and msgspec.structs.replace(overview.stats, timestamp=last.stats.timestamp) == (
            last.stats
        )
        if is_same and not jobs and last is not None and last.queues == overview.queues:
            return last
        self._number += 1
        data: dict[str, Any] = {"stats": overview.stats, "queues": overview.queues, "jobs": jobs}
        if left_out:
            data["jobs_left_out"] = left_out
        update = sse_event("update", msgspec.json.encode(data), self._id(self._number))
        self._past.append((self._number, update))
        self._on_update()
        for inbox in tuple(self._listeners):
            if inbox.full():
                # The client reads too slowly: it gets a new snapshot when it reconnects.
                self._listeners.discard(inbox)
            else:
                inbox.put_nowait(update)
        return overview

    def _on_event(self, event: Event) -> None:
        match event:
            case JobsSubmitted(jobs=new):
                states = (State.PENDING if one.run_at is None else State.SCHEDULED for one in new)
                self._note((one.id, one.type, one.queue, state) for one, state in zip(new, states, strict=True))
            case JobsClaimed(jobs=jobs):
                self._note((one.id, one.type, one.queue, State.RUNNING) for one in jobs)
            case JobsSettled(jobs=jobs, settlements=ends):
                self._note((job.id, job.type, job.queue, end.target) for job, end in zip(jobs, ends, strict=True))
            case CancelAsked(jobs=jobs):
                self._note((one.id, one.type, one.queue, one.state) for one in jobs)
            case _:
                pass
        self._woken.set()

    def _note(self, changes: Iterable[tuple[JobId, str, str, State]]) -> None:
        for job_id, type_, queue, state in changes:
            if len(self._changes) >= _SHOWN_JOBS and job_id not in self._changes:
                self._left_out += 1
            else:
                self._changes[job_id] = {"id": to_text(job_id), "type": type_, "queue": queue, "state": state}
