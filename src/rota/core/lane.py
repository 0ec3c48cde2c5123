"""Lanes: a queue and a type of job in it. Work is counted, limited and claimed lane by lane."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from rota.core.lifecycle import State
from rota.core.value import value

#: No queue: under this name the store keeps what all processes are configured to do. No queue's name has a slash.
CONFIGURATION: Final = "/configuration"


class Lane(NamedTuple):
    """A queue and a type. What waits in one lane never stands in the way of another."""

    queue: str
    type: str


@value
class LaneCount:
    """How many jobs of a lane are in a state, and since when the next of them has been due."""

    lane: Lane
    state: State
    count: int
    #: When the job became due that is next in claim order (the oldest of the queued ones); None if they are not due.
    due_since: datetime | None = None


def due_since(lanes: Iterable[LaneCount]) -> datetime | None:
    """Say since when a job has been due that is next in one of some lanes: the longest of them."""
    return min((one.due_since for one in lanes if one.due_since is not None), default=None)


@value
class Queue:
    """A queue's settings. A queue nobody has set anything for has none of them and is not stored."""

    name: str
    paused_at: datetime | None = None
    pause_reason: str | None = None
    resume_at: datetime | None = None
    max_depth: int | None = None
    max_running: int | None = None
    rate_limit: str | None = None
    version: int = 0
