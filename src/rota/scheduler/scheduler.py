"""The scheduler's loops.

Three of them. The time-keeper asks the store for the next moment at which anything is due, sleeps until then, and does
all duties that depend on time; it is woken when something with an earlier time is written, by this process or another,
and asks again. It never sleeps longer than `LONGEST_SLEEP_SECONDS`, so that a forgotten announcement or a stepped clock
costs little. The pruner has its own slow pace, and goes on at once while there is a full batch to delete; it rests
while another scheduler is known to lead. The dispatcher, which then rests too, fills a broker's lines where there is
one; see there.

If a pass fails (the store is away), the loop waits, longer each time up to a limit, and goes on. If the process dies
between two passes, or within one, nothing is lost: every pass is a transaction of the store, and the next scheduler
finds what is due. Two schedulers doing the same pass at once take what the other left.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from math import inf
from typing import Final

from rota.core.errors import RotaError
from rota.core.patience import Patience
from rota.engine import Engine
from rota.ports.broker import TIMETABLE
from rota.ports.clock import Dice
from rota.ports.store import Retention
from rota.scheduler.dispatcher import Dispatcher
from rota.scheduler.duties import BATCH, Duty, Expirer, Promoter, Pruner, Reaper, Ticker

LONGEST_SLEEP_SECONDS: Final = 5.0
SHORTEST_SLEEP_SECONDS: Final = 0.005
PRUNE_EVERY: Final = timedelta(seconds=30)
_log = logging.getLogger("rota.scheduler")


class Scheduler:
    """Does what time asks for, until it is cancelled."""

    def __init__(
        self,
        engine: Engine,
        *,
        retention: Retention | None = None,
        stands_by: Callable[[], bool] = lambda: False,
        dice: Dice = random.random,
    ) -> None:
        self._engine = engine
        self._dice = dice
        self._stands_by = stands_by
        # The promoter first: it is what is due most often, and whoever waits for it waits for a start.
        self._timely: Sequence[Duty] = (Promoter(engine), Ticker(engine), Reaper(engine), Expirer(engine))
        self._pruner = Pruner(engine, retention or Retention())
        self._dispatcher = Dispatcher(engine, stands_by=stands_by, dice=dice)

    async def run(self) -> None:
        """Keep the time until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_time(), name="rota-time-keeper")
            group.create_task(self._prune(), name="rota-pruner")
            group.create_task(self._dispatcher.run(), name="rota-dispatcher")

    async def tick(self) -> int:
        """Do every duty that depends on time once."""
        return sum([await duty.tick() for duty in self._timely])

    async def _keep_time(self) -> None:
        patience = Patience(self._dice)
        loop = asyncio.get_running_loop()
        due_at = loop.time()
        in_vain = SHORTEST_SLEEP_SECONDS
        with self._engine.broker.attend((TIMETABLE,)) as attendance:
            while True:
                try:
                    # Woken before anything is due: a look at the timetable is enough, and much cheaper.
                    is_due = loop.time() >= due_at
                    did = await self.tick() if is_due else 0
                    pause = await self._until_due()
                    due_at = loop.time() + pause
                    patience.reset()
                except RotaError as error:
                    _log.warning("a pass failed and will be repeated: %s", error)
                    await asyncio.sleep(patience.next())
                    continue
                # Something due that no duty could move must not make us spin: we look at it less and less often.
                is_stuck = is_due and not did and pause <= 0
                in_vain = min(in_vain * 2, LONGEST_SLEEP_SECONDS) if is_stuck else SHORTEST_SLEEP_SECONDS
                if pause > 0 or is_stuck:
                    seconds = in_vain if is_stuck else min(pause, LONGEST_SLEEP_SECONDS)
                    await attendance.wait(timedelta(seconds=seconds))

    async def _until_due(self) -> float:
        due = await self._engine.upkeep.due()
        if due is None:
            return inf
        # By the clock that judges what is due: by a clock of ours that is ahead of it we would never sleep.
        return (due - await self._engine.store.time()).total_seconds()

    async def _prune(self) -> None:
        patience = Patience(self._dice)
        while True:
            try:
                # While another leads, it prunes. Time is kept by all: a lost leader then delays nobody.
                is_full = not self._stands_by() and await self._pruner.tick() >= BATCH
                patience.reset()
            except RotaError as error:
                _log.warning("pruning failed and will be repeated: %s", error)
                await asyncio.sleep(patience.next())
                continue
            # A breath between batches: retention must not be what everyone waits for.
            await asyncio.sleep(0.01 if is_full else PRUNE_EVERY.total_seconds() * (0.75 + self._dice() / 2))
