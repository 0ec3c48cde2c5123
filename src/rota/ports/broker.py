"""The broker: how a worker learns that there is work.

A broker carries hints and ids, never the truth. All of it may be lost at any time: work is then found later, not never.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Protocol

from rota.core.identity import JobId
from rota.core.lane import Lane
from rota.core.precedence import Rank
from rota.core.value import value
from rota.ports.store import Dispatched


class Attendance(Protocol):
    """Someone who listens for work in some queues."""

    async def wait(self, at_most: timedelta) -> Collection[str]:
        """Wait until there may be work, at most for a while; say at which places, none when the time has passed.

        What was announced since the attendance began, or since the last wait ended, ends the wait at once.
        """
        ...


@value
class Missing:
    """Of queued jobs: those that nobody will be handed, and those of which the broker cannot say."""

    lost: Sequence[JobId] = ()
    unsure: Sequence[JobId] = ()


class Line(Protocol):
    """What a broker that hands jobs over by id is to whoever dispatches them.

    A lane's line is short: what stands in it has been given its place, and what comes later and is more urgent must
    not wait for long. Every verb may raise `BrokerUnavailable`; what was asked may have happened then.
    """

    async def room(self) -> Mapping[Lane, int]:
        """Give the lanes that somebody takes jobs from, and how many more may stand in each."""
        ...

    async def hand_over(self, jobs: Sequence[Dispatched]) -> Sequence[JobId]:
        """Let queued jobs stand in line, and tell whoever waits for them. The same job twice does no harm.

        Gives those for which there was no room after all: they stand nowhere, and are to be recalled.
        """
        ...

    async def missing(self, jobs: Sequence[Dispatched]) -> Missing:
        """Of queued jobs, give those that nobody will be handed, and those of which it cannot be said.

        The lost stand in no line and are with no reader, or nobody takes jobs from their lane any more.
        """
        ...

    async def wait(self, at_most: timedelta) -> None:
        """Wait until there may be room again, at most for a while."""
        ...


class Broker(Protocol):
    """Brings workers and work together."""

    @property
    def line(self) -> Line | None:
        """Where dispatched jobs stand; None if this broker hands nothing over and workers ask the store."""
        ...

    @property
    def is_up(self) -> bool:
        """Whether it does what it is there for. If not, workers ask the store, and jobs run all the same."""
        ...

    @property
    def is_attended(self) -> bool:
        """Whether somebody may hear an announcement; what nobody hears need not be told. Cheap, and from any thread."""
        ...

    def attend(
        self, queues: Collection[str], types: Collection[str] | None = None, rank: Rank | None = None
    ) -> AbstractContextManager[Attendance]:
        """Begin to listen for work in these queues. Whoever asks the store after this and then waits misses nothing.

        Lanes of these queues and types are kept filled for as long as somebody listens. Who has a rank among those who
        listen for the same may hear of a single job a little later than another whose turn it is, see `precedence`.
        """
        ...

    async def announce(self, queues: Collection[str]) -> None:
        """Tell whoever listens to one of these queues that there is work. Cheap; never raises; may be forgotten."""
        ...

    async def take(self, queues: Collection[str], types: Collection[str] | None, limit: int) -> Sequence[JobId] | None:
        """Hand over up to `limit` ids of jobs of these queues and types; None when the store is to be asked instead.

        Never raises. Whoever takes ids either acknowledges them or hands them back; those of one who does neither
        (it has died) are handed to someone else after a while.
        """
        ...

    async def hand_back(self, ids: Sequence[JobId]) -> None:
        """Take back ids that were taken and not tried: they are handed over again. Never raises."""
        ...

    async def acknowledge(self, ids: Sequence[JobId]) -> None:
        """Let go of ids that were tried, in vain or not. Unknown ids are ignored. Never raises."""
        ...

    async def close(self) -> None:
        """Let go of the connection."""
        ...
