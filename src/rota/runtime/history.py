"""The history writer: adds the counts of this process to the history in the store every few seconds.

Counting happens in a telemetry listener; the store is written by a loop of its own, so a slow or failing store delays
no job. A flush that failed may have been written all the same, so it is repeated unchanged under its number, which the
store adds once; what was counted meanwhile goes with the next number. The age of counts is measured by a monotonic
clock, and the store subtracts it from its own time: a host with a wrong clock counts into the right minute.

A process that is killed loses the counts of its last seconds. One that stops in order writes them.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from rota.core.history import Counted, HistoryFlush, Tally
from rota.core.queue import Lane
from rota.engine import Engine
from rota.telemetry.history import HistoryCounts
from rota.telemetry.outage import Outage

FLUSH_SECONDS: Final = 10.0
#: How long the last counts may take when the process stops.
LAST_FLUSH_SECONDS: Final = 2.0
#: How many spans wait for an unavailable store; beyond that the oldest two are merged.
MOST_WAITING: Final = 120
_log = logging.getLogger("rota.history")


@dataclass(slots=True)
class _Span:
    """Counts of a span of time that ended at `at` by the monotonic clock."""

    at: float
    lanes: Mapping[Lane, Tally]


class HistoryWriter:
    """Counts the events of an engine and writes the counts to its store."""

    def __init__(self, engine: Engine, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = engine.store
        self._clock = clock
        self._counts = HistoryCounts(clock=engine.clock)
        self.stop_listening = engine.telemetry.listen(self._counts.on_event)
        self._writer = secrets.token_hex(8)
        self._number = 0
        self._waiting: list[_Span] = []
        #: What was sent under the current number and is not known to be written.
        self._sent: list[_Span] = []
        self._outage = Outage(_log, "writing the history of counts")

    async def run(self) -> None:
        """Write every few seconds until cancelled, then once more."""
        try:
            while True:
                # With jitter: processes that start together must not write together.
                await asyncio.sleep(FLUSH_SECONDS * random.uniform(0.8, 1))  # noqa: S311 - no secret
                await self.tick()
        finally:
            self.stop_listening()
            await self._write_last()

    async def tick(self) -> int:
        """Write what was counted; return how many spans were written. A failure is logged and repeated later."""
        self._collect()
        try:
            return await self._flush()
        except Exception as error:  # noqa: BLE001 - whatever a driver raises, counting goes on
            self._outage.failed(error, with_traceback=True)
            return 0

    def _collect(self) -> None:
        lanes = self._counts.take()
        if lanes:
            self._waiting.append(_Span(self._clock(), lanes))
        if len(self._waiting) > MOST_WAITING:
            oldest, second = self._waiting[:2]
            self._waiting[:2] = [_Span(second.at, _merged(oldest.lanes, second.lanes))]

    async def _flush(self) -> int:
        written = 0
        while self._sent or self._waiting:
            if not self._sent:
                self._sent, self._waiting = self._waiting, []
                self._number += 1
            now = self._clock()
            counted = [Counted(timedelta(seconds=now - span.at), span.lanes) for span in self._sent]
            await self._store.add_history(HistoryFlush(self._writer, self._number, counted))
            written += len(self._sent)
            self._sent = []
        self._outage.worked()
        return written

    async def _write_last(self) -> None:
        try:
            async with asyncio.timeout(LAST_FLUSH_SECONDS):
                await self.tick()
        except TimeoutError:
            _log.warning("the counts of the last seconds were not written: no answer in time")


def _merged(first: Mapping[Lane, Tally], second: Mapping[Lane, Tally]) -> Mapping[Lane, Tally]:
    merged = dict(second)
    for lane, tally in first.items():
        merged.setdefault(lane, Tally()).add(tally)
    return merged
