"""The dispatcher: keeps a broker's lines filled, and never fuller than that.

It is woken by the store, when there is work, and by the broker, when there is room. Whoever leads dispatches; two at
once do no harm: each takes what the other left. Every now and then it looks whether what is queued still stands in
line, so whatever the broker loses is handed over again within seconds. While the broker is away, all that is queued
is recalled: workers take it from the store itself.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

from rota.core.errors import BrokerUnavailable, RotaError
from rota.core.patience import Patience
from rota.engine import Engine
from rota.ports.broker import Attendance, Line
from rota.ports.clock import Dice
from rota.ports.places import EVERY_QUEUE

_log = logging.getLogger("rota.dispatcher")
AUDIT_SECONDS: Final = 2.0
#: How long to wait for news at most: readers that hear nothing for some seconds take the lines for abandoned.
LONGEST_WAIT: Final = timedelta(seconds=1)
#: A breath between passes: what comes meanwhile shares the next one.
PAUSE_SECONDS: Final = 0.002
#: Without a broker: after how long a job that is still queued is taken back. Some other process may have one.
ABANDONED: Final = timedelta(seconds=60)


class Dispatcher:
    """Dispatches until it is cancelled."""

    def __init__(
        self, engine: Engine, *, stands_by: Callable[[], bool] = lambda: False, dice: Dice = random.random
    ) -> None:
        self._engine = engine
        self._stands_by = stands_by
        self._dice = dice

    async def run(self) -> None:
        """Keep the lines filled, or, without any, see that nothing is left behind in them."""
        line = self._engine.broker.line
        if line is None:
            await self._clear_up()
            return
        with self._engine.broker.attend((EVERY_QUEUE,)) as attendance:
            await self._fill(line, attendance)

    async def _fill(self, line: Line, attendance: Attendance) -> None:
        patience = Patience(self._dice, longest=1.0)
        loop = asyncio.get_running_loop()
        audit_at = loop.time()
        while True:
            if self._stands_by():
                await asyncio.sleep(LONGEST_WAIT.total_seconds())
                continue
            try:
                count = await self._engine.dispatching.dispatch(line)
                if loop.time() >= audit_at:
                    audit_at = loop.time() + AUDIT_SECONDS
                    await self._audit(line)
                patience.reset()
            except Exception as error:  # noqa: BLE001 - whatever a driver raises, the duty goes on
                await self._fall_back(error)
                audit_at = loop.time()
                await asyncio.sleep(patience.next())
                continue
            await asyncio.sleep(PAUSE_SECONDS)
            if not count:
                await _either(attendance, line)

    async def _audit(self, line: Line) -> None:
        recalled = await self._engine.dispatching.audit(line)
        if recalled:
            _log.info("%d jobs stood in no line and are dispatched again", recalled)

    async def _fall_back(self, error: Exception) -> None:
        """Let workers find in the store what the broker cannot bring them."""
        if not isinstance(error, BrokerUnavailable):
            is_unexpected = not isinstance(error, RotaError)
            _log.warning("a pass failed and will be repeated: %s", error, exc_info=is_unexpected)
            return
        with suppress(RotaError):
            recalled = await self._engine.dispatching.recall()
            if recalled:
                _log.warning("%d jobs are taken back from the broker: %s", recalled, error)

    async def _clear_up(self) -> None:
        """Take back what a broker that is no longer in use has left behind."""
        while True:
            await asyncio.sleep(ABANDONED.total_seconds() * (0.75 + self._dice() / 2))
            try:
                recalled = await self._engine.dispatching.recall(ABANDONED)
                if recalled:
                    _log.warning("%d jobs were queued for a broker that nobody uses; they are pending again", recalled)
            except Exception as error:  # noqa: BLE001 - as above
                is_unexpected = not isinstance(error, RotaError)
                _log.warning("what is queued could not be looked at: %s", error, exc_info=is_unexpected)


async def _either(attendance: Attendance, line: Line) -> None:
    """Wait until there is work or room, whichever comes first."""
    waits = [asyncio.ensure_future(attendance.wait(LONGEST_WAIT)), asyncio.ensure_future(line.wait(LONGEST_WAIT))]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
