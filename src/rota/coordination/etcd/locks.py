"""Named locks in etcd.

A lock is a key attached to an etcd lease; its value names the holder, since when it holds the lock, and for how long
the lease was granted. The revision at which the key was created is the fence. All of it is in etcd: a lock can be
renewed and released through any process, as API processes do for holders that come over HTTP.

To renew, the lease is renewed and then the key is read again: a key that still has this lease then is held for a whole
lease from before the call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from rota.coordination.etcd.keys import EtcdEntry, EtcdKeys
from rota.core.cluster import Lock
from rota.core.errors import CoordinatorUnavailable

_MOST_TRIES: Final = 3
#: How many leases are read at once to list the locks.
_AT_ONCE: Final = 20
_log = logging.getLogger("rota.coordination")


class LockValue(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a lock's key."""

    holder: str
    since: datetime
    hold_seconds: float


class EtcdLocks:
    """Takes, releases and lists the locks under a prefix."""

    def __init__(self, keys: EtcdKeys, prefix: str) -> None:
        self._keys = keys
        self._prefix = prefix

    async def take(self, name: str, holder: str, lasting: timedelta) -> Lock | None:
        """Take a lock, or renew it; None if another holder has it."""
        key = self._prefix + name
        for _ in range(_MOST_TRIES):
            entry = await self._keys.get(key)
            value = None if entry is None else _value(entry)
            if value is not None and value.holder != holder:
                return None
            if entry is not None and value is not None and value.hold_seconds == lasting.total_seconds():
                entry = await self._renewed(entry)
            else:
                since = datetime.now(UTC) if value is None else value.since
                new = LockValue(holder=holder, since=since, hold_seconds=lasting.total_seconds())
                entry = await self._written(key, new, entry)
            if entry is not None:
                lock = _lock(name, entry, _value(entry), lasting)
                return lock if lock.holder == holder else None
        raise CoordinatorUnavailable(f"etcd: {key} is taken and released again and again; try again")

    async def release(self, name: str, holder: str | None) -> Lock | None:
        """Delete the key of a lock, and its lease, unless the lock has another holder."""
        entry = await self._keys.get(self._prefix + name)
        if entry is None or holder not in (None, _value(entry).holder):
            return None
        await self._keys.drop(entry.key, entry.value)
        await self._keys.revoke(entry.lease)
        return _lock(name, entry, _value(entry), timedelta(0))

    async def held(self) -> Sequence[Lock]:
        page = await self._keys.under(self._prefix)
        turns = asyncio.Semaphore(_AT_ONCE)
        listed = await asyncio.gather(*(self._listed(entry, turns) for entry in page.entries))
        return sorted((lock for lock in listed if lock is not None), key=lambda lock: lock.name)

    async def _renewed(self, entry: EtcdEntry) -> EtcdEntry | None:
        """Renew the lease of a lock, and give the key as it is then; None if it is gone."""
        if not await self._keys.renew(entry.lease):
            return None
        again = await self._keys.get(entry.key)
        return again if again is not None and again.lease == entry.lease else None

    async def _written(self, key: str, value: LockValue, over: EtcdEntry | None) -> EtcdEntry | None:
        """Write a lock under a new lease, if its key is unchanged; give the key as it is then."""
        lease = await self._keys.grant(timedelta(seconds=value.hold_seconds))
        entry = await self._keys.take(key, msgspec.json.encode(value).decode(), lease, over)
        if entry is None or entry.lease != lease:
            await self._keys.revoke(lease)
        return entry

    async def _listed(self, entry: EtcdEntry, turns: asyncio.Semaphore) -> Lock | None:
        async with turns:
            left = await self._keys.left(entry.lease)
        return None if left is None else _lock(entry.key.removeprefix(self._prefix), entry, _value(entry), left)


def _value(entry: EtcdEntry) -> LockValue:
    """Read a lock's value; one of another program or release is held by an unknown holder."""
    try:
        return msgspec.json.decode(entry.value, type=LockValue)
    except msgspec.MsgspecError as error:
        _log.warning("%s is not a lock that this release can read: %s", entry.key, error)
        return LockValue(holder="unknown", since=datetime.now(UTC), hold_seconds=0)


def _lock(name: str, entry: EtcdEntry, value: LockValue, left: timedelta) -> Lock:
    return Lock(name, value.holder, entry.created, value.since, datetime.now(UTC) + left)
