"""Queues and their settings, lanes (a queue and a job type) with their counts, and priority classes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from rota.core.errors import QueueFull
from rota.core.lifecycle import State
from rota.core.value import value


class Lane(NamedTuple):
    """A queue and a job type. Jobs are counted, limited and claimed by lane; no lane delays another."""

    queue: str
    type: str


@value
class LaneCount:
    """The number of jobs of a lane in a state, and since when the next of them has been due."""

    lane: Lane
    state: State
    count: int
    #: When the next job in claim order (the oldest of the queued ones) became due; None if they are not due.
    due_since: datetime | None = None


def due_since(lanes: Iterable[LaneCount]) -> datetime | None:
    """Return the earliest `due_since` of some lanes."""
    return min((one.due_since for one in lanes if one.due_since is not None), default=None)


@value
class Queue:
    """A queue's settings. A queue without settings is not stored."""

    name: str
    paused_at: datetime | None = None
    pause_reason: str | None = None
    resume_at: datetime | None = None
    max_depth: int | None = None
    max_running: int | None = None
    rate_limit: str | None = None
    version: int = 0

    def as_of(self, now: datetime) -> Queue:
        """Return the settings without a pause that has ended by itself: claims no longer regard it."""
        if self.paused_at is None or self.resume_at is None or self.resume_at > now:
            return self
        return replace(self, paused_at=None, pause_reason=None, resume_at=None)


def queue_full(queue: str) -> QueueFull:
    """Make the error for a queue that has reached its bound."""
    return QueueFull(f"queue {queue!r} is full: as many jobs wait in it as may")


class PriorityClass(StrEnum):
    """Priority class of a dispatched job, in the order in which workers take them.

    A stream of an external broker has no order but that of arrival, so each class has its own stream.
    """

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


#: The lowest priority of the high class, and the highest of the low class.
HIGH_FROM: Final = 7
LOW_UP_TO: Final = 3


def priority_class_of(priority: int) -> PriorityClass:
    if priority >= HIGH_FROM:
        return PriorityClass.HIGH
    return PriorityClass.LOW if priority <= LOW_UP_TO else PriorityClass.NORMAL
