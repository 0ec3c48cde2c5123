"""Registry of a server's open connections: limits on their number and on the bytes they hold.

At the limit the server does not refuse new connections: it closes those that have waited longest for their caller,
first the ones that never sent a valid token. A connection whose request is being answered is never closed for this;
if all are, the new one is refused. IPv6 addresses are counted by /64, since one caller usually owns a whole /64.

Bytes are limited per process in both directions. Incoming: parts of unfinished requests, and bodies too large for one
small read, until their request is answered. Outgoing: responses that their callers do not read. At the limit the
oldest of them is closed.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterable
from heapq import nsmallest
from typing import Final, Protocol

from rota.api.errors import HttpError
from rota.api.settings import Limits

TOO_MANY_CONNECTIONS: Final = HttpError(429, "too_many_connections", "too many connections are open")
TOO_MANY_BYTES: Final = HttpError(429, "too_many_bytes", "the bodies of all requests together are too large just now")
#: At the limit one connection in this many is closed at once, so that a flood does not cause a search for each one.
_SHARE: Final = 40
_MAPPED: Final = bytes(10) + b"\xff\xff"


class OpenConnection(Protocol):
    """What the registry needs of a connection."""

    source: str
    is_authenticated: bool
    held_bytes: int

    @property
    def waiting_since(self) -> float | None:
        """When the server began to wait for the caller; None while it does not."""
        ...

    @property
    def unsent_bytes(self) -> int:
        """How much of its responses the system has not taken."""
        ...

    def evict(self, error: HttpError) -> None:
        """Close at once; send the error if the caller waits for a response."""
        ...

    def abort(self, reason: str) -> None:
        """Close at once and drop what was not sent."""
        ...


class ConnectionRegistry:
    """All open connections of a server."""

    def __init__(self, limits: Limits, most: int, most_from_one: int) -> None:
        self._limits = limits
        self._most = most
        self._most_from_one = most_from_one
        self._open: set[OpenConnection] = set()
        self._sources: Counter[str] = Counter()
        #: Connections that do not read, in the order in which they stopped.
        self._unread: dict[OpenConnection, None] = {}
        self.incoming_bytes = 0

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, connection: OpenConnection) -> bool:
        """Count a new connection, and close others at the limit; say whether there is room."""
        source = connection.source
        has_room = True
        if self._sources[source] >= self._most_from_one:
            has_room = self._evict([one for one in self._open if one.source == source], TOO_MANY_CONNECTIONS)
        if len(self._open) >= self._most:
            has_room = has_room and self._evict(self._open, TOO_MANY_CONNECTIONS)
        self._open.add(connection)
        self._sources[source] += 1
        return has_room

    def leave(self, connection: OpenConnection) -> None:
        """Remove a connection; a second call has no effect."""
        if connection not in self._open:
            return
        self._open.discard(connection)
        self._unread.pop(connection, None)
        self.release(connection)
        self._sources[connection.source] -= 1
        if not self._sources[connection.source]:
            del self._sources[connection.source]

    def hold(self, connection: OpenConnection, size: int) -> bool:
        """Count bytes of a request that is not answered yet; say whether they are within the limit."""
        connection.held_bytes += size
        self.incoming_bytes += size
        while self.incoming_bytes > self._limits.incoming_bytes:
            holders = [one for one in self._open if one.held_bytes and one is not connection]
            if not self._evict(holders, TOO_MANY_BYTES):
                return False
        return True

    def release(self, connection: OpenConnection) -> None:
        """Subtract the bytes of answered requests."""
        self.incoming_bytes -= connection.held_bytes
        connection.held_bytes = 0

    def begin_unread(self, connection: OpenConnection) -> None:
        """Note that a caller does not read; above the limit, abort those that have not read for longest."""
        self._unread[connection] = None
        total = sum(one.unsent_bytes for one in self._unread)
        for one in tuple(self._unread):
            if total <= self._limits.outgoing_bytes or one is connection:
                return
            total -= one.unsent_bytes
            one.abort(TOO_MANY_BYTES.code)

    def end_unread(self, connection: OpenConnection) -> None:
        self._unread.pop(connection, None)

    def _evict(self, candidates: Iterable[OpenConnection], error: HttpError) -> bool:
        """Close some of those that have waited longest for their caller; say whether there were any."""
        waiting = [(one.is_authenticated, one.waiting_since, id(one), one) for one in candidates]
        oldest = nsmallest(max(1, len(waiting) // _SHARE), (one for one in waiting if one[1] is not None))
        for *_, one in oldest:
            self.leave(one)
            one.evict(error)
        return bool(oldest)


def client_network(host: str) -> str:
    """Return the network under which connections from an address are counted."""
    if ":" not in host:
        return host
    packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    if packed.startswith(_MAPPED):
        return socket.inet_ntoa(packed[12:])
    return f"{socket.inet_ntop(socket.AF_INET6, packed[:8] + bytes(8))}/64"
