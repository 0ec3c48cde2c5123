"""The heartbeat of a process, in one statement: see `rota.stores.base.cluster` for the other verbs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from rota.core.cluster import ALIVE_FOR, ClusterView, MemberHeartbeat, Rank
from rota.core.time import span_to_micros
from rota.stores.postgres.session import Session
from rota.stores.system_rows import cluster_view_of, members_text, orders_of


async def check_in(session: Session, heartbeat: MemberHeartbeat, now: int | None) -> ClusterView:
    """Record heartbeats, take or keep leadership, and return the state of the cluster: one statement."""
    lasting = span_to_micros(heartbeat.lasting)
    text = members_text(heartbeat.members)
    alive_for = span_to_micros(ALIVE_FOR)
    (row,) = await session.rows("heartbeat", now, text, heartbeat.lead, heartbeat.holder, lasting, alive_for)
    *view, ranks, orders = row
    return replace(
        cluster_view_of(tuple(view)), ranks=_ranks_of(ranks), orders=orders_of(json.loads(orders or "{}").items())
    )


def _ranks_of(text: str | None) -> Mapping[str, Rank]:
    """Return the ranks of workers by boot; none if there is no worker."""
    return {boot: Rank(*rank) for boot, rank in json.loads(text or "{}").items()}
