"""Cluster: the processes that take part (members), leadership among them, and named advisory locks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from rota.core.cluster import ClusterView, Leadership, Lock, Member, MemberHeartbeat, Role
from rota.core.configuration import Configuration
from rota.core.time import span_to_micros
from rota.core.worker_orders import OrderChange, WorkerOrders
from rota.stores.base.session import StoreSession
from rota.stores.system_rows import (
    configuration_of,
    current_leadership,
    leadership_of,
    lock_of,
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


async def lock(session: StoreSession, name: str, holder: str, lasting: timedelta, now: int) -> Lock | None:
    """Take or keep a lock if no other holder has it."""
    until = now + span_to_micros(lasting)
    if not await session.change("keep_lock", name=name, holder=holder, until=until):
        if await _held(session, name, now) is not None:
            return None
        await session.change("count_lock")
        await session.change("delete_lapsed_locks", now=now)
        # Another process may take it at this moment.
        await session.put("take_lock", name=name, holder=holder, until=until, now=now)
    held = await _held(session, name, now)
    return held if held is not None and held.holder == holder else None


async def unlock(session: StoreSession, name: str, holder: str | None, now: int) -> Lock | None:
    """Release a lock of a holder, or of any (None), and return it as it was."""
    rows = await session.select("lock_to_release", name=name, holder=holder)
    if not rows:
        return None
    await session.change("delete_lock", name=name)
    return lock_of(rows[0]) if rows[0][-1] > now else None


async def locks(session: StoreSession, now: int) -> Sequence[Lock]:
    """Return the locks that are held, by name."""
    return [lock_of(row) for row in await session.select("held_locks", now=now)]


async def _held(session: StoreSession, name: str, now: int) -> Lock | None:
    """Read a lock that some holder has."""
    rows = await session.select("lock_by_name", name=name)
    return lock_of(rows[0]) if rows and rows[0][-1] > now else None
