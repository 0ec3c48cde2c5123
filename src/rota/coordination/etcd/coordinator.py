"""Who leads, who is alive, locks and configuration, in etcd.

**Holding.** A lead or lock is a key whose value is its holder, and which hangs on a lease. The lease is kept by asking
again; when nobody does, etcd deletes the key. It is taken by a transaction that writes the key only if it is not there,
so two never have it. The revision at which the key was made is the term and the fence: etcd never gives one twice.

States of a holder: without a lease -> granted -> holding -> (kept ...) -> lost, resigned, or dead.

**Clocks.** Only etcd's decides when a lease has run out. The holder counts from before it asked (see the port), and
the keeping comes before the look: what is seen to be ours was ours for a whole lease from then.

**What dies.** We, after a grant: the lease runs out, nothing hangs on it. We, as a holder: the key is gone a lease
later. A node: the next answers within the same call. The answer to a transaction: asked again, it finds the key ours
by its lease. Etcd's leader: leases last anew with the next one; a lead may last longer than it should, never shorter.

**Room.** Every write stays in etcd's history until it is compacted. So a member is written when it comes or says
something new, and its load at most once a minute; keeping a lease writes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from rota.coordination.etcd.gateway import PATIENCE_SECONDS, Gateway
from rota.coordination.etcd.keys import Entry, Keys
from rota.coordination.etcd.location import Location
from rota.core.configuration import Configuration
from rota.core.errors import CoordinatorUnavailable
from rota.core.fleet import ALIVE_FOR, Leadership, Lock, Member, Role

#: How often a member's load is written.
LOAD_EVERY_SECONDS: Final = 60.0
_ROUNDS: Final = 3
#: How many leases are asked about at once when the roll is called.
_AT_ONCE: Final = 20
_log = logging.getLogger("rota.coordination")


@dataclass(frozen=True, slots=True)
class _Record:
    """A member as we last wrote it, on which lease, and when."""

    member: Member
    lease: int
    at: float


class EtcdCoordinator:
    """Coordinates those who share an etcd and a prefix."""

    name = "etcd"
    enlists_in_store = False
    check_in: None = None

    def __init__(
        self, location: Location, *, alive_for: timedelta = ALIVE_FOR, patience: float = PATIENCE_SECONDS
    ) -> None:
        self._keys = Keys(Gateway(location, patience=patience))
        self._prefix = location.prefix
        self._alive_for = alive_for
        self._leases: dict[tuple[str, str], int] = {}
        self._records: dict[str, _Record] = {}

    async def campaign(self, name: str, holder: str, lasting: timedelta) -> Leadership:
        """Take or keep the lead if nobody else holds it, and say who leads."""
        return _leadership(name, await self._take(self._key("leads", name), holder, lasting), lasting)

    async def leader(self, name: str) -> Leadership | None:
        """Say who leads, if anybody does."""
        found = await self._keys.get(self._key("leads", name))
        return None if found is None else _leadership(name, found, timedelta(0))

    async def resign(self, name: str, holder: str) -> None:
        """Give the lead up."""
        await self._let_go(self._key("leads", name), holder)

    async def lock(self, name: str, holder: str, lasting: timedelta) -> Lock | None:
        """Take or keep a lock if nobody else holds it."""
        found = await self._take(self._key("locks", name), holder, lasting)
        return Lock(name, holder, found.created) if found.value == holder else None

    async def unlock(self, name: str, holder: str) -> None:
        """Give a lock back."""
        await self._let_go(self._key("locks", name), holder)

    async def enlist(self, members: Sequence[Member]) -> None:
        """Record that processes are alive."""
        for member in members:
            await self._enlist(member)

    async def dismiss(self, boots: Iterable[str]) -> None:
        """Forget processes that said goodbye."""
        for boot in boots:
            record = self._records.pop(boot, None)
            await self._keys.delete(self._key("members", boot))
            if record is not None:
                await self._keys.revoke(record.lease)

    async def roll(self, role: Role | None = None) -> Sequence[Member]:
        """Give the processes that are alive."""
        page = await self._keys.under(self._key("members", ""))
        members = [(entry, member) for entry in page.entries if (member := _member(entry)) is not None]
        found = [(entry, member) for entry, member in members if role in (None, member.role)]
        turns = asyncio.Semaphore(_AT_ONCE)
        seen = await asyncio.gather(*(self._seen(entry, member, turns) for entry, member in found))
        return sorted(seen, key=lambda member: (member.name, member.role, member.boot))

    async def _seen(self, entry: Entry, member: Member, turns: asyncio.Semaphore) -> Member:
        """Give a member with when it was last heard of: it keeps its lease, and seldom writes."""
        async with turns:
            age = await self._keys.age(entry.lease)
        if age is None or member.seen_at is None:
            return member
        return replace(member, seen_at=max(member.seen_at, datetime.now(UTC) - age))

    async def configuration(self) -> Configuration:
        """Read the configuration."""
        prefix = self._key("configuration", "")
        page = await self._keys.under(prefix)
        return Configuration({entry.key.removeprefix(prefix): entry.value for entry in page.entries}, page.revision)

    async def configure(self, key: str, value: str | None) -> None:
        """Set a key, or forget it."""
        place = self._key("configuration", key)
        await (self._keys.delete(place) if value is None else self._keys.put(place, value))

    async def changed(self, since: Configuration, at_most: timedelta) -> Configuration:
        """Watch until the configuration is another. A node that falls silent ends the watch, not the answer."""
        with suppress(TimeoutError, CoordinatorUnavailable):
            async with asyncio.timeout(at_most.total_seconds()):
                await self._keys.wait(self._key("configuration", ""), since.revision)
        return await self.configuration()

    async def close(self) -> None:
        """Let go of the connections."""
        await self._keys.close()

    def _key(self, family: str, name: str) -> str:
        return f"{self._prefix}/{family}/{name}"

    async def _take(self, key: str, holder: str, lasting: timedelta) -> Entry:
        lease = await self._kept(key, holder)
        for _ in range(_ROUNDS):
            found = await self._keys.get(key)
            if found is not None and (found.value != holder or found.lease == lease):
                break
            # It is free, or ours by a lease that we know nothing of: the answer was lost, or it was a former life.
            lease = lease or await self._keys.grant(lasting)
            found = await self._keys.take(key, holder, lease, found)
            if found is not None:
                break
        if found is None:
            raise CoordinatorUnavailable(f"etcd: {key} keeps coming and going; try again")
        await self._remember(key, holder, lease, is_held=found.value == holder and found.lease == lease)
        return found

    async def _kept(self, key: str, holder: str) -> int:
        """Keep the lease of what we hold, and give it; nought when there is none, or it has run out."""
        lease = self._leases.get((key, holder), 0)
        return lease if lease and await self._keys.keep(lease) else 0

    async def _remember(self, key: str, holder: str, lease: int, *, is_held: bool) -> None:
        self._leases.pop((key, holder), None)
        if is_held:
            self._leases[key, holder] = lease
        elif lease:
            await self._keys.revoke(lease)

    async def _let_go(self, key: str, holder: str) -> None:
        await self._keys.drop(key, holder)
        lease = self._leases.pop((key, holder), 0)
        if lease:
            await self._keys.revoke(lease)

    async def _enlist(self, member: Member) -> None:
        record = self._records.get(member.boot)
        lease = record.lease if record is not None and await self._keys.keep(record.lease) else 0
        now = time.monotonic()
        if record is not None and lease and _says_nothing_new(record, member, now):
            return
        lease = lease or await self._keys.grant(self._alive_for)
        told = msgspec.json.encode(replace(member, seen_at=datetime.now(UTC))).decode()
        await self._keys.put(self._key("members", member.boot), told, lease)
        self._records[member.boot] = _Record(member, lease, now)


def _says_nothing_new(record: _Record, member: Member, now: float) -> bool:
    """Say whether all but the load is as it was written, and the load was written lately."""
    is_same = replace(record.member, busy=member.busy) == member
    return is_same and (record.member.busy == member.busy or now - record.at < LOAD_EVERY_SECONDS)


def _member(entry: Entry) -> Member | None:
    try:
        return msgspec.json.decode(entry.value, type=Member)
    except msgspec.MsgspecError as error:
        # Someone else's, or another release's: one that cannot be read must not hide the others.
        _log.warning("%s is no member that this release can read: %s", entry.key, error)
        return None


def _leadership(name: str, entry: Entry, lasting: timedelta) -> Leadership:
    return Leadership(name, entry.value, entry.created, datetime.now(UTC) + lasting)
