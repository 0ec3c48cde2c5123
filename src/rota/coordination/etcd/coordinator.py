"""The coordinator on etcd: leadership, membership, locks and shared configuration.

**Leads.** A lead is a key whose value is its holder, attached to an etcd lease. The holder renews the lease; if it does
not, etcd deletes the key. The key is taken by a transaction that writes it only if it does not exist, so there are
never two holders. The revision at which the key was created is the term: etcd never gives one twice. For locks, see
`locks`.

States of a holder: without a lease -> granted -> holding -> (renewed ...) -> lost, resigned, or dead.

**Clocks.** Only etcd's clock decides when a lease lapses. The holder counts from before its request (see the port), and
renews before it reads: a key that it reads as its own was its own for a whole lease from then.

**Failures.** This process dies after a grant: the lease lapses, no key is attached to it. It dies as a holder: the key
is gone one lease later. A node dies: the next one answers within the same call. The response to a transaction is lost:
the repeated call recognises the key by its lease. Etcd's leader dies: all leases begin anew with the next one; a lead
may last longer than it should, never shorter.

**Space.** Every write stays in etcd's history until it is compacted. So a member is written when it is new or has
changed, and its load at most once a minute; renewing a lease writes nothing.
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

from rota.coordination.etcd.gateway import CALL_SECONDS, EtcdGateway
from rota.coordination.etcd.keys import EtcdEntry, EtcdKeys
from rota.coordination.etcd.location import EtcdLocation
from rota.coordination.etcd.locks import EtcdLocks
from rota.core.cluster import ALIVE_FOR, Leadership, Lock, Member, Role
from rota.core.configuration import Configuration
from rota.core.errors import CoordinatorUnavailable

#: How often a member's load is written.
LOAD_EVERY_SECONDS: Final = 60.0
_MOST_TRIES: Final = 3
#: How many leases are read at once to list the members.
_AT_ONCE: Final = 20
_log = logging.getLogger("rota.coordination")


@dataclass(frozen=True, slots=True)
class _Record:
    """A member as last written, its lease, and when."""

    member: Member
    lease: int
    at: float


class EtcdCoordinator:
    """Coordinates the processes that share an etcd and a prefix."""

    name = "etcd"
    keeps_members_in_store = False
    check_in: None = None

    def __init__(
        self, location: EtcdLocation, *, alive_for: timedelta = ALIVE_FOR, timeout: float = CALL_SECONDS
    ) -> None:
        self._keys = EtcdKeys(EtcdGateway(location, timeout=timeout))
        self._prefix = location.prefix
        self._locks = EtcdLocks(self._keys, self._key("locks", ""))
        self._alive_for = alive_for
        self._leases: dict[tuple[str, str], int] = {}
        self._records: dict[str, _Record] = {}

    async def campaign(self, name: str, holder: str, lasting: timedelta) -> Leadership:
        return _leadership(name, await self._take(self._key("leads", name), holder, lasting), lasting)

    async def leader(self, name: str) -> Leadership | None:
        entry = await self._keys.get(self._key("leads", name))
        return None if entry is None else _leadership(name, entry, timedelta(0))

    async def resign(self, name: str, holder: str) -> None:
        await self._release(self._key("leads", name), holder)

    async def lock(self, name: str, holder: str, lasting: timedelta) -> Lock | None:
        return await self._locks.take(name, holder, lasting)

    async def unlock(self, name: str, holder: str | None) -> Lock | None:
        return await self._locks.release(name, holder)

    async def locks(self) -> Sequence[Lock]:
        return await self._locks.held()

    async def register(self, members: Sequence[Member]) -> None:
        for member in members:
            await self._enlist(member)

    async def deregister(self, boots: Iterable[str]) -> None:
        for boot in boots:
            record = self._records.pop(boot, None)
            await self._keys.delete(self._key("members", boot))
            if record is not None:
                await self._keys.revoke(record.lease)

    async def members(self, role: Role | None = None) -> Sequence[Member]:
        page = await self._keys.under(self._key("members", ""))
        members = [(entry, member) for entry in page.entries if (member := _member(entry)) is not None]
        chosen = [(entry, member) for entry, member in members if role in (None, member.role)]
        turns = asyncio.Semaphore(_AT_ONCE)
        seen = await asyncio.gather(*(self._seen(entry, member, turns) for entry, member in chosen))
        return sorted(seen, key=lambda member: (member.name, member.role, member.boot))

    async def _seen(self, entry: EtcdEntry, member: Member, turns: asyncio.Semaphore) -> Member:
        """Set `seen_at` from the age of the member's lease: it is renewed often, the key seldom written."""
        async with turns:
            age = await self._keys.age(entry.lease)
        if age is None or member.seen_at is None:
            return member
        return replace(member, seen_at=max(member.seen_at, datetime.now(UTC) - age))

    async def configuration(self) -> Configuration:
        prefix = self._key("configuration", "")
        page = await self._keys.under(prefix)
        return Configuration({entry.key.removeprefix(prefix): entry.value for entry in page.entries}, page.revision)

    async def configure(self, key: str, value: str | None) -> None:
        place = self._key("configuration", key)
        await (self._keys.delete(place) if value is None else self._keys.put(place, value))

    async def changed(self, since: Configuration, at_most: timedelta) -> Configuration:
        """Watch until the configuration changes. If a node fails, the watch ends and the configuration is read."""
        with suppress(TimeoutError, CoordinatorUnavailable):
            async with asyncio.timeout(at_most.total_seconds()):
                await self._keys.wait(self._key("configuration", ""), since.revision)
        return await self.configuration()

    async def close(self) -> None:
        await self._keys.close()

    def _key(self, family: str, name: str) -> str:
        return f"{self._prefix}/{family}/{name}"

    async def _take(self, key: str, holder: str, lasting: timedelta) -> EtcdEntry:
        lease = await self._renewed_lease(key, holder)
        for _ in range(_MOST_TRIES):
            entry = await self._keys.get(key)
            if entry is not None and (entry.value != holder or entry.lease == lease):
                break
            # It is free, or ours under an unknown lease: a response was lost, or this process was restarted.
            lease = lease or await self._keys.grant(lasting)
            entry = await self._keys.take(key, holder, lease, entry)
            if entry is not None:
                break
        if entry is None:
            raise CoordinatorUnavailable(f"etcd: {key} is taken and released again and again; try again")
        await self._remember(key, holder, lease, is_held=entry.value == holder and entry.lease == lease)
        return entry

    async def _renewed_lease(self, key: str, holder: str) -> int:
        """Renew the lease of a key that this holder has, and give it; 0 without one, or if it lapsed."""
        lease = self._leases.get((key, holder), 0)
        return lease if lease and await self._keys.renew(lease) else 0

    async def _remember(self, key: str, holder: str, lease: int, *, is_held: bool) -> None:
        self._leases.pop((key, holder), None)
        if is_held:
            self._leases[key, holder] = lease
        elif lease:
            await self._keys.revoke(lease)

    async def _release(self, key: str, holder: str) -> None:
        await self._keys.drop(key, holder)
        lease = self._leases.pop((key, holder), 0)
        if lease:
            await self._keys.revoke(lease)

    async def _enlist(self, member: Member) -> None:
        record = self._records.get(member.boot)
        lease = record.lease if record is not None and await self._keys.renew(record.lease) else 0
        now = time.monotonic()
        if record is not None and lease and _is_unchanged(record, member, now):
            return
        lease = lease or await self._keys.grant(self._alive_for)
        text = msgspec.json.encode(replace(member, seen_at=datetime.now(UTC))).decode()
        await self._keys.put(self._key("members", member.boot), text, lease)
        self._records[member.boot] = _Record(member, lease, now)


def _is_unchanged(record: _Record, member: Member, now: float) -> bool:
    """Whether a member is as it was written, except a load that was written lately."""
    is_same = replace(record.member, busy=member.busy) == member
    return is_same and (record.member.busy == member.busy or now - record.at < LOAD_EVERY_SECONDS)


def _member(entry: EtcdEntry) -> Member | None:
    try:
        return msgspec.json.decode(entry.value, type=Member)
    except msgspec.MsgspecError as error:
        # Of another program or release: it must not hide the other members.
        _log.warning("%s is not a member that this release can read: %s", entry.key, error)
        return None


def _leadership(name: str, entry: EtcdEntry, lasting: timedelta) -> Leadership:
    return Leadership(name, entry.value, entry.created, datetime.now(UTC) + lasting)
