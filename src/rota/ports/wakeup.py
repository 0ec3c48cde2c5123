"""Wake-up topics: the strings by which processes tell each other that something may have changed.

A queue's name is a topic: there may be work in it. Names that begin with NUL, which no queue has, are topics of their
own. A wake-up is a hint and never the truth: it may be lost, late or for nothing, and the receiver asks the store.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

#: Something was written that is due at a later time: for listeners that keep the timetable.
TIMETABLE: Final = "\0timetable"
#: Subscribed to by listeners that want all queues; sent by a process that does not know which queue has work.
EVERY_QUEUE: Final = "\0every queue"
#: Sent by a process that only knows that something has changed.
ANY_CHANGE: Final = frozenset({EVERY_QUEUE, TIMETABLE})
#: A new job was leased to a waiting worker at once: for listeners to `EVERY_QUEUE` only, since it cannot be claimed.
HANDED_OFF: Final = "\0brought"
_NUMBER: Final = "\0number "
_CLAIM: Final = "\0answer to "


def claim_topic(claim_id: str) -> str:
    """Return the topic of one waiting claim: a job was leased to it, and no other worker needs to know."""
    return f"{_CLAIM}{claim_id}"


def number_topic(number: int) -> str:
    """Return the topic sent beside a queue's name for a single job: all workers derive from it whose turn is first."""
    return f"{_NUMBER}{number}"


def number_of(topics: Collection[str]) -> int | None:
    """Return the number of a wake-up for a single job; None if it is for more, or for an unknown number of jobs."""
    numbers = [topic for topic in topics if topic.startswith(_NUMBER)]
    # A queue and a number.
    return int(numbers[0].removeprefix(_NUMBER)) if numbers and len(topics) == 2 else None  # noqa: PLR2004


def without_number(topics: Collection[str]) -> frozenset[str]:
    """Return the other topics of a wake-up."""
    return frozenset(topic for topic in topics if not topic.startswith(_NUMBER))
