"""The open connections of one server: how many, from where, and how many bytes they make the process hold.

At a cap the server does not lock newcomers out: it closes those connections that have waited longest for their caller,
first the ones that never showed a valid token. A connection whose request is being answered is never closed for this;
if all are, the newcomer is refused. IPv6 addresses are counted by /64, since one caller usually owns a whole /64.

Bytes are bounded per process in both directions. Incoming: parts of unfinished requests, and bodies too large for one
small read, until their request is answered. Outgoing: answers that their callers do not read. At the bound the oldest
of them is closed.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterable
from heapq import nsmallest
from typing import Final, Protocol

from rota.api.errors import Refusal
from rota.api.settings import Limits

TOO_MANY_CONNECTIONS: Final = Refusal(429, "too_many_connections", "too many connections are open")
TOO_MANY_BYTES: Final = Refusal(429, "too_many_bytes", "the bodies of all requests together are too large just now")
#: How many connections are closed at once at a cap: one in this many, so that a flood is not searched one by one.
_SHARE: Final = 40
_MAPPED: Final = bytes(10) + b"\xff\xff"


class Connection(Protocol):
    """What must be known of a connection to choose the one to close."""

    source: str
    is_authenticated: bool
    held_bytes: int

    @property
    def waiting_since(self) -> float | None:
        """When the server began to wait for the caller; None while it does not."""
        ...

    @property
    def unsent_bytes(self) -> int:
        """How much of its answers the caller has not taken."""
        ...

    def evict(self, refusal: Refusal) -> None:
        """Close at once, with a word why if the caller waits for an answer."""
        ...

    def abort(self, reason: str) -> None:
        """Close at once and drop what was not sent."""
        ...


class Connections:
    """All open connections of a server."""

    def __init__(self, limits: Limits, most: int, most_from_one: int) -> None:
        self._limits = limits
        self._most = most
        self._most_from_one = most_from_one
        self._open: set[Connection] = set()
        self._sources: Counter[str] = Counter()
        #: In the order in which they stopped reading.
        self._unread: dict[Connection, None] = {}
        self.incoming_bytes = 0

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, connection: Connection) -> bool:
        """Count a new connection, and close others for it at a cap; say whether there is room."""
        source = connection.source
        has_room = True
        if self._sources[source] >= self._most_from_one:
            has_room = self._evict([one for one in self._open if one.source == source], TOO_MANY_CONNECTIONS)
        if len(self._open) >= self._most:
            has_room = has_room and self._evict(self._open, TOO_MANY_CONNECTIONS)
        self._open.add(connection)
        self._sources[source] += 1
        return has_room

    def leave(self, connection: Connection) -> None:
        """Forget a connection; twice is no error."""
        if connection not in self._open:
            return
        self._open.discard(connection)
        self._unread.pop(connection, None)
        self.release(connection)
        self._sources[connection.source] -= 1
        if not self._sources[connection.source]:
            del self._sources[connection.source]

    def hold(self, connection: Connection, size: int) -> bool:
        """Count bytes of a request that is not answered yet; say whether they are within the bound."""
        connection.held_bytes += size
        self.incoming_bytes += size
        while self.incoming_bytes > self._limits.incoming_bytes:
            holders = [one for one in self._open if one.held_bytes and one is not connection]
            if not self._evict(holders, TOO_MANY_BYTES):
                return False
        return True

    def release(self, connection: Connection) -> None:
        """Forget the bytes of requests that were answered."""
        self.incoming_bytes -= connection.held_bytes
        connection.held_bytes = 0

    def begin_unread(self, connection: Connection) -> None:
        """Note that a caller does not take its answer; above the bound, close those that have not for longest."""
        self._unread[connection] = None
        total = sum(one.unsent_bytes for one in self._unread)
        for one in tuple(self._unread):
            if total <= self._limits.outgoing_bytes or one is connection:
                return
            total -= one.unsent_bytes
            one.abort(TOO_MANY_BYTES.code)

    def end_unread(self, connection: Connection) -> None:
        """Note that a caller has taken its answer."""
        self._unread.pop(connection, None)

    def _evict(self, candidates: Iterable[Connection], refusal: Refusal) -> bool:
        """Close some of those that have waited longest for their caller; say whether there was one."""
        waiting = [(one.is_authenticated, one.waiting_since, id(one), one) for one in candidates]
        oldest = nsmallest(max(1, len(waiting) // _SHARE), (one for one in waiting if one[1] is not None))
        for *_, one in oldest:
            self.leave(one)
            one.evict(refusal)
        return bool(oldest)


def source_of(host: str) -> str:
    """Give the name under which connections from an address are counted."""
    if ":" not in host:
        return host
    packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    if packed.startswith(_MAPPED):
        return socket.inet_ntoa(packed[12:])
    return f"{socket.inet_ntop(socket.AF_INET6, packed[:8] + bytes(8))}/64"
