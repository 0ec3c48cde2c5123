"""Settings of queues."""

from __future__ import annotations

from typing import Final

from rota.core.queue import Queue
from rota.stores.postgres.session import Session
from rota.stores.rows import queue_of, queue_row

#: The order of the parameters of create_queue and replace_queue.
_COLUMNS: Final = (
    "name", "paused_at", "pause_reason", "resume_at", "max_depth", "max_running", "rate_limit", "version",
)  # fmt: skip


async def put_queue(session: Session, queue: Queue, now: int) -> bool:  # noqa: ARG001 - as all recorded verbs
    """Store a queue's settings if their version still holds."""
    verb = "create_queue" if queue.version == 0 else "replace_queue"
    row = queue_row(queue)
    return bool(await session.run(verb, *(row[column] for column in _COLUMNS)))


async def queues(session: Session) -> list[Queue]:
    """Return the queues that have settings."""
    return [queue_of(row) for row in await session.rows("queues")]
