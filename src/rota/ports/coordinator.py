"""The coordinator port: leader election, membership, named locks, shared configuration.

Leadership saves work; it is never what prevents a double effect (the fence is). Without the coordinator, jobs run.

A call that raises `Unavailable` may have taken effect (the reply can be lost), so every verb is safe to repeat. No call
takes much longer than the adapter's timeout.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import Protocol

from rota.core.cluster import ClusterView, Leadership, Lock, Member, MemberHeartbeat, Role
from rota.core.configuration import Configuration

SendHeartbeat = Callable[[MemberHeartbeat], Awaitable[ClusterView]]


class Election(Protocol):
    """Leader election."""

    async def campaign(self, name: str, holder: str, lasting: timedelta) -> Leadership:
        """Take or keep the lead if no other holder has it, and return the current lead.

        At most one holder at a time by the coordinator's clock; the term grows whenever the holder changes. The leader
        may count on its lead from the moment this was *called*, not from when the answer came, and for less than
        `lasting`, because clocks drift.
        """
        ...

    async def leader(self, name: str) -> Leadership | None:
        """Return the current lead; None if no process has it. Changes nothing."""
        ...

    async def resign(self, name: str, holder: str) -> None:
        """Give up the lead at once, if `holder` has it."""
        ...


class MemberRegistry(Protocol):
    """The live processes of the cluster: workers, schedulers, APIs; a process that stops its heartbeat drops out."""

    #: Whether the members are kept in the store, so that a process need not be registered in both.
    keeps_members_in_store: bool

    @property
    def check_in(self) -> SendHeartbeat | None:
        """Registers members, campaigns and reads the configuration in one call; None if that takes several.

        As `campaign` for a process that would lead, else as `leader`; if the lead changes at this moment, the answer
        may name no leader. If the configuration that it reads has changed, the wait of `changed` ends.
        """
        ...

    async def register(self, members: Sequence[Member]) -> None:
        """Record that processes are alive; a record expires `ALIVE_FOR` after the last call for its boot."""
        ...

    async def deregister(self, boots: Iterable[str]) -> None:
        """Delete the records of processes that have stopped."""
        ...

    async def members(self, role: Role | None = None) -> Sequence[Member]:
        """Return the live processes of a role, ordered by name. Their load may be a minute old."""
        ...


class LockSource(Protocol):
    """What the holder of a lock needs: see `Locks`. In process, or over HTTP."""

    async def lock(self, name: str, holder: str, lasting: timedelta) -> Lock | None:
        """Take or keep a lock if no other holder has it; else return None. Never waits."""
        ...

    async def unlock(self, name: str, holder: str) -> Lock | None:
        """Release a lock at once, if `holder` has it, and return it."""
        ...


class Locks(Protocol):
    """Named advisory locks: a holder that was suspended and continues later may have lost its lock without notice.

    So a guarded effect must carry the lock's fence, and the place where it happens must refuse a smaller one.
    """

    async def lock(self, name: str, holder: str, lasting: timedelta) -> Lock | None:
        """Take or keep a lock if no other holder has it; else return None. Never waits.

        Its fence is greater than that of every earlier holder. The same holder keeps lock, fence and `since`: so it
        renews the lock by calling this again. A holder that comes back after its lock lapsed may get a greater fence.
        """
        ...

    async def unlock(self, name: str, holder: str | None) -> Lock | None:
        """Release a lock at once, if `holder` has it (None: any holder), and return the lock that was released."""
        ...

    async def locks(self) -> Sequence[Lock]:
        """Return the locks that are held, by name."""
        ...


class SharedConfiguration(Protocol):
    """Settings that all running processes follow."""

    async def configuration(self) -> Configuration:
        """Read it."""
        ...

    async def configure(self, key: str, value: str | None) -> None:
        """Set a key, or delete it (None). Concurrent changes of different keys are all kept."""
        ...

    async def changed(self, since: Configuration, at_most: timedelta) -> Configuration:
        """Wait until the configuration differs from `since`, at most for a while, and return it."""
        ...


class Coordinator(Election, MemberRegistry, Locks, SharedConfiguration, Protocol):
    """The whole port, as an adapter implements it."""

    #: Its name in logs and on status pages.
    name: str

    async def close(self) -> None:
        """Close the connection. Leads, locks and records expire by themselves."""
        ...
