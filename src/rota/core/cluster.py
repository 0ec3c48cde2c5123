"""The cluster: members (workers, schedulers, API processes), leadership and locks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from rota.core.configuration import Configuration
from rota.core.value import value
from rota.core.worker_orders import NO_ORDERS, WorkerFacts, WorkerOrders

#: A process without a heartbeat for this long counts as stopped. Its end is to be reported within 15 s.
ALIVE_FOR: Final = timedelta(seconds=14)
#: How long after its start a process may not know the leader.
ELECTION: Final = timedelta(seconds=10)
#: The name of the schedulers' leadership.
LEAD: Final = "scheduler"
#: How long a lead lasts that is not renewed.
TERM: Final = timedelta(seconds=6)


class Role(StrEnum):
    """The role of a process."""

    WORKER = "worker"
    SCHEDULER = "scheduler"
    API = "api"
    #: A process that defines the schedules of an app; its `types` are their names.
    APP = "app"


@value
class Member:
    """A process as it last described itself. `seen_at` is None before its first heartbeat."""

    role: Role
    name: str
    boot: str
    host: str = ""
    pid: int = 0
    version: str = ""
    address: str = ""
    queues: tuple[str, ...] = ()
    types: tuple[str, ...] | None = ()
    slots: int = 0
    busy: int = 0
    is_draining: bool = False
    started_at: datetime | None = None
    seen_at: datetime | None = None
    #: What a worker reports about its process; None for other processes.
    facts: WorkerFacts | None = None
    #: The orders of operators; written by `order` only.
    orders: WorkerOrders = NO_ORDERS


@value
class Rank:
    """A worker's position among the live workers that take the same jobs, counted from 0, and their number."""

    place: int
    of: int


@value
class Leadership:
    """The leader, and until when it leads. `term` grows with every change of leader."""

    name: str
    holder: str
    term: int
    until: datetime


@value
class MemberHeartbeat:
    """A process's periodic heartbeat: its live members, and its request for leadership."""

    members: tuple[Member, ...]
    #: The name of the leadership.
    lead: str
    #: The candidate that takes or keeps the lead, and for how long; None only reads the leader.
    holder: str | None = None
    lasting: timedelta = timedelta(0)


@value
class ClusterView:
    """The answer to a heartbeat: the leader, if one is known, and the shared configuration.

    `ranks` are the ranks of the process's workers by boot, if the store sends numbered wake-ups (see `rota.stagger`).
    """

    leadership: Leadership | None
    configuration: Configuration
    ranks: Mapping[str, Rank] = field(default_factory=dict)
    #: The orders for the process's workers by boot, where there are any.
    orders: Mapping[str, WorkerOrders] = field(default_factory=dict)


@value
class Lock:
    """A named lock that is held. `fence` grows with every change of holder and goes along with every guarded write."""

    name: str
    holder: str
    fence: int
    since: datetime
    until: datetime


#: The share of a lead's duration that its holder does not rely on, because clocks drift and calls take time.
MARGIN: Final = 0.2


def trusted_seconds(lasting: timedelta) -> float:
    """Return how long a lead may be relied on, counted by a monotonic clock from when it was requested."""
    return lasting.total_seconds() * (1 - MARGIN)
