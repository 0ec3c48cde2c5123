"""The server's clock, which is the store's: one for all who share it.

Asked at every call it would cost every call a round trip. So it is asked once a second, and in between our monotonic
clock counts on: no step of our wall clock matters, and a step of the server's is followed within the second. What we
tell is late by at most the time of the answer's way; an answer that took long is used once and not counted on.
"""

from __future__ import annotations

import time
from typing import Final

from rota.stores.mysql.driver import Connection
from rota.stores.mysql.statements import statement

TRUSTED_SECONDS: Final = 1.0
LONGEST_WAY_SECONDS: Final = 0.005


class ServerClock:
    """Tells the server's time in microseconds."""

    def __init__(self) -> None:
        self._asked_at = float("-inf")
        self._told = 0

    async def tell(self, connection: Connection) -> int:
        """Tell the time, asking the server if need be."""
        begun = time.monotonic()
        if begun - self._asked_at < TRUSTED_SECONDS:
            return self._told + int((begun - self._asked_at) * 1_000_000)
        ((now,),) = await connection.rows(statement("clock"))
        ended = time.monotonic()
        if ended - begun < LONGEST_WAY_SECONDS:
            # Counted from the end: what we tell later is then never ahead of the server.
            self._asked_at, self._told = ended, int(now)
        return int(now)
