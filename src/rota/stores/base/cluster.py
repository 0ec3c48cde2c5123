"""Cluster: the processes that take part (members), and leadership among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from rota.core.cluster import ClusterView, Leadership, Member, MemberHeartbeat, Role
from rota.core.configuration import Configuration
from rota.core.time import span_to_micros
from rota.core.worker_orders import OrderChange, WorkerOrders
from rota.stores.base.session import StoreSession
from rota.stores.rows import (
    configuration_of,
    current_leadership,
    leadership_of,
    member_of,
    member_row,
    order_row,
    orders_of,
)


async def beat(session: StoreSession, members: Sequence[Member], now: int) -> Mapping[str, WorkerOrders]:
    """Record the heartbeats of processes, and return the orders for them."""
    for member in sorted(members, key=lambda one: one.boot):
        await session.change("upsert_member", **member_row(member, now))
    return orders_of(await session.select_by("orders_for_members", [member.boot for member in members]))


async def order(session: StoreSession, change: OrderChange, now: int) -> bool:  # noqa: ARG001 - as all recorded verbs
    """Set the orders for a process, if they are as they were."""
    return bool(await session.change("set_orders", **order_row(change)))


async def members(session: StoreSession, role: Role | None, since: int) -> list[Member]:
    """Return the processes that were seen since a time."""
    rows = await session.select("members", role=None if role is None else role.value, since=since)
    return [member_of(row) for row in rows]


async def leave(session: StoreSession, boots: Sequence[str]) -> None:
    """Delete processes that have stopped."""
    await session.change_by("delete_members", boots)


async def lead(session: StoreSession, name: str, holder: str, lasting: timedelta, now: int) -> Leadership:
    """Renew the leadership, or take it if no other process holds it, and return the current one."""
    until = now + span_to_micros(lasting)
    if not await session.change("renew_or_take_leadership", name=name, holder=holder, until=until, now=now):
        # Another process holds it, takes it at this moment, or none has held it before.
        await session.put("insert_leadership", name=name, holder=holder, until=until)
    return leadership_of((await session.select("leader", name=name))[0])


async def leader(session: StoreSession, name: str, now: int) -> Leadership | None:
    """Return the current leadership, if any process holds it."""
    return current_leadership(await session.select("leader", name=name), now)


async def resign(session: StoreSession, name: str, holder: str) -> None:
    """Give up a leadership at once."""
    await session.change("resign_leadership", name=name, holder=holder)


async def check_in(session: StoreSession, heartbeat: MemberHeartbeat, now: int) -> ClusterView:
    """Record heartbeats, take or read the leadership, and read the shared configuration, in one transaction."""
    orders = await beat(session, heartbeat.members, now) if heartbeat.members else {}
    leadership: Leadership | None
    if heartbeat.holder is None:
        leadership = await leader(session, heartbeat.lead, now)
    else:
        leadership = await lead(session, heartbeat.lead, heartbeat.holder, heartbeat.lasting, now)
    return ClusterView(leadership, await configuration(session), orders=orders)


async def configuration(session: StoreSession) -> Configuration:
    """Return the shared configuration."""
    return configuration_of(await session.select("configuration"))


async def configure(session: StoreSession, key: str, value: str | None) -> None:
    """Set or remove (None) a key of the shared configuration."""
    await session.change("save_configuration", key=key, value=value)
