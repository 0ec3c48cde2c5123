"""The coordinator: who leads, who is alive, who holds a named lock, and what all processes are configured to do.

Leadership saves work; it is never what prevents a double effect (the fence is). If the coordinator is away, jobs run.

A call that raises `Unavailable` may have happened (the reply can be lost), so every verb is safe to repeat.
No call takes much longer than the adapter's stated patience: whoever asks has other things to do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import Protocol

from rota.core.configuration import Configuration
from rota.core.fleet import Bearings, CheckIn, Leadership, Lock, Member, Role

CheckingIn = Callable[[CheckIn], Awaitable[Bearings]]


class Leading(Protocol):
    """One of many leads."""

    async def campaign(self, name: str, holder: str, lasting: timedelta) -> Leadership:
        """Take or keep the lead if nobody else holds it, and say who leads.

        At most one holder at a time by the coordinator's clock; the term grows whenever the holder changes. Whoever
        leads may trust its lead from the moment this was *called*, not from when the answer came, and for less than
        `lasting`: clocks do not run alike.
        """
        ...

    async def leader(self, name: str) -> Leadership | None:
        """Say who leads; None when nobody does. Changes nothing."""
        ...

    async def resign(self, name: str, holder: str) -> None:
        """Give the lead up at once, if it is held by `holder`."""
        ...


class Enlisting(Protocol):
    """Processes make themselves known."""

    #: Whether the members are those of the store, so that nobody need tell both.
    enlists_in_store: bool

    @property
    def check_in(self) -> CheckingIn | None:
        """Enlists, asks for the lead and looks at the configuration, all in one; None where it is not one question.

        As `campaign` for who would lead, else as `leader`; but if the lead changes at this moment, it may know of
        nobody. A change of the configuration that it sees ends the wait of `changed`.
        """
        ...

    async def enlist(self, members: Sequence[Member]) -> None:
        """Record that processes are alive; a record vanishes `ALIVE_FOR` after the last call for its boot."""
        ...

    async def dismiss(self, boots: Iterable[str]) -> None:
        """Forget processes that said goodbye."""
        ...

    async def roll(self, role: Role | None = None) -> Sequence[Member]:
        """Give the processes that are alive, of a role, ordered by name. Their load may be a minute old."""
        ...


class Locking(Protocol):
    """Named locks. They are advice: a holder that is stopped and goes on later does not know that it lost its lock.

    So whoever guards an effect passes the fence on to where the effect happens, which refuses a smaller one.
    """

    async def lock(self, name: str, holder: str, lasting: timedelta) -> Lock | None:
        """Take or keep a lock if nobody else holds it; None if somebody does. Never waits.

        Its fence is greater than that of every other holder before. Who calls again keeps lock and fence.
        """
        ...

    async def unlock(self, name: str, holder: str) -> None:
        """Give a lock back at once, if it is held by `holder`."""
        ...


class Configuring(Protocol):
    """A few words that all processes heed while they run."""

    async def configuration(self) -> Configuration:
        """Read the shared configuration."""
        ...

    async def configure(self, key: str, value: str | None) -> None:
        """Set a key, or forget it (None). Concurrent changes of different keys all hold."""
        ...

    async def changed(self, since: Configuration, at_most: timedelta) -> Configuration:
        """Wait until the configuration is another than `since`, at most for a while, and give it."""
        ...


class Coordinator(Leading, Enlisting, Locking, Configuring, Protocol):
    """Lets many processes act as one."""

    #: What it is, for people.
    name: str

    async def close(self) -> None:
        """Let go of the connection. Leads, locks and records run out by themselves."""
        ...
