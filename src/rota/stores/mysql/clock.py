"""The server's clock, which is the store's: one for all who share it.

Asked at every call it would cost every call a round trip. So it is asked once a second, and in between our monotonic
clock counts on: no step of our wall clock matters, and a step of the server's is followed within the second. What we
tell is late by at most the time of the answer's way; an answer that took long is used once and not counted on. Some
questions ask for the time as well: who is idle asks nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from rota.stores.mysql.driver import Connection
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row

TRUSTED_SECONDS: Final = 1.0
LONGEST_WAY_SECONDS: Final = 0.005


class ServerClock:
    """Tells the server's time in microseconds."""

    def __init__(self) -> None:
        self._asked_at = float("-inf")
        self._told = 0

    @property
    def is_fresh(self) -> bool:
        """Whether the time can be told without asking."""
        return time.monotonic() - self._asked_at < TRUSTED_SECONDS

    async def tell(self, connection: Connection) -> int:
        """Tell the time, asking the server if need be."""
        begun = time.monotonic()
        if begun - self._asked_at < TRUSTED_SECONDS:
            return self._told + int((begun - self._asked_at) * 1_000_000)
        (now,) = await self.ask(connection, statement("clock"))
        return int(now)

    async def ask(self, connection: Connection, sql: str, parameters: Mapping[str, Any] | None = None) -> Row:
        """Ask a question whose answer is one row that begins with the time, and count on from that."""
        begun = time.monotonic()
        (row,) = await connection.rows(sql, parameters)
        ended = time.monotonic()
        if ended - begun < LONGEST_WAY_SECONDS:
            # Counted from the end: what we tell later is then never ahead of the server.
            self._asked_at, self._told = ended, int(row[0])
        return row
