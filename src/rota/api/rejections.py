"""Rejected requests and connections: each is counted for `/metrics`, and logged at most once a minute per reason.

A stranger can make a server reject thousands of requests a second. One log line for each would fill the disk, and none
would hide an attack. The first one of a reason is logged at once; those of the next minute are logged as one number.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Final

from rota.telemetry import catalogue
from rota.telemetry.tallies import Counts

LOG_EVERY_SECONDS: Final = 60.0
#: Shown from the start: an alert on what never happened needs its zero.
_REASONS: Final = (
    "unauthorized", "invalid_http", "headers_too_large", "too_slow", "write_timeout", "too_many_connections",
    "too_many_bytes", "too_many_requests",
)  # fmt: skip
_log = logging.getLogger("rota.api")


class Rejections:
    """Counts rejections by reason; a reason is the `code` of the answer."""

    def __init__(self) -> None:
        self.counts = Counts(catalogue.HTTP_REJECTED)
        for reason in _REASONS:
            self.counts.add((reason,), 0)
        #: Rejections since the last log line, by reason; a reason is in here while its minute runs.
        self._unlogged: Counter[str] = Counter()
        self._last_source: dict[str, str] = {}

    def add(self, reason: str, source: str) -> None:
        """Count a rejection, and log it if none of this reason was logged in the last minute."""
        self.counts.add((reason,))
        self._last_source[reason] = source
        if reason in self._unlogged:
            self._unlogged[reason] += 1
            return
        _log.warning("rejected a request: %s (from %s)", reason, source)
        self._begin_minute(reason)

    def _begin_minute(self, reason: str) -> None:
        self._unlogged[reason] = 0
        asyncio.get_running_loop().call_later(LOG_EVERY_SECONDS, self._end_minute, reason)

    def _end_minute(self, reason: str) -> None:
        count = self._unlogged.pop(reason)
        if count:
            seconds, source = LOG_EVERY_SECONDS, self._last_source[reason]
            _log.warning("rejected %d requests in %.0f s: %s (last from %s)", count, seconds, reason, source)
            self._begin_minute(reason)
