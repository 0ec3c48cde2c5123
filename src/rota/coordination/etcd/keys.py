"""Keys and leases in etcd: the requests that the coordinator uses, each safe to repeat."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import Any, Self

from rota.coordination.etcd.gateway import FAILED_PRECONDITION, EtcdGateway, EtcdRefused, decoded, encoded
from rota.core.errors import CoordinatorUnavailable


@dataclass(frozen=True, slots=True)
class EtcdEntry:
    """A key with its value, its lease, and the revisions at which it was created and last written."""

    key: str
    value: str
    lease: int
    created: int
    modified: int

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Parse one from the gateway's JSON, where numbers are text and zeros are left out."""
        numbers = (int(record.get(name, 0)) for name in ("lease", "create_revision", "mod_revision"))
        return cls(decoded(record["key"]), decoded(record.get("value", "")), *numbers)


@dataclass(frozen=True, slots=True)
class EtcdPage:
    """The keys under a prefix, at one revision."""

    entries: Sequence[EtcdEntry]
    revision: int


class EtcdKeys:
    """Reads and writes keys, and renews leases."""

    def __init__(self, gateway: EtcdGateway) -> None:
        self._gateway = gateway

    async def get(self, key: str) -> EtcdEntry | None:
        return _first(await self._gateway.call("/v3/kv/range", {"key": encoded(key)}))

    async def under(self, prefix: str) -> EtcdPage:
        """Read all keys under a prefix, which ends in a slash."""
        response = await self._gateway.call("/v3/kv/range", {"key": encoded(prefix), "range_end": range_end(prefix)})
        return EtcdPage([EtcdEntry.of(one) for one in response.get("kvs", ())], int(response["header"]["revision"]))

    async def put(self, key: str, value: str, lease: int = 0) -> None:
        await self._gateway.call("/v3/kv/put", {"key": encoded(key), "value": encoded(value), "lease": str(lease)})

    async def take(self, key: str, value: str, lease: int, over: EtcdEntry | None) -> EtcdEntry | None:
        """Write a key if it is unchanged since it was read (None: absent), and give it as it is then."""
        selector = {"key": encoded(key)}
        if over is None:
            compare = {**selector, "target": "CREATE", "result": "EQUAL", "create_revision": "0"}
        else:
            compare = {**selector, "target": "MOD", "result": "EQUAL", "mod_revision": str(over.modified)}
        look = {"request_range": selector}
        write = {"request_put": {**selector, "value": encoded(value), "lease": str(lease)}}
        body = {"compare": [compare], "success": [write, look], "failure": [look]}
        response = await self._gateway.call("/v3/kv/txn", body)
        return _first(response["responses"][-1]["response_range"])

    async def drop(self, key: str, value: str) -> None:
        """Delete a key if it has this value."""
        selector = {"key": encoded(key)}
        compare = {**selector, "target": "VALUE", "result": "EQUAL", "value": encoded(value)}
        await self._gateway.call(
            "/v3/kv/txn", {"compare": [compare], "success": [{"request_delete_range": selector}], "failure": []}
        )

    async def delete(self, key: str) -> None:
        await self._gateway.call("/v3/kv/deleterange", {"key": encoded(key)})

    async def grant(self, lasting: timedelta) -> int:
        """Grant a lease. Its number is chosen here: if the request is repeated, it is still one lease."""
        lease = secrets.randbits(62) + 1
        seconds = max(ceil(lasting.total_seconds()), 1)
        try:
            await self._gateway.call("/v3/lease/grant", {"ID": str(lease), "TTL": str(seconds)})
        except EtcdRefused as refusal:
            if refusal.code != FAILED_PRECONDITION:
                raise
        return lease

    async def renew(self, lease: int) -> bool:
        """Renew a lease; False if it lapsed."""
        response = await self._gateway.call("/v3/lease/keepalive", {"ID": str(lease)})
        return int(response.get("TTL", 0)) > 0

    async def age(self, lease: int) -> timedelta | None:
        """Return the seconds since a lease was granted or last renewed; None if it lapsed."""
        response = await self._gateway.call("/v3/lease/timetolive", {"ID": str(lease)})
        left = int(response.get("TTL", 0))
        return timedelta(seconds=max(int(response.get("grantedTTL", 0)) - left, 0)) if left > 0 else None

    async def left(self, lease: int) -> timedelta | None:
        """Return the seconds until a lease lapses unless it is renewed; None if it lapsed."""
        response = await self._gateway.call("/v3/lease/timetolive", {"ID": str(lease)})
        left = int(response.get("TTL", 0))
        return timedelta(seconds=left) if left > 0 else None

    async def revoke(self, lease: int) -> None:
        """Revoke a lease and its keys. If that fails, it lapses by itself."""
        with suppress(CoordinatorUnavailable):
            await self._gateway.call("/v3/lease/revoke", {"ID": str(lease)})

    async def wait(self, prefix: str, since: int) -> None:
        """Wait until a key under a prefix changes after a revision, or the watch is cancelled."""
        request = {"key": encoded(prefix), "range_end": range_end(prefix), "start_revision": str(since + 1)}
        async with aclosing(self._gateway.listen("/v3/watch", {"create_request": request})) as responses:
            async for response in responses:
                # Cancelled: the history since then was compacted, and there may have been a change.
                if response.get("events") or response.get("canceled"):
                    return

    async def close(self) -> None:
        await self._gateway.close()


def range_end(prefix: str) -> str:
    """Return the end of the range of keys that begin with a prefix."""
    return encoded(prefix[:-1] + chr(ord(prefix[-1]) + 1))


def _first(response: Mapping[str, Any]) -> EtcdEntry | None:
    entries = response.get("kvs", ())
    return EtcdEntry.of(entries[0]) if entries else None
