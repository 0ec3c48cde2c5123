"""Members of the cluster, and leadership."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from rota.core.cluster import ALIVE_FOR, ClusterView, Leadership, Member, MemberHeartbeat, Rank, Role
from rota.core.queue import CONFIGURATION
from rota.core.time import span_to_micros
from rota.stores.postgres.session import Session
from rota.stores.rows import cluster_view_of, current_leadership, leadership_of, member_of, member_row, members_text

#: The order of the parameters of upsert_member.
_COLUMNS: Final = (
    "boot", "role", "name", "host", "pid", "version", "address", "queues", "types", "slots", "busy", "is_draining",
    "started_at", "now",
)  # fmt: skip


async def beat(session: Session, members: Sequence[Member], now: int) -> None:
    """Record heartbeats of processes."""
    for member in sorted(members, key=lambda one: one.boot):
        row = {**member_row(member, now), "is_draining": member.is_draining}
        await session.run("upsert_member", *(row[column] for column in _COLUMNS))


async def members(session: Session, role: Role | None, since: int) -> list[Member]:
    """Return the recorded processes."""
    return [member_of(row) for row in await session.rows("members", None if role is None else role.value, since)]


async def leave(session: Session, boots: Sequence[str]) -> None:
    """Delete processes that have left."""
    await session.run("delete_members", boots)


async def lead(session: Session, name: str, holder: str, lasting: timedelta, now: int) -> Leadership:
    """Take or keep leadership if no other process holds it, and return the leader."""
    await session.run("take_leadership", name, holder, now + span_to_micros(lasting), now)
    return leadership_of((await session.rows("leader", name))[0])


async def leader(session: Session, name: str, now: int) -> Leadership | None:
    """Return the leader, if there is one."""
    return current_leadership(await session.rows("leader", name), now)


async def resign(session: Session, name: str, holder: str) -> None:
    """Give leadership up at once."""
    await session.run("resign_leadership", name, holder)


async def check_in(session: Session, heartbeat: MemberHeartbeat, now: int | None) -> ClusterView:
    """Record heartbeats, take or keep leadership, and return the state of the cluster: one statement."""
    lasting = span_to_micros(heartbeat.lasting)
    text = members_text(heartbeat.members)
    alive_for = span_to_micros(ALIVE_FOR)
    (row,) = await session.rows(
        "heartbeat", now, text, heartbeat.lead, heartbeat.holder, lasting, CONFIGURATION, alive_for
    )
    return replace(cluster_view_of(row[:-1]), ranks=_ranks_of(row[-1]))


def _ranks_of(text: str | None) -> Mapping[str, Rank]:
    """Return the ranks of workers by boot; none if there is no worker."""
    return {boot: Rank(*rank) for boot, rank in json.loads(text or "{}").items()}
