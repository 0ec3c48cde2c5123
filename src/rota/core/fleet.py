"""Who takes part: workers, schedulers and API nodes, and which of them leads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from rota.core.lane import Queue
from rota.core.precedence import Rank
from rota.core.value import value

#: A process that was not heard of for this long is taken for gone.
ALIVE_FOR: Final = timedelta(seconds=15)


class Role(StrEnum):
    """What a process is there for."""

    WORKER = "worker"
    SCHEDULER = "scheduler"
    API = "api"
    #: A process that puts up the schedules of an app; its types are their names.
    APP = "app"


@value
class Member:
    """A process that takes part, as it last described itself. Without `seen_at` it has not been seen yet."""

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


@value
class Leadership:
    """Who leads, until when as far as can be told. `term` grows with every change of leader."""

    name: str
    holder: str
    term: int
    until: datetime


@value
class CheckIn:
    """What a process says and asks again and again: who in it is alive, and who leads."""

    members: tuple[Member, ...]
    #: Which lead it asks about.
    lead: str
    #: Who would take or keep that lead, and for how long; None to ask only who has it.
    holder: str | None = None
    lasting: timedelta = timedelta(0)


@value
class Bearings:
    """What it is told: who leads, if anybody is known to, and the row in which the shared configuration is kept.

    And by boot the ranks of its workers among those that are alive and take the same jobs, where the store can tell of
    a job by a number that all hear alike.
    """

    leadership: Leadership | None
    configuration: Queue | None
    ranks: Mapping[str, Rank] = field(default_factory=dict)


@value
class Lock:
    """A named lock that is held. `fence` grows with every change of holder: whoever acts under it passes it on."""

    name: str
    holder: str
    fence: int


#: How much of a lead's time its holder does not trust: clocks do not run alike, and a thought takes its time.
MARGIN: Final = 0.2


def trusted_seconds(lasting: timedelta) -> float:
    """Say how long a lead may be trusted, counted from when it was asked for by a clock that only goes forward."""
    return lasting.total_seconds() * (1 - MARGIN)
