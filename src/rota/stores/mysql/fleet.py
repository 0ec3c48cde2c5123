"""Processes, queues' settings and the lead."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from rota.core.fleet import Bearings, CheckIn, Leadership, Member, Role
from rota.core.instant import span_to_micros
from rota.core.lane import CONFIGURATION, Queue
from rota.stores.mysql.driver import Clash, Connection, lists
from rota.stores.mysql.statements import statement
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


async def beat(connection: Connection, members: Sequence[Member], now: int) -> None:
    """Record that processes are alive."""
    for member in sorted(members, key=lambda member: member.boot):
        await connection.run(statement("beat"), member_row(member, now))


async def members(connection: Connection, role: Role | None, since: int) -> list[Member]:
    """Give the processes on record."""
    parameters = {"role": None if role is None else role.value, "since": since}
    return [member_of(row) for row in await connection.rows(statement("members"), parameters)]


async def leave(connection: Connection, boots: Sequence[str]) -> None:
    """Forget processes that said goodbye."""
    for some in lists(boots):
        await connection.run(statement("leave"), {"boots": some})


async def lead(connection: Connection, name: str, holder: str, lasting: timedelta, now: int) -> Leadership:
    """Take or keep the lead if nobody else holds it, and say who leads."""
    parameters = {"name": name, "holder": holder, "until": now + span_to_micros(lasting), "now": now}
    if not await connection.run(statement("lead"), parameters):
        # Refused, somebody has it, or took it at this moment.
        with suppress(Clash):
            await connection.run(statement("stand"), parameters)
    return leadership_of((await connection.rows(statement("leader"), parameters))[0])


async def leader(connection: Connection, name: str, now: int) -> Leadership | None:
    """Say who leads, if anybody does."""
    return current_leadership(await connection.rows(statement("leader"), {"name": name}), now)


async def resign(connection: Connection, name: str, holder: str) -> None:
    """Give the lead up at once."""
    await connection.run(statement("resign"), {"name": name, "holder": holder})


async def check_in(connection: Connection, told: CheckIn, now: int | None) -> Bearings:
    """Record that processes are alive, take or keep the lead, and say what is known: on a connection that commits."""
    if not connection.is_mariadb:
        return await _check_in_step_by_step(connection, told, now)
    parameters = {
        "now": now,
        "members": members_text(told.members),
        "lead": told.lead,
        "holder": told.holder,
        "lasting": span_to_micros(told.lasting),
        "queue": CONFIGURATION,
    }
    (row,) = await connection.rows(statement("check_in"), parameters)
    return bearings_of(row)


async def _check_in_step_by_step(connection: Connection, told: CheckIn, now: int | None) -> Bearings:
    """Do the same where a statement cannot consist of several."""
    ((clock,),) = await connection.rows(statement("clock"))
    moment = int(clock) if now is None else now
    await connection.run("START TRANSACTION")
    await beat(connection, told.members, moment)
    if told.holder is not None:
        await lead(connection, told.lead, told.holder, told.lasting, moment)
    leading = await leader(connection, told.lead, moment)
    rows = await connection.rows(statement("queue_named"), {"name": CONFIGURATION})
    await connection.commit()
    return Bearings(leading, queue_of(rows[0]) if rows else None)


async def put_queue(connection: Connection, queue: Queue) -> bool:
    """Write a queue's settings if their version still holds."""
    verb = "create_queue" if queue.version == 0 else "replace_queue"
    try:
        is_written = bool(await connection.run(statement(verb), queue_row(queue)))
    except Clash:
        return False
    # A queue that is no longer paused has work to give.
    connection.has_made_work |= is_written
    return is_written


async def queues(connection: Connection) -> list[Queue]:
    """Give the queues that have settings."""
    return [queue_of(row) for row in await connection.rows(statement("queues"))]
