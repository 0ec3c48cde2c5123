"""Queue verbs: pause, resume, the bound of waiting jobs, and estimates from the backlog.

The refusal of a job by a full queue says when to retry, and the explanation of a waiting job when it is expected to
start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from rota.core.backlog import RATE_WINDOW, Backlog, start_rate
from rota.core.errors import IllegalTransition, InvalidRequest, QueueFull
from rota.core.history import BucketLength, HistoryQuery
from rota.core.ledger import LedgerEntry
from rota.core.limit import queue_limit
from rota.core.queue import Queue, queue_full
from rota.engine.deps import EngineDeps
from rota.ports.client import Actor
from rota.telemetry.events import QueueChanged

_MOST_TRIES = 5


class Queues:
    """Read, pause, resume, limit."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps

    async def all(self) -> Sequence[Queue]:
        """Return the queues that have settings or a limit, without pauses that have ended."""
        now = self._deps.clock()
        known = {queue.name: queue.as_of(now) for queue in await self._deps.store.queues()}
        for limit in await self._deps.store.limits(after=queue_limit("")):
            kind, _, name = limit.name.partition(":")
            if kind == "queue":
                queue = known.get(name, Queue(name))
                known[name] = replace(queue, max_running=limit.max_running, rate_limit=limit.rate_limit)
        return sorted(known.values(), key=lambda queue: queue.name)

    async def pause(self, name: str, reason: str, by: Actor, *, resume_at: datetime | None = None) -> Queue:
        """Stop claims from a queue, until a time if one is given; running jobs continue."""
        now = self._deps.clock()
        if resume_at is not None and resume_at <= now:
            remedy = "give a later time, or leave it out to pause the queue until it is resumed"
            raise InvalidRequest(f"resume_at: {resume_at.isoformat()} is past; {remedy}", field="resume_at")

        def paused(queue: Queue) -> Queue:
            return replace(queue, paused_at=queue.paused_at or now, pause_reason=reason, resume_at=resume_at)

        queue = await self._change(name, "pause", paused, by)
        data = {"queue": name, "reason": reason, "by": by.name}
        await self._deps.webhook_events.emit("queue.paused", name, data, queue=name)
        return queue

    async def resume(self, name: str, by: Actor) -> Queue:
        """Allow claims from a queue again."""

        def resumed(queue: Queue) -> Queue:
            return replace(queue, paused_at=None, pause_reason=None, resume_at=None)

        queue = await self._change(name, "resume", resumed, by)
        await self._deps.broker.announce((name,))
        data = {"queue": name, "by": by.name}
        await self._deps.webhook_events.emit("queue.resumed", name, data, queue=name)
        return queue

    async def limit(self, name: str, max_depth: int | None, by: Actor) -> Queue:
        """Set how many jobs may wait in a queue; None for the server's bound."""

        def limited(queue: Queue) -> Queue:
            return replace(queue, max_depth=max_depth)

        return await self._change(name, "limit", limited, by)

    async def _change(self, name: str, action: str, change: Callable[[Queue], Queue], by: Actor) -> Queue:
        """Apply a change to a queue's current settings; try again if they were changed concurrently."""
        for _ in range(_MOST_TRIES):
            known = {queue.name: queue for queue in await self._deps.store.queues()}
            queue = change(known.get(name, Queue(name)).as_of(self._deps.clock()))
            detail = _detail(queue, action)
            entry = LedgerEntry(by.name, f"queues.{action}", name, by.origin, detail, surface=by.surface)
            if await self._deps.store.put_queue(queue, entry=entry):
                self._deps.telemetry.emit(QueueChanged(queue))
                return queue
        raise IllegalTransition(f"queue {name!r}: its settings keep changing; try again")


def _detail(queue: Queue, action: str) -> str:
    return f"max_depth={queue.max_depth}" if action == "limit" else queue.pause_reason or ""


#: How long an estimate is used again: many submitters may be refused at once, and each refusal must stay cheap.
KEPT_SECONDS: Final = 1.0
#: How many queues' rates are kept.
_MOST_QUEUES: Final = 1_000


class Backlogs:
    """Reads the rate at which jobs of a queue start, and estimates from it."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps
        self._rates: dict[str, tuple[float, float]] = {}

    async def of(self, queue: str, waiting: int) -> Backlog:
        """Return the backlog of a queue with this number of waiting jobs."""
        now = self._deps.clock()
        settings = {one.name: one.as_of(now) for one in await self._deps.store.queues()}.get(queue)
        paused = settings is not None and settings.paused_at is not None
        resume_at = None if settings is None else settings.resume_at
        return Backlog(waiting, await self.rate(queue), resume_at, paused)

    async def rate(self, queue: str) -> float:
        """Return how many jobs of a queue started in a second lately."""
        now_seconds = time.monotonic()
        kept = self._rates.get(queue)
        if kept is not None and now_seconds - kept[0] < KEPT_SECONDS:
            return kept[1]
        now = self._deps.clock()
        query = HistoryQuery(BucketLength.MINUTE, now - RATE_WINDOW, now + RATE_WINDOW, by_lane=True)
        rate = start_rate(await self._deps.store.history(query), queue, now)
        if len(self._rates) >= _MOST_QUEUES:
            self._rates.clear()
        self._rates[queue] = now_seconds, rate
        return rate

    async def full(self, queue: str) -> QueueFull:
        """Make the error for a queue that has reached its bound, with an estimate of when there is a place."""
        settings = {one.name: one for one in await self._deps.store.queues()}.get(queue)
        bound = None if settings is None else settings.max_depth
        waiting = bound if bound is not None else self._deps.queue_bound or 0
        backlog, now = await self.of(queue, waiting), self._deps.clock()
        error = queue_full(queue)
        error.retry_after = backlog.retry_after(now)
        error.position = backlog.position
        error.expected_start = backlog.expected_start(now, waiting)
        return error
