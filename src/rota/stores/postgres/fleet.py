"""Processes, queues' settings and the lead."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from rota.core.fleet import ALIVE_FOR, Bearings, CheckIn, Leadership, Member, Role
from rota.core.instant import span_to_micros
from rota.core.lane import CONFIGURATION, Queue
from rota.core.precedence import Rank
from rota.stores.postgres.session import Session
from rota.stores.rows import (
    bearings_of,
    current_leadership,
    leadership_of,
    member_of,
    member_row,
    members_text,
    queue_of,
    queue_row,
)

#: The order of beat.sql.
_MEMBER: Final = (
    "boot", "role", "name", "host", "pid", "version", "address", "queues", "types", "slots", "busy", "is_draining",
    "started_at", "now",
)  # fmt: skip
#: The order of create_queue.sql and replace_queue.sql.
_QUEUE: Final = (
    "name", "paused_at", "pause_reason", "resume_at", "max_depth", "max_running", "rate_limit", "version",
)  # fmt: skip


async def beat(session: Session, members: Sequence[Member], now: int) -> None:
    """Record that processes are alive."""
    for member in sorted(members, key=lambda one: one.boot):
        row = {**member_row(member, now), "is_draining": member.is_draining}
        await session.run("beat", *(row[column] for column in _MEMBER))


async def members(session: Session, role: Role | None, since: int) -> list[Member]:
    """Give the processes on record."""
    return [member_of(row) for row in await session.rows("members", None if role is None else role.value, since)]


async def leave(session: Session, boots: Sequence[str]) -> None:
    """Forget processes that said goodbye."""
    await session.run("leave", boots)


async def lead(session: Session, name: str, holder: str, lasting: timedelta, now: int) -> Leadership:
    """Take or keep the lead if nobody else holds it, and say who leads."""
    await session.run("lead", name, holder, now + span_to_micros(lasting), now)
    return leadership_of((await session.rows("leader", name))[0])


async def leader(session: Session, name: str, now: int) -> Leadership | None:
    """Say who leads, if anybody does."""
    return current_leadership(await session.rows("leader", name), now)


async def resign(session: Session, name: str, holder: str) -> None:
    """Give the lead up at once."""
    await session.run("resign", name, holder)


async def check_in(session: Session, told: CheckIn, now: int | None) -> Bearings:
    """Record that processes are alive, take or keep the lead, and say what is known: one statement."""
    lasting = span_to_micros(told.lasting)
    text = members_text(told.members)
    alive_for = span_to_micros(ALIVE_FOR)
    (row,) = await session.rows("check_in", now, text, told.lead, told.holder, lasting, CONFIGURATION, alive_for)
    return replace(bearings_of(row[:-1]), ranks=_ranks_of(row[-1]))


def _ranks_of(text: str | None) -> Mapping[str, Rank]:
    """Read the ranks of workers by boot; none if there is no worker."""
    return {boot: Rank(*rank) for boot, rank in json.loads(text or "{}").items()}


async def put_queue(session: Session, queue: Queue, now: int) -> bool:  # noqa: ARG001 - as all that is recorded
    """Write a queue's settings if their version still holds."""
    verb = "create_queue" if queue.version == 0 else "replace_queue"
    row = queue_row(queue)
    return bool(await session.run(verb, *(row[column] for column in _QUEUE)))


async def queues(session: Session) -> list[Queue]:
    """Give the queues that have settings."""
    return [queue_of(row) for row in await session.rows("queues")]
