"""The worker: claims jobs, runs their handlers, keeps their leases, and writes back what they yield.

Who runs where. On the loop on which `run` is awaited, the source's loop: the fetcher, the settler, the heart, the
watchdog, the child processes' pipes. On the handlers' loop, in a thread of its own: async handlers. On threads of their
own: sync handlers. No user code runs on the source's loop, so no user code can keep leases from being renewed, deadlines
from being noticed or outcomes from being written, unless it holds the GIL; against that helps the companion process.

States: open -> draining (`stop`) -> hurrying (`stop` again) -> over. Cancelling `run` is a stop in a hurry.

What happens when a part dies. A handler: its outcome. A thread or the handlers' loop: cannot be killed, can be blocked;
see watchdog.py. A child process: its job is lost, with last words. The companion: the worker beats by itself and starts
another. One of the tasks here (that would be our mistake): the worker drains and `run` raises. The process: the
companion says so at once, and without one the leases run out.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from rota.core.fleet import Member, Role
from rota.ports.clock import Dice
from rota.ports.faces import Report, WorkSource
from rota.worker.crew import Crew
from rota.worker.drain import Drain
from rota.worker.escort import CompanionHeart, SourceReference
from rota.worker.fetcher import Fetcher
from rota.worker.floor import Floor, OwnFloor, SharedFloor
from rota.worker.gate import Gate
from rota.worker.handlers import Handlers
from rota.worker.heartbeat import Heart, LoopHeart, Renewing
from rota.worker.holding import Holding
from rota.worker.options import WorkerOptions
from rota.worker.patience import Patience
from rota.worker.processes import Processes
from rota.worker.run import Run
from rota.worker.settler import Settler
from rota.worker.slots import Slots
from rota.worker.threads import Threads
from rota.worker.watchdog import Watchdog

_log = logging.getLogger("rota.worker")
Announce = Callable[[Member], Awaitable[None]]


class Worker:
    """Runs handlers for one source of work."""

    def __init__(
        self,
        source: WorkSource,
        handlers: Handlers,
        options: WorkerOptions,
        *,
        announce_member: Announce | None = None,
        companion: SourceReference | None = None,
        dice: Dice = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.options = options
        self._source = source
        self._handlers = handlers
        self._announce_member = announce_member
        self._companion = companion
        self._dice = dice
        self._clock = clock
        self._started_at = datetime.now(UTC)
        self._stop_asked = asyncio.Event()
        self._shift: Shift | None = None

    async def run(self) -> None:
        """Work until told to stop; everything claimed is finished or handed back when this returns."""
        shift = self._shift = Shift(
            self._source, self._handlers, self.options, self._companion, dice=self._dice, clock=self._clock
        )
        whole = asyncio.create_task(self._work(shift), name="rota-worker")
        is_cancelled = False
        while not whole.done():
            try:
                await asyncio.shield(whole)
            except asyncio.CancelledError:
                is_cancelled = True
                self.stop()
                shift.drain.hurry()
            except BaseException:  # noqa: BLE001 - raised below, by `result`
                break
        whole.result()
        if is_cancelled:
            raise asyncio.CancelledError

    def stop(self) -> None:
        """Drain and end; a second call hurries. To be called on the worker's loop, by a signal handler for one."""
        if self._stop_asked.is_set() and self._shift is not None:
            self._shift.drain.hurry()
        self._stop_asked.set()

    @property
    def busy(self) -> int:
        """How many jobs it holds."""
        return 0 if self._shift is None else len(self._shift.holding.runs)

    @property
    def is_draining(self) -> bool:
        """Whether it was told to stop."""
        return self._stop_asked.is_set()

    def member(self) -> Member:
        """Describe this worker as others should know it."""
        options = self.options
        return Member(
            role=Role.WORKER,
            name=options.name,
            boot=options.boot,
            host=options.host or socket.gethostname(),
            pid=os.getpid(),
            version=options.version,
            address=options.address,
            queues=options.queues,
            types=self._handlers.types,
            slots=options.concurrency,
            busy=self.busy,
            is_draining=self.is_draining,
            started_at=self._started_at,
        )

    async def _work(self, shift: Shift) -> None:
        await shift.open()
        announcing = asyncio.create_task(self._keep_announcing(), name="rota-worker-announce")
        try:
            await shift.work_until(self._stop_asked)
        finally:
            # Also when a part failed: what is held must be handed back.
            self._stop_asked.set()
            await shift.close(self._announce())
            announcing.cancel()
            with suppress(asyncio.CancelledError):
                await announcing
        shift.raise_failure()

    async def _keep_announcing(self) -> None:
        while True:
            await self._announce()
            await asyncio.sleep(self.options.beat.total_seconds() * (0.9 + 0.1 * self._dice()))

    async def _announce(self) -> None:
        if self._announce_member is None:
            return
        try:
            await self._announce_member(self.member())
        except Exception as error:  # noqa: BLE001 - whether others know of it does not keep it from working
            _log.warning("the worker could not make itself known: %s", error)


