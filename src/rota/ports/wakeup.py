"""Wake-ups: the typed values by which processes notify each other that something may have changed.

A wake-up is a set of topics. The name of a queue is a topic: there may be work in it. All other topics have types of
their own. A wake-up is a hint: it may be lost, late or without a cause, and the receiver queries the store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple, TypeAlias


class GeneralTopic:
    """A topic that concerns no queue by name. There is one object for each, compared by identity."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


class ClaimTopic(NamedTuple):
    """A job was leased to this waiting claim, and no other worker is notified."""

    claim_id: str


class SingleJob(NamedTuple):
    """The change is one new job. Sent with its queue: workers compute from the number which of them claims first."""

    number: int


Topic: TypeAlias = str | GeneralTopic | ClaimTopic | SingleJob
Wake: TypeAlias = Collection[Topic]
#: Called with a wake-up.
OnWake: TypeAlias = Callable[[Wake], None]

#: Something was written that is due at a later time: for listeners that keep the timetable.
TIMETABLE: Final = GeneralTopic("TIMETABLE")
#: Subscribed to by listeners of all queues; sent when it is not known which queue has work.
EVERY_QUEUE: Final = GeneralTopic("EVERY_QUEUE")
#: A new job was leased to a waiting claim at once: for listeners to `EVERY_QUEUE` only, since it cannot be claimed.
LEASED_AT_ONCE: Final = GeneralTopic("LEASED_AT_ONCE")
#: Sent when it is only known that something has changed.
ANY_CHANGE: Final[frozenset[Topic]] = frozenset({EVERY_QUEUE, TIMETABLE})


def single_job_of(wake: Wake) -> int | None:
    """Return the number of a wake-up for a single job; None if it is for more, or for an unknown number of jobs."""
    numbers = [topic.number for topic in wake if isinstance(topic, SingleJob)]
    # A queue and a number.
    return numbers[0] if numbers and len(wake) == 2 else None  # noqa: PLR2004


def without_number(wake: Wake) -> frozenset[Topic]:
    """Return the other topics of a wake-up."""
    return frozenset(topic for topic in wake if not isinstance(topic, SingleJob))
