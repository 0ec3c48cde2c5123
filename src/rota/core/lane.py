"""Lanes: a queue and a type of job in it. Work is counted, limited and claimed lane by lane."""

from __future__ import annotations

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
    """How many jobs of a lane are in a state."""

    lane: Lane
    state: State
    count: int


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
