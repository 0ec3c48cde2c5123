"""The server's clock, which is the store's clock: one for all processes.

Reading it for every call would cost every call a round trip. So it is read once a second, and in between our monotonic
clock counts on: a step of our wall clock does not matter, and a step of the server's is followed within the second. The
time is late by at most the round trip; an answer that took long is used once and not counted on. Some queries read the
time as well, so an idle process needs no query for it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from rota.stores.mysql.driver import MysqlConnection
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row

TRUSTED_SECONDS: Final = 1.0
MAX_ROUND_TRIP_SECONDS: Final = 0.005


class ServerClock:
    """The server's time in microseconds since 1970."""

    def __init__(self) -> None:
        self._read_at = float("-inf")
        self._last_read = 0

    @property
    def is_fresh(self) -> bool:
        """Whether the time is known without a query."""
        return time.monotonic() - self._read_at < TRUSTED_SECONDS

    async def now(self, connection: MysqlConnection) -> int:
        began = time.monotonic()
        if began - self._read_at < TRUSTED_SECONDS:
            return self._last_read + int((began - self._read_at) * 1_000_000)
        (now,) = await self.query(connection, statement("server_time"))
        return int(now)

    async def query(self, connection: MysqlConnection, sql: str, parameters: Mapping[str, Any] | None = None) -> Row:
        """Run a query that yields one row beginning with the server time, and count on from that time."""
        began = time.monotonic()
        (row,) = await connection.rows(sql, parameters)
        ended = time.monotonic()
        if ended - began < MAX_ROUND_TRIP_SECONDS:
            # Counted from the end: the time is then never ahead of the server.
            self._read_at, self._last_read = ended, int(row[0])
        return row
