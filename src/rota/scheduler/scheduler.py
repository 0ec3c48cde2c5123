"""The scheduler's loops.

Each duty that depends on time has a loop of its own, which sleeps until its time has come, does one pass, and asks the
store for the timetable: when each kind of upkeep is needed next. So what is due never waits for another duty, and one
that is not due costs nothing. One more loop asks for the timetable when something with a time is written, by this
process or another, and at least every `LONGEST_SLEEP_SECONDS`, so that a forgotten announcement or a stepped clock
costs little. The pruner has its own slow pace, and goes on at once while there is a full batch to delete; it rests
while another scheduler is known to lead. The dispatcher, which then rests too, fills a broker's lines where there is
one; see there.

If a pass fails, for whatever reason, its loop waits, longer each time up to a limit, and goes on. If the process dies
between two passes, or within one, nothing is lost: every pass is a transaction of the store, and the next scheduler
finds what is due. Two schedulers doing the same pass at once take what the other left.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from rota.core.patience import Patience
from rota.engine import Engine
from rota.ports.clock import Dice
from rota.ports.places import TIMETABLE
from rota.ports.store import Retention
from rota.scheduler.dispatcher import Dispatcher
from rota.scheduler.duties import BATCH, Duty, Expirer, Promoter, Pruner, Reaper, Ticker
from rota.scheduler.rhythm import LONGEST_SLEEP_SECONDS, Rhythm
from rota.supervision import supervised
from rota.telemetry.outage import Outage

PRUNE_EVERY: Final = timedelta(seconds=30)
NOW: Final = timedelta(0)
#: How long a duty that failed waits at most for its next pass: what is due has waited long enough by then.
LONGEST_TRIAL_SECONDS: Final = 2.0
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
        duties: Sequence[Duty] = (Promoter(engine), Ticker(engine), Reaper(engine), Expirer(engine))
        self._rhythms = [Rhythm(duty, Patience(dice, longest=LONGEST_TRIAL_SECONDS)) for duty in duties]
        self._pruner = Pruner(engine, retention or Retention())
        self._dispatcher = Dispatcher(engine, stands_by=stands_by, dice=dice)

    async def run(self) -> None:
        """Keep the time until cancelled."""
        async with asyncio.TaskGroup() as group:
            timetable = supervised("the timetable's loop", self._keep_timetable, dice=self._dice)
            group.create_task(timetable, name="rota-timetable")
            for rhythm in self._rhythms:
                group.create_task(self._keep(rhythm), name=f"rota-{rhythm.duty.name}")
            group.create_task(self._prune(), name="rota-pruner")
            dispatching = supervised("the dispatcher", self._dispatcher.run, dice=self._dice)
            group.create_task(dispatching, name="rota-dispatcher")

    async def tick(self) -> int:
        """Do every duty that depends on time once."""
        return sum([await rhythm.duty.tick() for rhythm in self._rhythms])

    async def _keep(self, rhythm: Rhythm) -> None:
        """Do a duty whenever its time has come."""
        outage = Outage(_log, f"a pass of the {rhythm.duty.name}")
        while True:
            await rhythm.due()
            try:
                did = await rhythm.duty.tick()
                await self.consult()
                rhythm.patience.reset()
                outage.worked()
            except Exception as error:  # noqa: BLE001 - whatever a driver raises, the duty goes on
                outage.failed(error, with_traceback=True)
                await asyncio.sleep(rhythm.patience.next())
                rhythm.expect(NOW)
            else:
                await rhythm.rest(did)

    async def _keep_timetable(self) -> None:
        """Look at the timetable whenever somebody has written into it."""
        patience = Patience(self._dice)
        outage = Outage(_log, "reading the timetable")
        with self._engine.broker.attend((TIMETABLE,)) as attendance:
            while True:
                await attendance.wait(timedelta(seconds=LONGEST_SLEEP_SECONDS))
                try:
                    await self.consult()
                    patience.reset()
                    outage.worked()
                except Exception as error:  # noqa: BLE001 - as above
                    outage.failed(error, with_traceback=True)
                    await asyncio.sleep(patience.next())

    async def consult(self) -> None:
        """Tell every duty when it is needed next, by the clock that judges what is due: ours may be ahead of it."""
        timetable = await self._engine.upkeep.timetable()
        clock = self._engine.store_clock
        if clock.may_be_behind:
            clock.may_be_behind = False
            try:
                await self._engine.schedules.rearm()
            except BaseException:
                clock.may_be_behind = True
                raise
            timetable = await self._engine.upkeep.timetable()
        for rhythm in self._rhythms:
            due = rhythm.duty.due(timetable)
            if due is not None:
                rhythm.expect(due - timetable.now)

    async def _prune(self) -> None:
        patience = Patience(self._dice)
        outage = Outage(_log, "pruning")
        while True:
            try:
                # While another leads, it prunes. Time is kept by all: a lost leader then delays nobody.
                is_full = not self._stands_by() and await self._pruner.tick() >= BATCH
                patience.reset()
                outage.worked()
            except Exception as error:  # noqa: BLE001 - as above
                outage.failed(error, with_traceback=True)
                await asyncio.sleep(patience.next())
                continue
            # A breath between batches: retention must not be what everyone waits for.
            await asyncio.sleep(0.01 if is_full else PRUNE_EVERY.total_seconds() * (0.75 + self._dice() / 2))
