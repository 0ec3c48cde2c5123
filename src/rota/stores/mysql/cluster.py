"""Members of the cluster and leadership."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from rota.core.cluster import ClusterView, Leadership, Member, MemberHeartbeat, Role
from rota.core.queue import CONFIGURATION
from rota.core.time import span_to_micros
from rota.stores.mysql.driver import ConstraintViolated, MysqlConnection, chunks
from rota.stores.mysql.statements import statement
from rota.stores.rows import (
    cluster_view_of,
    current_leadership,
    leadership_of,
    member_of,
    member_row,
    members_text,
    queue_of,
)


async def beat(connection: MysqlConnection, members: Sequence[Member], now: int) -> None:
    """Record that processes are alive."""
    for member in sorted(members, key=lambda member: member.boot):
        await connection.run(statement("upsert_member"), member_row(member, now))


async def members(connection: MysqlConnection, role: Role | None, since: int) -> list[Member]:
    parameters = {"role": None if role is None else role.value, "since": since}
    return [member_of(row) for row in await connection.rows(statement("members"), parameters)]


async def leave(connection: MysqlConnection, boots: Sequence[str]) -> None:
    """Delete processes that have stopped."""
    for chunk in chunks(boots):
        await connection.run(statement("delete_members"), {"boots": chunk})


async def lead(connection: MysqlConnection, name: str, holder: str, lasting: timedelta, now: int) -> Leadership:
    """Renew the leadership, or take it if no other process holds it, and return the current one."""
    parameters = {"name": name, "holder": holder, "until": now + span_to_micros(lasting), "now": now}
    if not await connection.run(statement("renew_or_take_leadership"), parameters):
        # A duplicate means that another process holds it, or took it at this moment.
        with suppress(ConstraintViolated):
            await connection.run(statement("insert_leadership"), parameters)
    return leadership_of((await connection.rows(statement("leader"), parameters))[0])


async def leader(connection: MysqlConnection, name: str, now: int) -> Leadership | None:
    return current_leadership(await connection.rows(statement("leader"), {"name": name}), now)


async def resign(connection: MysqlConnection, name: str, holder: str) -> None:
    await connection.run(statement("release_leadership"), {"name": name, "holder": holder})


async def check_in(connection: MysqlConnection, report: MemberHeartbeat, now: int | None) -> ClusterView:
    """Record that processes are alive, renew or take the leadership, and return the state of the cluster.

    Needs a connection that commits each statement.
    """
    if not connection.is_mariadb:
        return await _check_in_by_statements(connection, report, now)
    parameters = {
        "now": now,
        "members": members_text(report.members),
        "lead": report.lead,
        "holder": report.holder,
        "lasting": span_to_micros(report.lasting),
        "queue": CONFIGURATION,
    }
    (row,) = await connection.rows(statement("heartbeat"), parameters)
    return cluster_view_of(row)


async def _check_in_by_statements(connection: MysqlConnection, report: MemberHeartbeat, now: int | None) -> ClusterView:
    """Do the same on MySQL, which has no compound statements outside of procedures."""
    ((clock,),) = await connection.rows(statement("server_time"))
    moment = int(clock) if now is None else now
    await connection.run("START TRANSACTION")
    await beat(connection, report.members, moment)
    if report.holder is not None:
        await lead(connection, report.lead, report.holder, report.lasting, moment)
    leading = await leader(connection, report.lead, moment)
    rows = await connection.rows(statement("queue_by_name"), {"name": CONFIGURATION})
    await connection.commit()
    return ClusterView(leading, queue_of(rows[0]) if rows else None)
