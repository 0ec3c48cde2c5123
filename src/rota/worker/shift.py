"""A shift: the parts of a worker at work, put together, started, and ended in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from rota.core.patience import Patience
from rota.ports.clock import Dice
from rota.ports.faces import Report, StepKeeper, WorkSource
from rota.supervision import supervised
from rota.telemetry.tracing import Spans
from rota.worker.crew import Crew
from rota.worker.drain import Drain
from rota.worker.escort import CompanionHeart, SourceReference
from rota.worker.failures import FailureLog
from rota.worker.ferry import Ferry
from rota.worker.fetcher import Fetcher, StoreTime
from rota.worker.floor import Bell, Floor, OwnFloor, SharedFloor
from rota.worker.gate import Gate
from rota.worker.handlers import Handlers
from rota.worker.heartbeat import Heart, LoopHeart, Renewing
from rota.worker.holding import Holding
from rota.worker.leases import Key
from rota.worker.options import WorkerOptions
from rota.worker.processes import Processes
from rota.worker.run import Run
from rota.worker.settler import Settler
from rota.worker.slots import Slots
from rota.worker.stopper import Alarm, Stopper
from rota.worker.threads import Threads
from rota.worker.verdict import Stop
from rota.worker.watchdog import Watchdog

_log = logging.getLogger("rota.worker")


class Shift:
    """The parts of a worker at work, from opening to close."""

    def __init__(
        self,
        source: WorkSource,
        handlers: Handlers,
        options: WorkerOptions,
        companion: SourceReference | None,
        steps: StepKeeper | None,
        spans: Spans | None,
        store_time: StoreTime | None,
        *,
        dice: Dice,
        clock: Callable[[], float],
    ) -> None:
        self._ferry = ferry = None if steps is None else Ferry(steps, dice, clock, options.house)
        self._loop = asyncio.get_running_loop()
        self._is_alone = not options.own_loop
        self._dice = dice
        self.holding = Holding(lambda: self._soon(self._rung), FailureLog(clock).note)
        alarm = Alarm(self._soon)
        self._stopper = stopper = Stopper(self.holding, alarm, options.stop_grace.total_seconds(), clock=clock)
        gate_with = partial(
            Gate,
            self.holding,
            clock=clock,
            watch=alarm.set,
            dice=dice,
            fail_rate=options.fail_rate,
            result_bytes=options.result_bytes,
            steps_for=None if ferry is None else ferry.steps_for,
            spans=spans,
            worker=options.name,
        )
        self._floor: Floor = OwnFloor(options.name) if options.own_loop else SharedFloor()
        bell = Bell(self._floor, self.holding.ring)
        self._slots = Slots(self._floor, gate_with(ring=bell.ring), options.concurrency, self.holding.ring)
        gate = gate_with(ring=self.holding.ring)
        self._threads = Threads(gate, options.concurrency, options.name, self.holding.ring)
        self._processes = Processes(gate, self.holding, options, ferry, clock=clock)
        self._settler = Settler(source, self.holding.outbox, Patience(dice), self._settled)
        self._heart = self._make_heart(source, options, companion, stopper, dice=dice, clock=clock)
        self._watchdog = Watchdog(
            self.holding, self._slots, stopper, alarm, options,
            clock=clock, hurry_heart=self._heart.hurry, unblocked=self.holding.ring,
        )  # fmt: skip
        self._crew = crew = Crew(
            handlers,
            {"async": self._slots, "thread": self._threads, "process": self._processes},
            self.holding,
            self._floor,
            options,
            unsettled=lambda: self._settler.unsettled,
            left_behind=self._left_behind,
            hold=self._hold,
            clock=clock,
        )
        self._fetcher = Fetcher(
            source, crew, options, store_time, clock=clock, patience=Patience(dice), expect=self._heart.expect
        )
        self.drain = Drain(self.holding, self._settler, stopper, options, clock=clock)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def _make_heart(
        self,
        source: WorkSource,
        options: WorkerOptions,
        companion: SourceReference | None,
        stopper: Stopper,
        *,
        dice: Dice,
        clock: Callable[[], float],
    ) -> Heart:
        renewing = Renewing(source, self.holding, options.lease, clock=clock, stop=stopper.stop)
        own = LoopHeart(renewing, self.holding, options, open_reports=self._settler.open_reports, dice=dice)
        if companion is None:
            return own
        kin = lambda: self._processes.pids  # noqa: E731 - named for what it gives
        return CompanionHeart(companion, own, renewing, self.holding, options, stop=stopper.stop, kin=kin, dice=dice)

    async def open(self) -> None:
        """Start all parts."""
        self._floor.start()
        for name, part in (
            ("settler", self._settler.run),
            ("watchdog", self._watchdog.run),
            ("heart", self._heart.run),
            ("fetcher", self._fetch),
        ):
            self._start(name, part)

    async def work_until(self, stopped: asyncio.Event) -> None:
        """Let the parts work until told to stop, or until one of them fails."""
        stop = asyncio.create_task(stopped.wait())
        try:
            await asyncio.wait([stop, *self._tasks.values()], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()

    def cancel(self, leases: Iterable[Key]) -> None:
        """Stop the runs of these leases, as far as they are held here."""
        for key in leases:
            run = self.holding.runs.get(key)
            if run is not None:
                self._stopper.stop(run, Stop.CANCEL)

    async def close(self, announcing: Coroutine[Any, Any, None]) -> None:
        """Drain, hand back, and end all parts within the time there is."""
        self.drain.begin()
        self._crew.leave()
        self._fetcher.stop()
        telling = asyncio.create_task(announcing)
        await self._end("fetcher")
        await self._fetcher.close(self.drain.seconds_for_a_word())
        self.drain.hand_back()
        await self.drain.finish()
        await asyncio.wait([self._tasks["settler"]], timeout=self.drain.seconds_to_write())
        await asyncio.wait([telling], timeout=self.drain.seconds_for_a_word())
        if self._settler.unsettled:
            _log.error("%d outcomes were not written: their leases will run out", self._settler.unsettled)
        telling.cancel()
        for name in ("heart", "watchdog", "settler"):
            await self._end(name)
        await self._heart.close()
        self._slots.close()
        self._threads.close()
        if self._ferry is not None:
            await self._ferry.close(min(self.drain.seconds_left(), 1.0))
        await self._processes.close()
        await self._floor.close(self._slots.tasks(), min(max(self.drain.seconds_left(), 0.2), 1.0))

    def raise_failure(self) -> None:
        """Raise what made a part fail, if one did."""
        for task in self._tasks.values():
            if task.done() and not task.cancelled() and task.exception() is not None:
                task.result()

    async def _fetch(self) -> None:
        await self._heart.ready()
        await self._fetcher.run()

    def _start(self, name: str, part: Callable[[], Awaitable[None]]) -> None:
        kept = supervised(f"the worker's {name}", part, dice=self._dice)
        self._tasks[name] = asyncio.create_task(kept, name=f"rota-worker-{name}")

    async def _end(self, name: str) -> None:
        task = self._tasks[name]
        while not task.done():
            # More than once, if need be: a wait that ends at this very moment may swallow its cancellation.
            task.cancel()
            await asyncio.wait([task], timeout=0.25)

    def _soon(self, callback: Callable[[], None]) -> None:
        """Call something on the source's loop, from any thread."""
        if self._is_alone:
            self._loop.call_soon(callback)
            return
        with suppress(RuntimeError):  # closed: a handler that was left behind has come back too late
            self._loop.call_soon_threadsafe(callback)

    def _rung(self) -> None:
        """See to runs that have ended: their outcomes are to be written, and their slots are free."""
        self.holding.answer()
        self._watchdog.rest()
        self._settler.wake()
        self._fetcher.wake()
        self.drain.wake()

    def _hold(self, runs: Iterable[Run]) -> None:
        self._heart.hold(runs)
        self._watchdog.nudge()

    def _settled(self, reports: Sequence[Report]) -> None:
        self._heart.let_go(reports)
        self._fetcher.wake()

    def _left_behind(self) -> int:
        return self._slots.left_behind + self._threads.left_behind
