"""Heartbeats: what keeps the leases of running jobs, and how a wish to cancel arrives.

Two hearts, one interface. `LoopHeart`, here, beats on the source's loop, which handlers cannot block since they run
on another; but code that holds the GIL stops it. It is enough where worker and store share one process: what stops
the heart there stops the store as well. `CompanionHeart` (escort.py) beats in another process.

Clocks: a lease is counted from the moment its renewal was *sent*, by the monotonic clock. A renewal that is absent
from the answer is lost for certain; one without an answer is tried again, sooner. The answer also says who is to be
stopped: a cancel arrives within one beat. Progress and log ride along.

If the heart fails, leases run out by our own count, and the watchdog stops the runs before someone else begins them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final, Protocol

from rota.core.lease import Renewal
from rota.ports.clock import Dice
from rota.ports.faces import Report, WorkSource
from rota.telemetry.outage import Outage
from rota.worker.holding import Holding
from rota.worker.options import WorkerOptions
from rota.worker.run import Run
from rota.worker.verdict import Stop

_log = logging.getLogger("rota.worker")
LARGEST_BATCH: Final = 500
#: After a failed beat the next one comes this much sooner.
HASTE: Final = 5


class Heart(Protocol):
    """Keeps leases."""

    async def ready(self) -> None:
        """Wait until leases will be kept, or until it is clear that waiting does not help."""
        ...

    async def run(self) -> None:
        """Beat until cancelled."""
        ...

    def expect(self, question: str) -> None:
        """Know that leases may come by this name. Told before it is asked."""
        ...

    def hold(self, runs: Iterable[Run]) -> None:
        """Keep these leases too. Told before any of them begins."""
        ...

    def let_go(self, reports: Iterable[Report]) -> None:
        """Keep these no longer."""
        ...

    def hurry(self) -> None:
        """Beat now: a lease may be running out."""
        ...

    async def close(self) -> None:
        """Stop, for good."""
        ...


class Renewing:
    """Renews leases at the source and passes on what it answers."""

    def __init__(
        self,
        source: WorkSource,
        holding: Holding,
        lease: timedelta,
        *,
        clock: Callable[[], float],
        stop: Callable[[Run, Stop], None],
    ) -> None:
        self._source = source
        self._holding = holding
        self._lease = lease
        self._clock = clock
        self._stop = stop

    async def renew(self, runs: Sequence[Run], others: Sequence[Report] = ()) -> None:
        """Renew the leases of runs, and of reports that are not yet written."""
        for start in range(0, len(runs), LARGEST_BATCH):
            await self._renew_some(runs[start : start + LARGEST_BATCH])
        if others:
            await self._source.renew([Renewal(one.job_id, one.fence, self._lease) for one in others[:LARGEST_BATCH]])

    async def _renew_some(self, runs: Sequence[Run]) -> None:
        sent = self._clock()
        renewals = [Renewal(run.job.id, run.job.fence, self._lease, *_news(run)) for run in runs]
        answers = {(one.job_id, one.fence): one for one in await self._source.renew(renewals)}
        seconds = self._lease.total_seconds()
        for run in runs:
            answer = answers.get(run.key)
            if answer is not None:
                run.extend(sent, seconds)
                if answer.cancel:
                    self._stop(run, Stop.CANCEL)
            elif run.key in self._holding.runs:
                # Absent, and we have not reported it meanwhile: it was taken from us.
                self._stop(run, Stop.LOST)


def _news(run: Run) -> tuple[str | None, str | None]:
    context = run.context
    return (None, None) if context is None else context.take_news()


class LoopHeart:
    """Beats on the source's loop."""

    def __init__(
        self,
        renewing: Renewing,
        holding: Holding,
        options: WorkerOptions,
        *,
        open_reports: Callable[[], Sequence[Report]],
        dice: Dice,
    ) -> None:
        self._renewing = renewing
        self._holding = holding
        #: What has ended and is not written yet.
        self.open_reports = open_reports
        self._beat = options.beat.total_seconds()
        self._dice = dice
        self._haste = asyncio.Event()
        self._outage = Outage(_log, "renewing leases")

    async def ready(self) -> None:
        """Be ready at once."""

    async def run(self) -> None:
        """Beat, a little at random, sooner after a failure."""
        pause = self._beat
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause * (0.9 + 0.1 * self._dice())):
                    await self._haste.wait()
            self._haste.clear()
            pause = self._beat if await self.beat() else self._beat / HASTE

    async def beat(self) -> bool:
        """Renew all leases once; False if that failed."""
        runs = [run for run in list(self._holding.runs.values()) if run.stop is not Stop.LOST]
        reports = self.open_reports()
        if not runs and not reports:
            return True
        try:
            await self._renewing.renew(runs, reports)
        except Exception as error:  # noqa: BLE001 - a transport may raise anything; the heart goes on
            self._outage.failed(error)
            return False
        self._outage.worked()
        return True

    def expect(self, question: str) -> None:
        """Expect nothing: what comes for a process that is gone is left to its lease."""

    def hold(self, runs: Iterable[Run]) -> None:
        """Let the next beat find them."""

    def let_go(self, reports: Iterable[Report]) -> None:
        """Let the next beat miss them."""

    def hurry(self) -> None:
        """Beat now."""
        self._haste.set()

    async def close(self) -> None:
        """Nothing to end."""
