"""The HTTP endpoint of a worker (`worker_address`): liveness, readiness, health and metrics.

Readiness follows from the worker's heartbeats, which it sends anyway: a probe causes no call to the API or the store,
however many probes there are.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

from rota.api import ApiKey, ApiSettings, check_bind, serve
from rota.api.http import Response, json_response
from rota.api.server.tls import ServerTls
from rota.api.status_app import StatusApp
from rota.core.cluster import Member
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.outcome import Failed, Lost, Outcome, Released, Snoozed, Stopped, Succeeded, Unknown
from rota.core.worker_orders import WorkerOrders
from rota.ports.client import AttemptReport, WorkSource
from rota.runtime import Link
from rota.runtime.api_server import protection_of
from rota.runtime.membership import Membership
from rota.settings import Settings, host_of, port_of
from rota.telemetry import metric_definitions
from rota.telemetry.metrics import REMEMBERED, Counts, Metrics, MetricValues
from rota.telemetry.prometheus import exposition, is_asked_for
from rota.version import __version__
from rota.wire.system import Liveness, WorkerHealth
from rota.worker import Worker

_log = logging.getLogger("rota.worker")
#: The link counts as broken after this many missed heartbeats.
_MISSED_HEARTBEATS: Final = 3
#: The metric label of each outcome. A worker does not know whether a failure was the last attempt.
_OUTCOME_LABELS: Final[dict[type[Outcome], str]] = {
    Succeeded: "succeeded",
    Failed: "failed",
    Snoozed: "snoozed",
    Released: "released",
    Lost: "lost",
    Stopped: "cancelled",
    Unknown: "dead",
}
Announce = Callable[[Member], Awaitable[None]]


class WorkerEndpoint:
    """Serves the pages of one worker. Made before the worker, whose heartbeats and claims pass through it."""

    def __init__(
        self, settings: Settings, link: Link, heartbeat: timedelta, membership: Membership | None = None
    ) -> None:
        self._membership = membership
        self.host, self._port = host_of(settings.worker_address), port_of(settings.worker_address)
        self._protection = protection_of(settings)
        self._linked_seconds = heartbeat.total_seconds() * _MISSED_HEARTBEATS
        self._announce = link.announce_member
        self._announced_at: float | None = None
        self._worker: Worker | None = None
        self._metrics = Metrics()
        self._broker = None if link.engine is None else link.engine.broker
        self.source = link.source
        if link.engine is None:
            self.source = MeteredSource(link.source, self._metrics)
        else:
            link.engine.telemetry.listen(self._metrics.on_event)
        keys = (ApiKey.of("token", settings.token),) if settings.token else ()
        check_bind(self.host, self._protection, field="worker_address")
        pages = {
            "/livez": self._live,
            "/readyz": self._ready,
            "/healthz": self._ready,
            "/health": self._health,
            "/metrics": self._metrics_page,
        }
        self.board = StatusApp(ApiSettings(keys=keys, serves_any_host=settings.insecure), pages)

    def show(self, worker: Worker) -> None:
        self._worker = worker

    async def announce(self, member: Member) -> WorkerOrders | None:
        """Pass the worker's heartbeat on, and remember when it succeeded."""
        orders = await self._announce(member)
        self._announced_at = time.monotonic()
        return orders

    async def serve(
        self, ready: asyncio.Future[str], sockets: list[socket.socket] | None = None, tls: ServerTls | None = None
    ) -> None:
        """Serve until cancelled, on sockets that are bound already if given; `ready` gets the address."""

        def on_ready(host: str, port: int) -> None:
            _log.info("worker health and metrics on %s://%s:%d", "http" if tls is None else "https", host, port)
            if not ready.done():
                ready.set_result(f"{host}:{port}")

        await serve(
            self.board,
            host=self.host,
            port=self._port,
            protection=self._protection,
            tls=tls,
            on_ready=on_ready,
            sockets=sockets,
        )

    @property
    def _is_linked(self) -> bool:
        return self._announced_at is not None and time.monotonic() - self._announced_at <= self._linked_seconds

    @property
    def _is_coordinator_healthy(self) -> bool:
        return self._membership is None or self._membership.is_healthy

    @property
    def _is_broker_up(self) -> bool:
        return self._broker is None or self._broker.is_up

    @property
    def _is_draining(self) -> bool:
        return self._worker is not None and self._worker.is_draining

    def _live(self, _accept: str) -> Response:
        return json_response(Liveness(status="ok"))

    def _ready(self, _accept: str) -> Response:
        if self._is_draining:
            return json_response(Liveness(status="stopping"), 503, retry_after="1")
        if not self._is_linked:
            return json_response(Liveness(status="no heartbeat was accepted lately"), 503, retry_after="1")
        return json_response(Liveness(status="ok"))

    def _health(self, _accept: str) -> Response:
        is_linked, is_broker_up = self._is_linked, self._is_broker_up
        is_healthy = is_linked and self._is_coordinator_healthy and is_broker_up
        health = WorkerHealth(
            status="stopping" if self._is_draining else "healthy" if is_healthy else "degraded",
            instance_id="" if self._worker is None else self._worker.options.name,
            link_health=is_linked,
            coordinator_health=self._is_coordinator_healthy,
            broker_health=is_broker_up,
            is_draining=self._is_draining,
            slots=self._slots,
            busy=self._busy,
            timestamp=int(time.time()),
        )
        return json_response(health, 200 if is_linked else 503)

    @property
    def _slots(self) -> int:
        return 0 if self._worker is None else self._worker.options.concurrency

    @property
    def _busy(self) -> int:
        return 0 if self._worker is None else self._worker.busy

    def _metrics_page(self, accept: str) -> Response:
        if not is_asked_for(accept):
            return self._health(accept)
        tallies: tuple[MetricValues, ...] = (
            Counts.of(metric_definitions.BUILD, 1, __version__),
            Counts.of(metric_definitions.CPU, time.process_time()),
            Counts.of(metric_definitions.SLOTS, self._slots),
            Counts.of(metric_definitions.BUSY, self._busy),
            Counts.of(metric_definitions.DRAINING, self._is_draining),
            Counts.of(metric_definitions.LINKED, self._is_linked),
            Counts.of(metric_definitions.COORDINATOR_UP, self._is_coordinator_healthy),
            Counts.of(metric_definitions.BROKER_UP, self._is_broker_up),
            *self._metrics.collect(),
            self.board.rejections.counts,
        )
        page = exposition(tallies, accept)
        return Response(page.text, media=page.media)


class MeteredSource:
    """A work source over HTTP that counts claims and outcomes, where no engine in this process emits events."""

    def __init__(self, source: WorkSource, metrics: Metrics) -> None:
        self._source = source
        self._metrics = metrics
        self._held: dict[JobId, Job] = {}

    async def claim(self, claim: Claim, *, wait: timedelta = timedelta(0)) -> Sequence[Job]:
        jobs = await self._source.claim(claim, wait=wait)
        self._metrics.begun(jobs)
        self._held.update((job.id, job) for job in jobs)
        while len(self._held) > REMEMBERED:
            del self._held[next(iter(self._held))]
        return jobs

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[Renewed]:
        return await self._source.renew(renewals)

    async def settle(self, reports: Sequence[AttemptReport]) -> Sequence[JobId]:
        applied = await self._source.settle(reports)
        accepted = set(applied)
        for report in reports:
            job = self._held.get(report.job_id)
            if job is None or job.fence != report.fence:
                continue
            del self._held[report.job_id]
            if report.job_id in accepted:
                self._metrics.ended(job, _OUTCOME_LABELS[type(report.outcome)])
        self._metrics.refused([report.job_id for report in reports if report.job_id not in accepted])
        return applied
