"""The settler: writes back what runs yielded.

One write at a time; whatever has queued up meanwhile goes out in the next. Nobody waits to fill a batch: under load
the batches fill by themselves. While a batch is being written the fetcher claims for the slots that are already free,
and in process both land in one commit.

No outcome is dropped because the store is away: it is written again, later each time, together with those that came
in meanwhile. The fence judges whether it still counts, so writing late or twice does no harm. What the source refuses
as such (too large, not acceptable) is found by writing each report alone; it fails its own job, not its neighbours'.
If the process dies first, the leases run out and the jobs run again: that is what at least once means.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from rota.core.errors import InvalidRequest
from rota.core.identity import to_text
from rota.core.outcome import Failed
from rota.core.patience import Patience
from rota.core.settlement import JobError
from rota.ports.faces import Report, WorkSource
from rota.telemetry.outage import Outage

_log = logging.getLogger("rota.worker")
LARGEST_BATCH: Final = 500


class Settler:
    """Sends reports until it is closed and nothing is left."""

    def __init__(
        self,
        source: WorkSource,
        outbox: deque[Report],
        patience: Patience,
        settled: Callable[[Sequence[Report]], None],
    ) -> None:
        self._source = source
        self._outbox = outbox
        self._patience = patience
        self._outage = Outage(_log, "writing outcomes")
        self._settled = settled
        self._batch: list[Report] = []
        self._filled = asyncio.Event()
        self._is_closing = False

    @property
    def unsettled(self) -> int:
        """How many reports are not yet written."""
        return len(self._outbox) + len(self._batch)

    def open_reports(self) -> list[Report]:
        """Give the reports that are not yet written: their leases are still ours."""
        return [*self._batch, *self._outbox]

    def wake(self) -> None:
        """Look at the outbox."""
        self._filled.set()

    def close(self) -> None:
        """End once nothing is left."""
        self._is_closing = True
        self._filled.set()

    async def run(self) -> None:
        """Write reports as they come."""
        while True:
            if not self._outbox and not self._batch:
                if self._is_closing:
                    return
                await self._filled.wait()
                self._filled.clear()
                continue
            await self._write()

    async def _write(self) -> None:
        room = min(len(self._outbox), LARGEST_BATCH - len(self._batch))
        self._batch += [self._outbox.popleft() for _ in range(room)]
        if await self._attempt(lambda: self._send(self._batch)):
            self._batch = []

    async def _attempt(self, write: Callable[[], Awaitable[None]]) -> bool:
        try:
            await write()
        except InvalidRequest as refusal:
            await self._one_by_one(refusal)
        except Exception as error:  # noqa: BLE001 - a transport may raise anything; none of it may lose an outcome
            pause = self._patience.next()
            self._outage.failed(error)
            await asyncio.sleep(pause)
            return False
        self._patience.reset()
        self._outage.worked()
        return True

    async def _send(self, reports: list[Report]) -> None:
        applied = set(await self._source.settle(reports))
        refused = [report for report in reports if report.job_id not in applied]
        if refused:
            names = ", ".join(to_text(report.job_id) for report in refused[:10])
            _log.info("%d outcomes came too late, their jobs belong to someone else: %s", len(refused), names)
        self._settled(reports)

    async def _one_by_one(self, refusal: InvalidRequest) -> None:
        """Find the report that the source will not take, and fail its job instead."""
        pending = deque(self._batch)
        while pending:
            report = pending[0]
            try:
                await self._send([report])
            except InvalidRequest as error:
                pending[0] = _failing(report, error)
                if pending[0] == report:
                    _log.exception("the outcome of job %s is refused; its lease will run out", to_text(report.job_id))
                    pending.popleft()
            except Exception as error:  # noqa: BLE001 - as above
                pause = self._patience.next()
                self._outage.failed(error)
                await asyncio.sleep(pause)
            else:
                pending.popleft()
        _log.debug("a batch was written one by one: %s", refusal)


def _failing(report: Report, error: InvalidRequest) -> Report:
    told = JobError("OutcomeRefused", f"what the handler yielded could not be written: {error}"[:1000])
    return replace(report, outcome=Failed(told, permanent=True), log_tail=None)