class Shift:
    """The parts of a worker at work, from opening to close."""

    def __init__(
        self,
        source: WorkSource,
        handlers: Handlers,
        options: WorkerOptions,
        companion: SourceReference | None,
        *,
        dice: Dice,
        clock: Callable[[], float],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_alone = not options.own_loop
        self.holding = Holding(lambda: self._soon(self._rung))
        self._floor: Floor = OwnFloor(options.name) if options.own_loop else SharedFloor()
        gate = Gate(
            self.holding, clock=clock, watch=lambda deadline: self._watchdog.watch(deadline), dice=dice,
            fail_rate=options.fail_rate, result_bytes=options.result_bytes,
        )  # fmt: skip
        self._slots = Slots(self._floor, gate, options.concurrency, self.holding.ring)
        self._threads = Threads(gate, options.concurrency, options.name, self.holding.ring)
        self._processes = Processes(gate, self.holding, options, clock=clock)
        self._settler = Settler(source, self.holding.outbox, Patience(dice), self._settled)
        self._watchdog = Watchdog(
            self.holding, self._floor, self._slots, options,
            clock=clock, wake=self._soon, hurry_heart=lambda: self._heart.hurry(),
        )  # fmt: skip
        renewing = Renewing(source, self.holding, options.lease, clock=clock, stop=self._watchdog.stop)
        own_heart = LoopHeart(renewing, self.holding, options, open_reports=self._settler.open_reports, dice=dice)
        self._heart: Heart = own_heart
        if companion is not None:
            self._heart = CompanionHeart(
                companion,
                own_heart,
                renewing,
                self.holding,
                options,
                stop=self._watchdog.stop,
                kin=lambda: self._processes.pids,
                dice=dice,
            )
        crew = Crew(
            handlers, {"async": self._slots, "thread": self._threads, "process": self._processes}, self.holding,
            self._floor, options, unsettled=lambda: self._settler.unsettled, left_behind=self._left_behind,
            hold=self._hold,
        )  # fmt: skip
        self._fetcher = Fetcher(source, crew, options, clock=clock, patience=Patience(dice))
        self.drain = Drain(
            self.holding, self._settler, options,
            clock=clock, stop=self._watchdog.stop, leave_behind=self._watchdog.leave_behind,
        )  # fmt: skip
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def open(self) -> None:
        """Start all parts."""
        self._floor.start()
        for name, part in (
            ("settler", self._settler.run()),
            ("watchdog", self._watchdog.run()),
            ("heart", self._heart.run()),
            ("fetcher", self._fetcher.run()),
        ):
            self._start(name, part)

    async def work_until(self, stopped: asyncio.Event) -> None:
        """Let the parts work until told to stop, or until one of them fails."""
        stop = asyncio.create_task(stopped.wait())
        try:
            await asyncio.wait([stop, *self._tasks.values()], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()

    async def close(self, announcing: Coroutine[Any, Any, None]) -> None:
        """Drain, hand back, and end all parts within the time there is."""
        self.drain.begin()
        self._fetcher.stop()
        telling = asyncio.create_task(announcing)
        await self._end("fetcher")
        await self._fetcher.close()
        self.drain.hand_back()
        await self.drain.finish()
        await asyncio.wait([self._tasks["settler"], telling], timeout=self.drain.seconds_left())
        if self._settler.unsettled:
            _log.error("%d outcomes were not written: their leases will run out", self._settler.unsettled)
        telling.cancel()
        for name in ("heart", "watchdog", "settler"):
            await self._end(name)
        await self._heart.close()
        self._slots.close()
        self._threads.close()
        await self._processes.close()
        await self._floor.close(self._slots.tasks(), min(max(self.drain.seconds_left(), 0.2), 1.0))

    def raise_failure(self) -> None:
        """Raise what made a part fail, if one did."""
        for task in self._tasks.values():
            if task.done() and not task.cancelled() and task.exception() is not None:
                task.result()

    def _start(self, name: str, part: Coroutine[Any, Any, None]) -> None:
        self._tasks[name] = asyncio.create_task(part, name=f"rota-worker-{name}")

    async def _end(self, name: str) -> None:
        task = self._tasks[name]
        while not task.done():
            # More than once, if need be: a wait that ends at this very moment may swallow its cancellation.
            task.cancel()
            await asyncio.wait([task], timeout=1)

    def _soon(self, callback: Callable[[], None]) -> None:
        """Call something on the source's loop, from any thread."""
        if self._is_alone:
            self._loop.call_soon(callback)
            return
        with suppress(RuntimeError):  # closed: a handler that was left behind has come back too late
            self._loop.call_soon_threadsafe(callback)

    def _rung(self) -> None:
        """Runs have ended: their outcomes are to be written, and their slots are free."""
        self.holding.answer()
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
