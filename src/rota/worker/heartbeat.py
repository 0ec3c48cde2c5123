"""Heartbeats: renewal of the leases of running jobs; the responses also carry requests to cancel.

Two implementations of one interface. `LoopHeartbeat` renews on the source loop, which handlers cannot block, since they
run elsewhere; but code that holds the GIL stops it. It is enough where worker and store share one process: what stops
the heartbeat there stops the store as well. `LeaseKeeperClient` (lease_keeper/client.py) has another
process do it.

Clocks: a lease is counted from the moment its renewal was *sent*, by the monotonic clock. A lease that is missing in
the response is lost for certain; a renewal without a response is tried again, sooner. The response also names the jobs
to be stopped: a cancel arrives within one beat.

Progress and log lines of running attempts go along with a renewal. Between two beats `UpdateSender` renews only the
attempts that have something new to report, so a worker whose handlers report nothing sends nothing. What could not be
sent is sent the next time, or with the outcome.

If renewing fails, leases lapse by the worker's own clock, and the watchdog stops the attempts before another worker
starts them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final, Protocol

from rota.core.lease import Renewal
from rota.ports.client import AttemptReport, WorkSource
from rota.ports.clock import Rng
from rota.telemetry.outage import Outage
from rota.worker.attempt import RunningAttempt
from rota.worker.options import WorkerOptions
from rota.worker.outcomes import StopReason
from rota.worker.tracker import AttemptTracker

_log = logging.getLogger("rota.worker")
LARGEST_BATCH: Final = 500
#: After a failed renewal the next one comes this much sooner.
FASTER_AFTER_FAILURE: Final = 5
#: Updates are sent this often. With the interval of the API they are shown within a second.
UPDATE_SECONDS: Final = 0.5


class LeaseHeartbeat(Protocol):
    """Keeps leases renewed."""

    async def ready(self) -> None:
        """Wait until leases can be renewed, or until it is clear that waiting does not help."""
        ...

    async def run(self) -> None:
        """Renew until cancelled."""
        ...

    def expect_claim(self, claim_id: str) -> None:
        """Note a claim before it is sent: from then on jobs may be leased to the worker under this id."""
        ...

    def hold(self, attempts: Iterable[RunningAttempt]) -> None:
        """Renew these leases too. Called before any of their handlers starts."""
        ...

    def release(self, reports: Iterable[AttemptReport]) -> None:
        """Renew these leases no longer: their outcomes are written."""
        ...

    def renew_now(self) -> None:
        """Renew at once: a lease may be about to lapse."""
        ...

    async def close(self) -> None:
        """Stop, and do not start again."""
        ...


class LeaseRenewer:
    """Sends renewals to the source and acts on the responses."""

    def __init__(
        self,
        source: WorkSource,
        tracker: AttemptTracker,
        lease: timedelta,
        *,
        clock: Callable[[], float],
        stop: Callable[[RunningAttempt, StopReason], None],
    ) -> None:
        self._source = source
        self._tracker = tracker
        self._lease = lease
        self._clock = clock
        self._stop = stop

    async def renew(self, attempts: Sequence[RunningAttempt], reports: Sequence[AttemptReport] = ()) -> None:
        """Renew the leases of attempts, and of finished attempts whose reports are not yet written."""
        for start in range(0, len(attempts), LARGEST_BATCH):
            await self._renew_batch(attempts[start : start + LARGEST_BATCH])
        if reports:
            await self._source.renew([Renewal(one.job_id, one.fence, self._lease) for one in reports[:LARGEST_BATCH]])

    async def _renew_batch(self, attempts: Sequence[RunningAttempt]) -> None:
        sent = self._clock()
        renewals = [Renewal(one.job.id, one.job.fence, self._lease, *_updates(one)) for one in attempts]
        try:
            renewed = {(one.job_id, one.fence): one for one in await self._source.renew(renewals)}
        except BaseException:
            _keep_updates(attempts, renewals)
            raise
        seconds = self._lease.total_seconds()
        for attempt in attempts:
            answer = renewed.get(attempt.key)
            if answer is not None:
                attempt.extend(sent, seconds)
                if answer.cancel:
                    self._stop(attempt, StopReason.CANCEL)
            elif attempt.key in self._tracker.held:
                # Missing in the response and not reported meanwhile: another worker has the job.
                self._stop(attempt, StopReason.LOST)


def _updates(attempt: RunningAttempt) -> tuple[str | None, str | None]:
    context = attempt.context
    return (None, None) if context is None else context.take_updates()


def _keep_updates(attempts: Sequence[RunningAttempt], renewals: Sequence[Renewal]) -> None:
    """Have progress and log lines sent again that may not have arrived."""
    for attempt, renewal in zip(attempts, renewals, strict=True):
        context = attempt.context
        if context is not None and (renewal.progress is not None or renewal.log_tail is not None):
            context.send_again()


class LoopHeartbeat:
    """Renews leases on the source loop."""

    def __init__(
        self,
        renewer: LeaseRenewer,
        tracker: AttemptTracker,
        options: WorkerOptions,
        *,
        unwritten_reports: Callable[[], Sequence[AttemptReport]],
        rng: Rng,
    ) -> None:
        self.renewer = renewer
        #: Reports of attempts that have finished and are not yet written.
        self.unwritten_reports = unwritten_reports
        self._tracker = tracker
        self._beat = options.beat.total_seconds()
        self._rng = rng
        self._is_urgent = asyncio.Event()
        self._outage = Outage(_log, "renewing leases")

    async def ready(self) -> None:
        """Return at once."""

    async def run(self) -> None:
        """Renew with some jitter, sooner after a failure."""
        pause = self._beat
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause * (0.9 + 0.1 * self._rng())):
                    await self._is_urgent.wait()
            self._is_urgent.clear()
            pause = self._beat if await self.beat() else self._beat / FASTER_AFTER_FAILURE

    async def beat(self) -> bool:
        """Renew all leases once; False if that failed."""
        attempts = [one for one in list(self._tracker.held.values()) if one.stop is not StopReason.LOST]
        reports = self.unwritten_reports()
        if not attempts and not reports:
            return True
        try:
            await self.renewer.renew(attempts, reports)
        except Exception as error:  # noqa: BLE001 - a transport may raise anything; the heartbeat goes on
            self._outage.failed(error)
            return False
        self._outage.worked()
        return True

    def expect_claim(self, claim_id: str) -> None:
        """Do nothing: jobs leased to a process that died wait until their leases lapse."""

    def hold(self, attempts: Iterable[RunningAttempt]) -> None:
        """Do nothing: the next beat reads the tracker."""

    def release(self, reports: Iterable[AttemptReport]) -> None:
        """Do nothing: the next beat reads the tracker."""

    def renew_now(self) -> None:
        self._is_urgent.set()

    async def close(self) -> None:
        """Do nothing."""


class UpdateSender:
    """Sends what handlers report while they run."""

    def __init__(self, renewer: LeaseRenewer, tracker: AttemptTracker) -> None:
        self._renewer = renewer
        self._tracker = tracker
        self._outage = Outage(_log, "sending progress and log lines")

    async def run(self) -> None:
        while True:
            await asyncio.sleep(UPDATE_SECONDS)
            await self.tick()

    async def tick(self) -> int:
        """Send once what is new, and return for how many attempts."""
        held = list(self._tracker.held.values())
        attempts = [one for one in held if one.has_updates and one.stop is not StopReason.LOST]
        if not attempts:
            return 0
        try:
            await self._renewer.renew(attempts)
        except Exception as error:  # noqa: BLE001 - a transport may raise anything; the updates are sent later
            self._outage.failed(error)
            return 0
        self._outage.worked()
        return len(attempts)
