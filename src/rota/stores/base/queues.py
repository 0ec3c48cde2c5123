"""Queues: their settings."""

from __future__ import annotations

from rota.core.queue import Queue
from rota.stores.base.session import StoreSession
from rota.stores.system_rows import queue_of, queue_row


async def put_queue(session: StoreSession, settings: Queue, now: int) -> bool:  # noqa: ARG001 - as all recorded verbs
    """Write a queue's settings if their version still holds."""
    name = "create_queue" if settings.version == 0 else "replace_queue"
    is_written = await session.put(name, **queue_row(settings))
    if is_written:
        # A queue that is no longer paused has jobs to claim.
        session.note_work()
    return is_written


async def queues(session: StoreSession) -> list[Queue]:
    """Return the queues that have settings."""
    return [queue_of(row) for row in await session.select("queues")]
