"""The reporter: writes the outcomes of attempts to the source (settles them).

One write at a time; outcomes that arrive meanwhile go out in the next one. It never waits to fill a batch: under load
the batches fill by themselves. While a batch is being written the fetcher claims for the slots that are already free,
and in process both are committed together.

No outcome is dropped because the store is unavailable: the write is repeated with growing pauses, together with the
outcomes that arrived meanwhile. The fence decides whether it still counts, so writing late or twice does no harm. If
the source refuses a batch as invalid (too large, not acceptable), each report is written alone: the refused one fails
its own job and no other. If the process dies first, the leases lapse and the jobs run again: at-least-once delivery.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from rota.backoff import JitteredBackoff
from rota.core.errors import InvalidRequest
from rota.core.ids import to_text
from rota.core.outcome import Failed
from rota.core.settlement import JobError
from rota.ports.client import AttemptReport, WorkSource
from rota.telemetry.outage import Outage

_log = logging.getLogger("rota.worker")
LARGEST_BATCH: Final = 500


class OutcomeReporter:
    """Writes reports until it is closed and none is left."""

    def __init__(
        self,
        source: WorkSource,
        outbox: deque[AttemptReport],
        backoff: JitteredBackoff,
        on_written: Callable[[Sequence[AttemptReport]], None],
    ) -> None:
        self._source = source
        self._outbox = outbox
        self._backoff = backoff
        self._outage = Outage(_log, "writing outcomes")
        self._on_written = on_written
        self._batch: list[AttemptReport] = []
        self._filled = asyncio.Event()
        self._is_closing = False

    @property
    def unwritten(self) -> int:
        return len(self._outbox) + len(self._batch)

    def unwritten_reports(self) -> list[AttemptReport]:
        """Return the reports that are not yet written: the worker still holds their leases."""
        return [*self._batch, *self._outbox]

    def wake(self) -> None:
        """Check the outbox for reports."""
        self._filled.set()

    def close(self) -> None:
        """End once nothing is left."""
        self._is_closing = True
        self._filled.set()

    async def run(self) -> None:
        """Write reports as they arrive."""
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
        try:
            await self._send(self._batch)
        except InvalidRequest as refusal:
            await self._write_one_by_one(refusal)
        except Exception as error:  # noqa: BLE001 - a transport may raise anything; none of it may lose an outcome
            await self._pause(error)
            return
        self._batch = []
        self._backoff.reset()
        self._outage.worked()

    async def _pause(self, error: Exception) -> None:
        pause = self._backoff.next()
        self._outage.failed(error)
        await asyncio.sleep(pause)

    async def _send(self, reports: list[AttemptReport]) -> None:
        applied = set(await self._source.settle(reports))
        refused = [report for report in reports if report.job_id not in applied]
        if refused:
            names = ", ".join(to_text(report.job_id) for report in refused[:10])
            _log.info("%d outcomes came too late; their jobs belong to other workers: %s", len(refused), names)
        self._on_written(reports)

    async def _write_one_by_one(self, refusal: InvalidRequest) -> None:
        """Find the report that the source refuses, and fail its job instead."""
        pending = deque(self._batch)
        while pending:
            report = pending[0]
            try:
                await self._send([report])
            except InvalidRequest as error:
                pending[0] = _failed_report(report, error)
                if pending[0] == report:
                    _log.exception("the outcome of job %s is refused; its lease will lapse", to_text(report.job_id))
                    pending.popleft()
            except Exception as error:  # noqa: BLE001 - as above
                await self._pause(error)
            else:
                pending.popleft()
        _log.debug("a batch of outcomes was refused (%s) and written one by one", refusal)


def _failed_report(report: AttemptReport, error: InvalidRequest) -> AttemptReport:
    message = f"the outcome of the handler could not be written: {error}"[:1000]
    return replace(
        report, outcome=Failed(JobError("OutcomeRefused", message), permanent=True), log_tail=None, progress=None
    )
