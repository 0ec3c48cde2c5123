"""Row mapping of what is no job: members, leadership, locks, configuration, queues, limits, the ledger and tokens."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rota.core.access import Token, TokenLimits
from rota.core.cluster import ClusterView, Leadership, Lock, Member, Role
from rota.core.configuration import Configuration
from rota.core.ledger import LedgerEntry
from rota.core.limit import Limit
from rota.core.queue import Queue
from rota.core.time import from_micros, to_micros
from rota.core.worker_orders import OrderChange, WorkerFacts, WorkerOrders
from rota.stores.rows import Row, micros, moment


def member_row(member: Member, now: int) -> dict[str, Any]:
    """Write a process, by the names of upsert_member."""
    return {
        "boot": member.boot,
        "role": member.role.value,
        "name": member.name,
        "host": member.host,
        "pid": member.pid,
        "version": member.version,
        "address": member.address,
        "queues": json.dumps(member.queues),
        "types": None if member.types is None else json.dumps(member.types),
        "slots": member.slots,
        "busy": member.busy,
        "is_draining": member.is_draining,
        "started_at": micros(member.started_at),
        "facts": None if member.facts is None else member.facts.text(),
        "now": now,
    }


def orders_of(rows: Iterable[Row]) -> Mapping[str, WorkerOrders]:
    """Read pairs of a boot and the orders for that process; those without orders are left out."""
    return {boot: WorkerOrders.of(text) for boot, text in rows if text}


def order_row(change: OrderChange) -> dict[str, Any]:
    """Write new orders for a process, by the names of set_orders."""
    return {"boot": change.boot, "orders": change.orders.text() or None, "was": change.was.text()}


def member_of(row: Row) -> Member:
    """Read a process, in the order of cluster.sql."""
    role, name, boot, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, *rest = row
    seen_at, facts, orders = rest
    return Member(
        role=Role(role),
        name=name,
        boot=boot,
        host=host,
        pid=pid,
        version=version,
        address=address,
        queues=tuple(json.loads(queues)),
        types=None if types is None else tuple(json.loads(types)),
        slots=slots,
        busy=busy,
        is_draining=bool(is_draining),
        started_at=from_micros(started_at),
        seen_at=from_micros(seen_at),
        facts=WorkerFacts.of(facts),
        orders=WorkerOrders.of(orders),
    )


def leadership_of(row: Row) -> Leadership:
    """Read the lead, in the order of leader.sql."""
    name, holder, term, until = row
    return Leadership(name, holder, term, from_micros(until))


def current_leadership(rows: Sequence[Row], now: int) -> Leadership | None:
    """Read the current lead: a row whose time has passed is of a former leader."""
    leads = [leadership_of(row) for row in rows]
    return leads[0] if leads and leads[0].until > from_micros(now) else None


def lock_of(row: Row) -> Lock:
    """Read a named lock, in the order of locks.sql."""
    name, holder, fence, since, until = row
    return Lock(name, holder, fence, from_micros(since), from_micros(until))


def members_text(members: Sequence[Member]) -> str:
    """Write processes as the statement heartbeat reads them: JSON, in the order in which rows are always written."""
    rows = [member_row(member, 0) for member in sorted(members, key=lambda one: one.boot)]
    return json.dumps(rows)


def cluster_view_of(row: Row) -> ClusterView:
    """Read the view of the cluster, as the statement heartbeat gives it: time, leader, configuration."""
    now, *lead, configuration = row
    leadership = None if lead[0] is None else current_leadership([tuple(lead)], now)
    return ClusterView(leadership, configuration_of(json.loads(configuration or "[]")))


def configuration_of(rows: Iterable[Row]) -> Configuration:
    """Read the shared configuration: key, value and version of each; a removed key has no value."""
    known = list(rows)
    values = {key: value for key, value, _ in known if value is not None}
    return Configuration(values, sum(int(version) for _, _, version in known))


def queue_row(queue: Queue) -> dict[str, Any]:
    """Write a queue's settings, by the names of create_queue."""
    return {
        "name": queue.name,
        "paused_at": micros(queue.paused_at),
        "pause_reason": queue.pause_reason,
        "resume_at": micros(queue.resume_at),
        "max_depth": queue.max_depth,
        "max_running": queue.max_running,
        "rate_limit": queue.rate_limit,
        "version": queue.version,
    }


def queue_of(row: Row) -> Queue:
    """Read a queue's settings, in the order of queues.sql."""
    name, paused_at, pause_reason, resume_at, max_depth, max_running, rate_limit, version = row
    return Queue(name, moment(paused_at), pause_reason, moment(resume_at), max_depth, max_running, rate_limit, version)


def limit_row(limit: Limit) -> dict[str, Any]:
    """Write a limit, by the names of save_limit and close_limit."""
    return {
        "name": limit.name,
        "max_running": limit.max_running,
        "rate_limit": limit.rate_limit,
        "per_key_max_running": limit.per_key_max_running,
        "per_key_rate_limit": limit.per_key_rate_limit,
        "weight": limit.weight,
        "ordering": limit.order,
        "on_full": limit.on_full,
        "closed_until": micros(limit.closed_until),
        "reason": limit.reason,
        "app": limit.app,
        "set_by": limit.set_by,
    }


def limit_of(row: Row) -> Limit:
    """Read a limit, in the order of limit_columns."""
    name, most, rates, key_most, key_rates, weight, order, on_full, closed_until, *rest = row
    reason, app, set_by, set_at, breaker = rest
    allowed = (most, rates, key_most, key_rates, weight, order, on_full)
    return Limit(name, *allowed, moment(closed_until), reason, app, set_by, moment(set_at), breaker)


def entry_of(row: Row) -> LedgerEntry:
    """Read an entry of the ledger, in the order of ledger.sql."""
    number, at, actor, action, target, origin, detail, digest, surface = row
    return LedgerEntry(actor, action, target, origin, detail, from_micros(at), number, digest, surface)


def token_row(token: Token) -> dict[str, Any]:
    """Write a token, by the names of save_token."""
    return {
        "id": token.id,
        "name": token.name,
        "digest": token.digest,
        "role": token.role,
        "actions": json.dumps(token.actions),
        "queues": json.dumps(token.queues),
        "limits": json.dumps(token.limits.given),
        "created_at": to_micros(token.created_at),
        "expires_at": micros(token.expires_at),
        "revoked_at": micros(token.revoked_at),
    }


def token_of(row: Row) -> Token:
    """Read a token, in the order of ledger.sql."""
    token_id, name, digest, role, actions, queues, limits, created_at, expires_at, revoked_at = row
    return Token(
        id=token_id,
        name=name,
        digest=digest,
        created_at=from_micros(created_at),
        role=role,
        actions=tuple(json.loads(actions)),
        queues=tuple(json.loads(queues)),
        limits=TokenLimits(**json.loads(limits)),
        expires_at=moment(expires_at),
        revoked_at=moment(revoked_at),
    )
