"""Processes, queues' settings and the lead."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta

from rota.core.fleet import Bearings, CheckIn, Leadership, Member, Role
from rota.core.instant import span_to_micros
from rota.core.lane import CONFIGURATION, Queue
from rota.stores.rows import current_leadership, leadership_of, member_of, member_row, queue_of, queue_row
from rota.stores.sqlite.driver import Connection
from rota.stores.sqlite.statements import statement


def beat(connection: Connection, members: Sequence[Member], now: int) -> None:
    """Record that processes are alive."""
    connection.many(statement("beat"), [member_row(member, now) for member in members])


def members(connection: Connection, role: Role | None, since: int) -> list[Member]:
    """Give the processes on record."""
    parameters = {"role": None if role is None else role.value, "since": since}
    return [member_of(row) for row in connection.rows(statement("members"), parameters)]


def leave(connection: Connection, boots: Sequence[str]) -> None:
    """Forget processes that said goodbye."""
    connection.run(statement("leave"), (json.dumps(boots),))


def lead(connection: Connection, name: str, holder: str, lasting: timedelta, now: int) -> Leadership:
    """Take or keep the lead if nobody else holds it, and say who leads."""
    parameters = {"name": name, "holder": holder, "until": now + span_to_micros(lasting), "now": now}
    connection.run(statement("lead"), parameters)
    return leadership_of(connection.rows(statement("leader"), (name,))[0])


def leader(connection: Connection, name: str, now: int) -> Leadership | None:
    """Say who leads, if anybody does."""
    return current_leadership(connection.rows(statement("leader"), (name,)), now)


def resign(connection: Connection, name: str, holder: str) -> None:
    """Give the lead up at once."""
    connection.run(statement("resign"), (name, holder))


def check_in(connection: Connection, told: CheckIn, now: int) -> Bearings:
    """Record that processes are alive, take or keep the lead, and say what is known."""
    if told.members:
        beat(connection, told.members, now)
    leading: Leadership | None
    if told.holder is None:
        leading = leader(connection, told.lead, now)
    else:
        leading = lead(connection, told.lead, told.holder, told.lasting, now)
    rows = connection.rows(statement("queue_named"), (CONFIGURATION,))
    return Bearings(leading, queue_of(rows[0]) if rows else None)


def put_queue(connection: Connection, queue: Queue) -> bool:
    """Write a queue's settings if their version still holds."""
    verb = "create_queue" if queue.version == 0 else "replace_queue"
    is_written = bool(connection.run(statement(verb), queue_row(queue)))
    # It may take jobs again.
    connection.has_made_work |= is_written
    return is_written


def queues(connection: Connection) -> list[Queue]:
    """Give the queues that have settings."""
    return [queue_of(row) for row in connection.rows(statement("queues"))]
