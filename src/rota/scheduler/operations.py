"""The loop that does operations: batches that are due, on every scheduler.

It checks for due operations when something with a time is written, and every `LOOK_EVERY` at least. After a batch the
next check follows at once, and for a while checks are frequent: a rate makes batches due in quick succession.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Final

from rota.backoff import JitteredBackoff
from rota.engine import Engine
from rota.ports.clock import Rng
from rota.ports.wakeup import TIMETABLE
from rota.telemetry.outage import Outage

LOOK_EVERY: Final = timedelta(seconds=15)
#: The pause between checks for a while after a batch, and how long that while is.
BUSY_PAUSE_SECONDS: Final = 0.1
BUSY_SECONDS: Final = 10.0
#: The least time between two checks that find nothing: there are many wake-ups when many jobs have a time.
LEAST_PAUSE_SECONDS: Final = 0.5
_log = logging.getLogger("rota.scheduler")


class OperationRunner:
    """Does operations until it is cancelled."""

    def __init__(self, engine: Engine, rng: Rng) -> None:
        self.engine = engine
        self._rng = rng

    async def tick(self) -> int:
        return await self.engine.operations.tick()

    async def run(self) -> None:
        backoff = JitteredBackoff(self._rng)
        outage = Outage(_log, "doing operations")
        loop = asyncio.get_running_loop()
        busy_until = loop.time()
        with self.engine.broker.subscribe((TIMETABLE,)) as subscription:
            while True:
                try:
                    count = await self.tick()
                    backoff.reset()
                    outage.worked()
                except Exception as error:  # noqa: BLE001 - whatever a driver raises, the loop goes on
                    outage.failed(error, with_traceback=True)
                    await asyncio.sleep(backoff.next())
                    continue
                if count:
                    busy_until = loop.time() + BUSY_SECONDS
                elif loop.time() < busy_until:
                    await asyncio.sleep(BUSY_PAUSE_SECONDS)
                else:
                    await asyncio.sleep(LEAST_PAUSE_SECONDS)
                    await subscription.wait(LOOK_EVERY)
