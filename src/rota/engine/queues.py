"""Queues: pausing them, letting them go on, and what limits them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from rota.core.errors import IllegalTransition
from rota.core.lane import CONFIGURATION, Queue
from rota.core.ledger import Entry
from rota.engine.parts import Parts
from rota.ports.faces import Actor
from rota.telemetry.events import QueueChanged

_ROUNDS = 5


class Queues:
    """Pause, resume, look."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def all(self) -> Sequence[Queue]:
        """Look at the queues that have settings."""
        return [queue for queue in await self._parts.store.queues() if queue.name != CONFIGURATION]

    async def pause(self, name: str, reason: str, by: Actor, *, resume_at: datetime | None = None) -> Queue:
        """Stop handing out a queue's jobs; those that run go on."""
        now = self._parts.clock()

        def paused(queue: Queue) -> Queue:
            return replace(queue, paused_at=queue.paused_at or now, pause_reason=reason, resume_at=resume_at)

        return await self._change(name, "pause", paused, by)

    async def resume(self, name: str, by: Actor) -> Queue:
        """Hand out a queue's jobs again."""

        def resumed(queue: Queue) -> Queue:
            return replace(queue, paused_at=None, pause_reason=None, resume_at=None)

        queue = await self._change(name, "resume", resumed, by)
        await self._parts.broker.announce((name,))
        return queue

    async def limit(self, name: str, max_depth: int | None, by: Actor) -> Queue:
        """Set how many jobs may wait in a queue; None for as many as the server allows everywhere."""

        def limited(queue: Queue) -> Queue:
            return replace(queue, max_depth=max_depth)

        return await self._change(name, "limit", limited, by)

    async def _change(self, name: str, action: str, change: Callable[[Queue], Queue], by: Actor) -> Queue:
        """Change a queue's settings as they are now; look again if someone else did meanwhile."""
        for _ in range(_ROUNDS):
            known = {queue.name: queue for queue in await self._parts.store.queues()}
            queue = change(known.get(name, Queue(name)))
            entry = Entry(by.name, f"queues.{action}", name, by.origin, _detail(queue, action))
            if await self._parts.store.put_queue(queue, entry=entry):
                self._parts.telemetry.emit(QueueChanged(queue))
                return queue
        raise IllegalTransition(f"queue {name!r}: its settings keep changing; try again")


def _detail(queue: Queue, action: str) -> str:
    return f"max_depth={queue.max_depth}" if action == "limit" else queue.pause_reason or ""
