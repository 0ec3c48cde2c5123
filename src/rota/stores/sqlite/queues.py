"""Queues: the settings of queues."""

from __future__ import annotations

from rota.core.queue import Queue
from rota.stores.rows import queue_of, queue_row
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.statements import statement


def put_queue(connection: SqliteConnection, settings: Queue) -> bool:
    """Store a queue's settings if they still have the version that was read."""
    name = "insert_queue" if settings.version == 0 else "update_queue"
    is_written = bool(connection.run(statement(name), queue_row(settings)))
    # The queue may be claimable again.
    connection.has_made_work |= is_written
    return is_written


def queue(connection: SqliteConnection, name: str) -> Queue | None:
    """Return the settings of one queue, if it has any."""
    rows = connection.rows(statement("queue_by_name"), (name,))
    return queue_of(rows[0]) if rows else None


def queues(connection: SqliteConnection) -> list[Queue]:
    """Return the queues that have settings."""
    return [queue_of(row) for row in connection.rows(statement("all_queues"))]
