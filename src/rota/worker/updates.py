"""The update sender: progress and log lines of running attempts, sent between two heartbeats.

They go along with a renewal of the attempt's lease. Only attempts that have something new are renewed, so a worker
whose handlers report nothing sends nothing. What could not be sent is sent the next time, or with the outcome.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from rota.telemetry.outage import Outage
from rota.worker.heartbeat import LeaseRenewer
from rota.worker.outcomes import StopReason
from rota.worker.tracker import AttemptTracker

_log = logging.getLogger("rota.worker")
#: A change is sent so soon. With the look of the API it is seen within a second.
UPDATE_SECONDS: Final = 0.5


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
