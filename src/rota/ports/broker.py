"""The broker port: how workers are notified of work.

A broker carries wake-ups and job ids; the store alone is the source of truth. All that a broker has may be lost at any
time: jobs then start later, but they start, because workers query the store as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Protocol

from rota.core.cluster import Rank
from rota.core.ids import JobId
from rota.core.queue import Lane
from rota.core.value import value
from rota.ports.rates import RateCounter
from rota.ports.store import Dispatched
from rota.ports.wakeup import Wake


class Subscription(Protocol):
    """A listener's subscription to wake-ups of some topics (see `rota.ports.wakeup`)."""

    async def wait(self, at_most: timedelta) -> Wake:
        """Wait for a wake-up, at most for a while, and return its topics; none when the time has passed.

        A wake-up since the subscription began, or since the last wait ended, ends the wait at once.
        """
        ...


@value
class MissingJobs:
    """Queued jobs that the broker has lost, and those of which it cannot say whether it has them."""

    lost: Sequence[JobId] = ()
    unsure: Sequence[JobId] = ()


class DispatchQueue(Protocol):
    """The queues of a broker that hands jobs to workers by id, as the dispatcher sees them.

    Each lane has a short queue: the order of what is in it is fixed, and a more urgent job that comes later must not
    wait for long. Every verb may raise `BrokerUnavailable`; the call may have taken effect then.
    """

    async def room(self) -> Mapping[Lane, int]:
        """Return the lanes that workers take jobs from, and how many more jobs each may hold."""
        ...

    async def hand_over(self, jobs: Sequence[Dispatched]) -> Sequence[JobId]:
        """Add queued jobs and wake the workers that wait for them. The same job twice does no harm.

        Return those for which there was no room after all: the caller must recall them.
        """
        ...

    async def missing(self, jobs: Sequence[Dispatched]) -> MissingJobs:
        """Return which of these queued jobs are lost, and which the broker is not sure of.

        A job is lost if it is in no queue and with no reader, or if no worker takes jobs from its lane any more.
        """
        ...

    async def wait(self, at_most: timedelta) -> None:
        """Wait until there may be room again, at most for a while."""
        ...


class Broker(Protocol):
    """Wakes workers; a broker with a `dispatch_queue` also hands them jobs."""

    @property
    def dispatch_queue(self) -> DispatchQueue | None:
        """The broker's queues of dispatched jobs; None if workers claim from the store."""
        ...

    @property
    def rate_counter(self) -> RateCounter | None:
        """Counts fast rates in the place of the store; None if the store counts all."""
        ...

    @property
    def is_up(self) -> bool:
        """Whether it works. If not, workers claim from the store, and jobs still run."""
        ...

    @property
    def has_subscribers(self) -> bool:
        """Whether an announcement may reach a listener; if not, it can be skipped. Cheap; callable from any thread."""
        ...

    def subscribe(
        self, topics: Wake, types: Collection[str] | None = None, rank: Rank | None = None
    ) -> AbstractContextManager[Subscription]:
        """Subscribe to wake-ups of these topics. To miss nothing, subscribe first, then query the store, then wait.

        Lanes of these queues and types are filled by the dispatcher for as long as the subscription lasts. A worker
        with a rank may be woken for a single job a little later than another one, see `rota.stagger`.
        """
        ...

    async def announce(self, wake: Wake) -> None:
        """Wake the listeners of these topics. Cheap; never raises; may be lost."""
        ...

    async def take(self, queues: Collection[str], types: Collection[str] | None, limit: int) -> Sequence[JobId] | None:
        """Return up to `limit` ids of dispatched jobs of these queues and types; None if the caller must claim from the
        store.

        Never raises. The caller acknowledges the ids or hands them back. Ids of a caller that does neither (its process
        died) are handed to another worker after a while.
        """
        ...

    async def hand_back(self, ids: Sequence[JobId]) -> None:
        """Return ids that were taken and not claimed: they are handed out again. Never raises."""
        ...

    async def acknowledge(self, ids: Sequence[JobId]) -> None:
        """Forget ids whose claim the store has answered. Unknown ids are ignored. Never raises."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...
