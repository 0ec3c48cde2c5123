"""The heartbeat of a process, in one statement: see `rota.stores.base.cluster` for the other verbs."""

from __future__ import annotations

import json
from dataclasses import replace

from rota.core.cluster import ClusterView, MemberHeartbeat
from rota.core.time import span_to_micros
from rota.stores.base import cluster
from rota.stores.mysql.driver import MysqlConnection
from rota.stores.mysql.statements import statement
from rota.stores.system_rows import cluster_view_of, members_text, orders_of


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
    }
    (row,) = await connection.rows(statement("heartbeat"), parameters)
    *view, orders = row
    return replace(cluster_view_of(tuple(view)), orders=orders_of(json.loads(orders or "{}").items()))


async def _check_in_by_statements(connection: MysqlConnection, report: MemberHeartbeat, now: int | None) -> ClusterView:
    """Do the same on MySQL, which has no compound statements outside of procedures."""
    ((clock,),) = await connection.rows(statement("server_time"))
    moment = int(clock) if now is None else now
    await connection.run("START TRANSACTION")
    view = await cluster.check_in(connection, report, moment)
    await connection.commit()
    return view
