"""Keys and leases: the few things that we ask of etcd, each safe to ask twice."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import Any, Self

from rota.coordination.etcd.gateway import FAILED_PRECONDITION, EtcdRefused, Gateway, decoded, encoded
from rota.core.errors import CoordinatorUnavailable


@dataclass(frozen=True, slots=True)
class Entry:
    """A key that is there: its value, the lease it hangs on, and when it was made and last written."""

    key: str
    value: str
    lease: int
    created: int
    modified: int

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        """Read one as the gateway tells it: numbers are text, and what is nought is left out."""
        numbers = (int(told.get(name, 0)) for name in ("lease", "create_revision", "mod_revision"))
        return cls(decoded(told["key"]), decoded(told.get("value", "")), *numbers)


@dataclass(frozen=True, slots=True)
class Page:
    """The keys under a prefix, at one revision of all of etcd."""

    entries: Sequence[Entry]
    revision: int


class Keys:
    """Reads and writes keys, and keeps leases."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def get(self, key: str) -> Entry | None:
        """Read a key."""
        return _first(await self._gateway.call("/v3/kv/range", {"key": encoded(key)}))

    async def under(self, prefix: str) -> Page:
        """Read all keys under a prefix, which ends in a slash."""
        told = await self._gateway.call("/v3/kv/range", {"key": encoded(prefix), "range_end": behind(prefix)})
        return Page([Entry.of(one) for one in told.get("kvs", ())], int(told["header"]["revision"]))

    async def put(self, key: str, value: str, lease: int = 0) -> None:
        """Write a key."""
        await self._gateway.call("/v3/kv/put", {"key": encoded(key), "value": encoded(value), "lease": str(lease)})

    async def take(self, key: str, value: str, lease: int, over: Entry | None) -> Entry | None:
        """Write a key if it is as it was read (None: not there), and give it as it is then."""
        here = {"key": encoded(key)}
        if over is None:
            compare = {**here, "target": "CREATE", "result": "EQUAL", "create_revision": "0"}
        else:
            compare = {**here, "target": "MOD", "result": "EQUAL", "mod_revision": str(over.modified)}
        look = {"request_range": here}
        write = {"request_put": {**here, "value": encoded(value), "lease": str(lease)}}
        body = {"compare": [compare], "success": [write, look], "failure": [look]}
        told = await self._gateway.call("/v3/kv/txn", body)
        return _first(told["responses"][-1]["response_range"])

    async def drop(self, key: str, value: str) -> None:
        """Delete a key if it has this value."""
        here = {"key": encoded(key)}
        compare = {**here, "target": "VALUE", "result": "EQUAL", "value": encoded(value)}
        await self._gateway.call(
            "/v3/kv/txn", {"compare": [compare], "success": [{"request_delete_range": here}], "failure": []}
        )

    async def delete(self, key: str) -> None:
        """Delete a key."""
        await self._gateway.call("/v3/kv/deleterange", {"key": encoded(key)})

    async def grant(self, lasting: timedelta) -> int:
        """Make a lease. We choose its number: asked twice, because an answer was lost, it is one lease."""
        lease = secrets.randbits(62) + 1
        seconds = max(ceil(lasting.total_seconds()), 1)
        try:
            await self._gateway.call("/v3/lease/grant", {"ID": str(lease), "TTL": str(seconds)})
        except EtcdRefused as refusal:
            if refusal.code != FAILED_PRECONDITION:
                raise
        return lease

    async def keep(self, lease: int) -> bool:
        """Make a lease last anew; False if it has run out."""
        told = await self._gateway.call("/v3/lease/keepalive", {"ID": str(lease)})
        return int(told.get("TTL", 0)) > 0

    async def age(self, lease: int) -> timedelta | None:
        """Say how long ago a lease was granted or last kept, to the second; None if it has run out."""
        told = await self._gateway.call("/v3/lease/timetolive", {"ID": str(lease)})
        left = int(told.get("TTL", 0))
        return timedelta(seconds=max(int(told.get("grantedTTL", 0)) - left, 0)) if left > 0 else None

    async def revoke(self, lease: int) -> None:
        """End a lease, and the keys that hang on it. If that cannot be done, it runs out by itself."""
        with suppress(CoordinatorUnavailable):
            await self._gateway.call("/v3/lease/revoke", {"ID": str(lease)})

    async def wait(self, prefix: str, since: int) -> None:
        """Wait until something under a prefix has changed after a revision, or nobody can tell any more."""
        wanted = {"key": encoded(prefix), "range_end": behind(prefix), "start_revision": str(since + 1)}
        async with aclosing(self._gateway.listen("/v3/watch", {"create_request": wanted})) as news:
            async for told in news:
                # Cancelled: what happened since was compacted away, and something may have.
                if told.get("events") or told.get("canceled"):
                    return

    async def close(self) -> None:
        """Let go of the connections."""
        await self._gateway.close()


def behind(prefix: str) -> str:
    """Give the end of the range of keys that begin with a prefix."""
    return encoded(prefix[:-1] + chr(ord(prefix[-1]) + 1))


def _first(told: Mapping[str, Any]) -> Entry | None:
    found = told.get("kvs", ())
    return Entry.of(found[0]) if found else None
