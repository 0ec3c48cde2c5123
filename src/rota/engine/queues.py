"""Queue verbs: pause, resume, and the bound of waiting jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from rota.core.errors import IllegalTransition
from rota.core.ledger import LedgerEntry
from rota.core.limit import queue_limit
from rota.core.queue import Queue
from rota.engine.deps import EngineDeps
from rota.ports.client import Actor
from rota.telemetry.events import QueueChanged

_MOST_TRIES = 5


class Queues:
    """Read, pause, resume, limit."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps

    async def all(self) -> Sequence[Queue]:
        """Return the queues that have settings or a limit."""
        known = {queue.name: queue for queue in await self._deps.store.queues()}
        for limit in await self._deps.store.limits(after=queue_limit("")):
            kind, _, name = limit.name.partition(":")
            if kind == "queue":
                queue = known.get(name, Queue(name))
                known[name] = replace(queue, max_running=limit.max_running, rate_limit=limit.rate_limit)
        return sorted(known.values(), key=lambda queue: queue.name)

    async def pause(self, name: str, reason: str, by: Actor, *, resume_at: datetime | None = None) -> Queue:
        """Stop claims from a queue; running jobs continue."""
        now = self._deps.clock()

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
            queue = change(known.get(name, Queue(name)))
            detail = _detail(queue, action)
            entry = LedgerEntry(by.name, f"queues.{action}", name, by.origin, detail, surface=by.surface)
            if await self._deps.store.put_queue(queue, entry=entry):
                self._deps.telemetry.emit(QueueChanged(queue))
                return queue
        raise IllegalTransition(f"queue {name!r}: its settings keep changing; try again")


def _detail(queue: Queue, action: str) -> str:
    return f"max_depth={queue.max_depth}" if action == "limit" else queue.pause_reason or ""
