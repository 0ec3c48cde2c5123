"""The worker: claims jobs, runs their handlers, keeps their leases, and writes back what they yield.

Who runs where. On the loop on which `run` is awaited, the source's loop: the fetcher, the settler, the heart, the
watchdog, the child processes' pipes. On the handlers' loop, in a thread of its own: async handlers. On threads of
their own: sync handlers. No user code runs on the source's loop, so no user code can keep leases from being renewed,
deadlines from being noticed or outcomes from being written, unless it holds the GIL; against that helps the companion
process.

States: open -> draining (`stop`) -> hurrying (`stop` again) -> over. Cancelling `run` is a stop in a hurry.

What happens when a part dies. A handler: its outcome. A thread or the handlers' loop: cannot be killed, can be
blocked; see watchdog.py. A child process: its job is lost, with last words. The companion: the worker beats by itself
and starts another. One of the tasks here (that would be our mistake): it is run again, see supervision.py. The
process: the companion says so at once, and without one the leases run out.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime

from rota.core.fleet import Member, Role
from rota.ports.clock import Dice
from rota.ports.faces import StepKeeper, WorkSource
from rota.telemetry.outage import Outage
from rota.telemetry.tracing import Spans
from rota.worker.escort import SourceReference
from rota.worker.fetcher import StoreTime
from rota.worker.handlers import Handlers
from rota.worker.leases import Key
from rota.worker.options import WorkerOptions
from rota.worker.shift import Shift

_log = logging.getLogger("rota.worker")
Announce = Callable[[Member], Awaitable[None]]


class Worker:
    """Runs handlers for one source of work. One that can ask for the store's time claims ahead of time."""

    def __init__(
        self,
        source: WorkSource,
        handlers: Handlers,
        options: WorkerOptions,
        *,
        announce_member: Announce | None = None,
        companion: SourceReference | None = None,
        steps: StepKeeper | None = None,
        spans: Spans | None = None,
        store_time: StoreTime | None = None,
        dice: Dice = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.options = options
        self._source = source
        self._handlers = handlers
        self._announce_member = announce_member
        self._companion = companion
        self._steps = steps
        self._spans = spans
        self._store_time = store_time
        self._dice = dice
        self._clock = clock
        self._started_at = datetime.now(UTC)
        self._stop_asked = asyncio.Event()
        self._outage = Outage(_log, "announcing the worker")
        self._shift: Shift | None = None

    async def run(self) -> None:
        """Work until told to stop; everything claimed is finished or handed back when this returns."""
        shift = self._shift = Shift(
            self._source,
            self._handlers,
            self.options,
            self._companion,
            self._steps,
            self._spans,
            self._store_time,
            dice=self._dice,
            clock=self._clock,
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
            except Exception:  # noqa: BLE001 - raised below, by `result`
                break
        whole.result()
        if is_cancelled:
            raise asyncio.CancelledError

    def stop(self) -> None:
        """Drain and end; a second call hurries. To be called on the worker's loop, by a signal handler for one."""
        if self._stop_asked.is_set() and self._shift is not None:
            self._shift.drain.hurry()
        self._stop_asked.set()

    def cancel(self, leases: Iterable[Key]) -> None:
        """Stop these jobs at once, if it holds them. To be called on the worker's loop.

        It would learn of it with its next heartbeat otherwise.
        """
        if self._shift is not None:
            self._shift.cancel(leases)

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
            self._outage.failed(error)
        else:
            self._outage.worked()
