"""Cluster: the processes that take part (members), and leadership among them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta

from rota.core.cluster import ClusterView, Leadership, Member, MemberHeartbeat, Role
from rota.core.queue import CONFIGURATION
from rota.core.time import span_to_micros
from rota.stores.rows import current_leadership, leadership_of, member_of, member_row
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.queues import queue
from rota.stores.sqlite.statements import statement


def beat(connection: SqliteConnection, members: Sequence[Member], now: int) -> None:
    """Record the heartbeats of processes."""
    connection.many(statement("save_member"), [member_row(member, now) for member in members])


def members(connection: SqliteConnection, role: Role | None, since: int) -> list[Member]:
    """Return the processes that were seen since a time."""
    parameters = {"role": None if role is None else role.value, "since": since}
    return [member_of(row) for row in connection.rows(statement("members_seen_since"), parameters)]


def leave(connection: SqliteConnection, boots: Sequence[str]) -> None:
    """Delete processes that stopped in order."""
    connection.run(statement("delete_members"), (json.dumps(boots),))


def lead(connection: SqliteConnection, name: str, holder: str, lasting: timedelta, now: int) -> Leadership:
    """Acquire or extend leadership unless another process holds it, and return the leadership."""
    parameters = {"name": name, "holder": holder, "until": now + span_to_micros(lasting), "now": now}
    connection.run(statement("take_leadership"), parameters)
    return leadership_of(connection.rows(statement("leadership_by_name"), (name,))[0])


def leader(connection: SqliteConnection, name: str, now: int) -> Leadership | None:
    """Return the current leadership, if any process holds it."""
    return current_leadership(connection.rows(statement("leadership_by_name"), (name,)), now)


def resign(connection: SqliteConnection, name: str, holder: str) -> None:
    """Give up leadership at once."""
    connection.run(statement("resign_leadership"), (name, holder))


def check_in(connection: SqliteConnection, check: MemberHeartbeat, now: int) -> ClusterView:
    """Record heartbeats, acquire or read leadership, and read the shared configuration, in one transaction."""
    if check.members:
        beat(connection, check.members, now)
    leadership: Leadership | None
    if check.holder is None:
        leadership = leader(connection, check.lead, now)
    else:
        leadership = lead(connection, check.lead, check.holder, check.lasting, now)
    return ClusterView(leadership, queue(connection, CONFIGURATION))
