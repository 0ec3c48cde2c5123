"""The live stream: a snapshot of the whole, then what changes, at most four times a second.

One task counts for everyone who looks, and only while someone does: a hundred open pages cost the store what one does.
It is woken by this process's own events and by the broker, which also hears of other processes' writes, but not of all
of them (that a job has ended is told by no store on a server): so it looks by itself now and then. The more a count
costs, the rarer it is made. Updates are numbered; whoever comes back with the number of the last one it saw gets
those it missed, if they are still at hand, and a new snapshot otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

import msgspec

from rota.api.counting import Counting, overview_now
from rota.core.errors import RotaError
from rota.core.identity import JobId, to_text
from rota.core.lifecycle import State
from rota.engine import Engine
from rota.ports.places import ANYWHERE
from rota.supervision import supervised
from rota.telemetry.events import CancelAsked, Event, JobsClaimed, JobsSettled, JobsSubmitted
from rota.wire.system import Overview

#: The shortest time between two updates, and the longest without a word.
PACE_SECONDS: Final = 0.25
SILENCE_SECONDS: Final = 15.0
#: How often to look when nothing is heard.
LOOK_SECONDS: Final = 2.0
_REMEMBERED: Final = 256
_SHOWN_JOBS: Final = 200
#: A counting may take this part of the time at most.
_SHARE: Final = 0.1
_log = logging.getLogger("rota.api.live")


def event_text(kind: str, data: bytes, number: str | None = None) -> bytes:
    """Write one server-sent event."""
    head = b"" if number is None else b"id: " + number.encode() + b"\n"
    return head + b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"


class Live:
    """Tells everyone who listens what changes."""

    def __init__(self, engine: Engine, counting: Counting) -> None:
        self._engine = engine
        self._counting = counting
        self._boot = secrets.token_hex(4)
        self._number = 0
        self._past: deque[tuple[int, bytes]] = deque(maxlen=_REMEMBERED)
        self._listeners: set[asyncio.Queue[bytes]] = set()
        self._changes: dict[JobId, dict[str, Any]] = {}
        self._left_out = 0
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def follow(self, last_seen: str | None) -> AsyncGenerator[bytes, None]:
        """Give a snapshot, or what was missed, and then every update."""
        inbox: asyncio.Queue[bytes] = asyncio.Queue(_REMEMBERED)
        missed = self._missed(last_seen)
        self._listeners.add(inbox)
        try:
            if missed is None:
                overview = await overview_now(self._engine, self._counting)
                yield event_text("snapshot", msgspec.json.encode(overview), self._id(self._number))
            else:
                for update in missed:
                    yield update
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(supervised("the live stream", self._run))
            while True:
                try:
                    # Not wait_for: on Python 3.11 it swallows a cancellation that arrives together with an update.
                    async with asyncio.timeout(SILENCE_SECONDS):
                        update = await inbox.get()
                except TimeoutError:
                    update = b": still here\n\n"
                yield update
        finally:
            self._listeners.discard(inbox)

    def _missed(self, last_seen: str | None) -> list[bytes] | None:
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
        leave = self._engine.telemetry.listen(self._hear)
        last: Overview | None = None
        try:
            with self._engine.broker.attend(ANYWHERE) as attendance:
                while self._listeners:
                    begun = loop.time()
                    try:
                        last = self._tell(await overview_now(self._engine, self._counting), last)
                    except RotaError as error:
                        _log.warning("the live stream could not count: %s", error)
                    spent = loop.time() - begun
                    await asyncio.sleep(max(PACE_SECONDS, spent / _SHARE))
                    await self._change(attendance.wait(timedelta(seconds=LOOK_SECONDS)))
        finally:
            leave()

    async def _change(self, bell: Any) -> None:  # noqa: ANN401 - a coroutine of the broker's
        """Wait until something may have changed."""
        waits = (asyncio.ensure_future(bell), asyncio.ensure_future(self._woken.wait()))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
                with suppress(asyncio.CancelledError):
                    await wait
        self._woken.clear()

    def _tell(self, overview: Overview, last: Overview | None) -> Overview:
        jobs, left_out = list(self._changes.values()), self._left_out
        self._changes, self._left_out = {}, 0
        # The moment of the counting is no change.
        is_same = last is not None and msgspec.structs.replace(overview.stats, timestamp=last.stats.timestamp) == (
            last.stats
        )
        if is_same and not jobs and last is not None and last.queues == overview.queues:
            return last
        self._number += 1
        data: dict[str, Any] = {"stats": overview.stats, "queues": overview.queues, "jobs": jobs}
        if left_out:
            data["jobs_left_out"] = left_out
        update = event_text("update", msgspec.json.encode(data), self._id(self._number))
        self._past.append((self._number, update))
        for inbox in tuple(self._listeners):
            if inbox.full():
                # Too slow to follow: it has lost count and is told anew when it comes back.
                self._listeners.discard(inbox)
            else:
                inbox.put_nowait(update)
        return overview

    def _hear(self, event: Event) -> None:
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
