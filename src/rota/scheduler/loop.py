"""The loops of the scheduler.

Each duty that depends on time has a loop of its own, which sleeps until the duty is due, does one pass, and reads the
store's timetable: when each kind of upkeep is needed next. So a due duty never waits for another one, and one that is
not due costs nothing. One more loop reads the timetable when something with a time is written, by this process or
another, and at least every `LONGEST_SLEEP_SECONDS`, so that a lost notification or a stepped clock costs little. The
pruner has its own slow pace, and goes on at once while there is a full batch to delete; it pauses while another
scheduler leads, and so does the dispatcher (dispatcher.py). Operations have a loop of their own (operations.py).

If a pass fails, for whatever reason, its loop waits, longer each time up to a limit, and goes on. If the process dies
between two passes, or within one, nothing is lost: every pass is a transaction of the store, and the next scheduler
finds what is due. Two schedulers that do the same pass at once share the work.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from math import inf
from typing import Final

from rota.backoff import JitteredBackoff
from rota.engine import Engine
from rota.ports.clock import Rng
from rota.ports.store import Retention
from rota.ports.wakeup import TIMETABLE
from rota.scheduler.dispatcher import Dispatcher
from rota.scheduler.operations import OperationRunner
from rota.scheduler.upkeep import BATCH, Duty, Expirer, Promoter, Pruner, Reaper, Ticker, Waker
from rota.supervision import supervised
from rota.telemetry.outage import Outage

PRUNE_EVERY: Final = timedelta(seconds=30)
#: A pause between full batches of the pruner, so that other writers do not wait for it.
PRUNE_PAUSE_SECONDS: Final = 0.01
NOW: Final = timedelta(0)
#: How long a duty that failed waits at most for its next pass.
LONGEST_RETRY_SECONDS: Final = 2.0
SHORTEST_SLEEP_SECONDS: Final = 0.005
LONGEST_SLEEP_SECONDS: Final = 5.0
#: The longest pause while a due job cannot be moved. Jobs that become due behind it wait that long, too.
LONGEST_STUCK_PAUSE_SECONDS: Final = 1.0
#: Timers of an event loop are exact to a millisecond. So the last millisecond is slept in steps too short for a timer:
#: the loop iterates and reads its clock.
FINE_SECONDS: Final = 0.001
FINE_STEP_SECONDS: Final = 0.0004
_log = logging.getLogger("rota.scheduler")


class DutyTimer:
    """A duty and when it is due next, by the loop's clock, which only goes forward.

    An earlier time replaces a later one and never the reverse: two reads of the timetable at the same moment may be
    answered in either order. A time that is too early costs one pass, one that is too late would delay jobs.
    """

    def __init__(self, duty: Duty, backoff: JitteredBackoff) -> None:
        self.duty = duty
        self.backoff = backoff
        self._at = -inf
        self._moved = asyncio.Event()
        self._stuck_pause = SHORTEST_SLEEP_SECONDS

    def due_in(self, wait: timedelta) -> None:
        """Make the duty due after a time, or earlier if it already was."""
        at = asyncio.get_running_loop().time() + wait.total_seconds()
        if at < self._at:
            self._at = at
            self._moved.set()

    async def wait_until_due(self) -> None:
        """Wait until the next run of this loop is due. Its next time is unknown after that."""
        loop = asyncio.get_running_loop()
        while (left := self._at - loop.time()) > 0:
            if left - FINE_SECONDS < FINE_STEP_SECONDS:
                # Never zero: in a simulation time passes only while every task sleeps.
                await asyncio.sleep(min(max(left, 1e-6), FINE_STEP_SECONDS))
                continue
            self._moved.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if left == inf else left - FINE_SECONDS):
                    await self._moved.wait()
        self._at = inf

    async def pause_if_stuck(self, count: int) -> None:
        """Sleep after a pass that did nothing although something is due, longer each time."""
        if count or self._at > asyncio.get_running_loop().time():
            self._stuck_pause = SHORTEST_SLEEP_SECONDS
            return
        self._stuck_pause = min(self._stuck_pause * 2, LONGEST_STUCK_PAUSE_SECONDS)
        await asyncio.sleep(self._stuck_pause)


class Scheduler:
    """Does all upkeep until it is cancelled."""

    def __init__(
        self,
        engine: Engine,
        *,
        retention: Retention | None = None,
        stands_by: Callable[[], bool] = lambda: False,
        rng: Rng = random.random,
    ) -> None:
        self.engine = engine
        self._rng = rng
        self._stands_by = stands_by
        duties: Sequence[Duty] = (Promoter(engine), Waker(engine), Ticker(engine), Reaper(engine), Expirer(engine))
        self._timers = [DutyTimer(duty, JitteredBackoff(rng, longest=LONGEST_RETRY_SECONDS)) for duty in duties]
        self._pruner = Pruner(engine, retention or Retention())
        self._dispatcher = Dispatcher(engine, stands_by=stands_by, rng=rng)
        self._operations = OperationRunner(engine, rng)

    async def run(self) -> None:
        """Run all loops until cancelled."""
        async with asyncio.TaskGroup() as group:
            timetable = supervised("the timetable's loop", self._watch_timetable, rng=self._rng)
            group.create_task(timetable, name="rota-timetable")
            for timer in self._timers:
                group.create_task(self._run_duty(timer), name=f"rota-{timer.duty.name}")
            group.create_task(self._prune(), name="rota-pruner")
            dispatcher = supervised("the dispatcher", self._dispatcher.run, rng=self._rng)
            group.create_task(dispatcher, name="rota-dispatcher")
            operations = supervised("the loop of operations", self._operations.run, rng=self._rng)
            group.create_task(operations, name="rota-operations")

    async def tick(self) -> int:
        """Do one pass of every duty that depends on time."""
        return sum([await timer.duty.tick() for timer in self._timers])

    async def _run_duty(self, timer: DutyTimer) -> None:
        outage = Outage(_log, f"a pass of the {timer.duty.name}")
        while True:
            await timer.wait_until_due()
            try:
                count = await timer.duty.tick()
                await self.read_timetable()
                timer.backoff.reset()
                outage.worked()
            except Exception as error:  # noqa: BLE001 - whatever a driver raises, the duty goes on
                outage.failed(error, with_traceback=True)
                await asyncio.sleep(timer.backoff.next())
                timer.due_in(NOW)
            else:
                await timer.pause_if_stuck(count)

    async def _watch_timetable(self) -> None:
        """Read the timetable whenever something with a time is written."""
        backoff = JitteredBackoff(self._rng)
        outage = Outage(_log, "reading the timetable")
        with self.engine.broker.subscribe((TIMETABLE,)) as subscription:
            while True:
                await subscription.wait(timedelta(seconds=LONGEST_SLEEP_SECONDS))
                try:
                    await self.read_timetable()
                    backoff.reset()
                    outage.worked()
                except Exception as error:  # noqa: BLE001 - as above
                    outage.failed(error, with_traceback=True)
                    await asyncio.sleep(backoff.next())

    async def read_timetable(self) -> None:
        """Set the timer of every duty, relative to the store's clock: this host's clock may differ."""
        timetable = await self.engine.upkeep.timetable()
        clock = self.engine.store_clock
        if clock.may_be_behind:
            clock.may_be_behind = False
            try:
                await self.engine.schedules.rearm()
            except BaseException:
                clock.may_be_behind = True
                raise
            timetable = await self.engine.upkeep.timetable()
        for timer in self._timers:
            due = timer.duty.due(timetable)
            if due is not None:
                timer.due_in(due - timetable.now)

    async def _prune(self) -> None:
        backoff = JitteredBackoff(self._rng)
        outage = Outage(_log, "pruning")
        while True:
            try:
                # Only the leader prunes. The other duties run on every scheduler: so a lost leader delays no job.
                is_full = not self._stands_by() and await self._pruner.tick() >= BATCH
                backoff.reset()
                outage.worked()
            except Exception as error:  # noqa: BLE001 - as above
                outage.failed(error, with_traceback=True)
                await asyncio.sleep(backoff.next())
                continue
            pause = PRUNE_EVERY.total_seconds() * (0.75 + self._rng() / 2)
            await asyncio.sleep(PRUNE_PAUSE_SECONDS if is_full else pause)
