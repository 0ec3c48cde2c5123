"""What a worker shows of itself over HTTP: whether it lives, whether it can work, and what it has done.

Whether it can work is seen from its signs of life, which it gives anyway: nothing is asked of the API or the store
because someone asked us, so a swarm of probes costs them nothing.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from rota.api import ApiKey, ApiSettings, check_bind, serve
from rota.api.board import Board
from rota.api.calls import Answer, shown
from rota.core.fleet import Member
from rota.roles.metering import MeteredSource
from rota.roles.presence import Presence
from rota.runtime import Link
from rota.settings import Settings, host_of, port_of
from rota.telemetry import catalogue
from rota.telemetry.exposition import exposition, is_asked_for
from rota.telemetry.metrics import Metrics
from rota.telemetry.tallies import Counts, Tally
from rota.version import __version__
from rota.wire.system import Liveness, WorkerHealth
from rota.worker import Worker

_log = logging.getLogger("rota.worker")
#: A sign of life may be late by so many beats before the link counts as broken.
_BEATS: Final = 3
Announce = Callable[[Member], Awaitable[None]]


class WorkerEndpoint:
    """The pages of one worker. Made before the worker, whose work and signs of life it looks at."""

    def __init__(self, settings: Settings, link: Link, beat: timedelta, presence: Presence | None = None) -> None:
        self._presence = presence
        self.host, self._port = host_of(settings.worker_address), port_of(settings.worker_address)
        self._insecure = settings.insecure
        self._patience = beat.total_seconds() * _BEATS
        self._announce = link.announce_member
        self._heard_at: float | None = None
        self._worker: Worker | None = None
        self._metrics = Metrics()
        self._broker = None if link.engine is None else link.engine.broker
        self.source = link.source
        if link.engine is None:
            self.source = MeteredSource(link.source, self._metrics)
        else:
            link.engine.telemetry.listen(self._metrics.heard)
        keys = (ApiKey.of("token", settings.token),) if settings.token else ()
        check_bind(self.host, bool(keys), settings.insecure, field="worker_address")
        pages = {
            "/livez": self._live,
            "/readyz": self._ready,
            "/healthz": self._ready,
            "/health": self._health,
            "/metrics": self._scraped,
        }
        self.board = Board(ApiSettings(keys=keys, serves_any_host=settings.insecure), pages)

    def show(self, worker: Worker) -> None:
        """Show this worker from now on."""
        self._worker = worker

    async def announce(self, member: Member) -> None:
        """Tell the others of the worker, and remember that they could be told."""
        await self._announce(member)
        self._heard_at = time.monotonic()

    async def serve(self, ready: asyncio.Future[str], sockets: list[socket.socket] | None = None) -> None:
        """Serve until cancelled, on sockets that are bound already if given; `ready` is told the address."""

        def on_ready(host: str, port: int) -> None:
            _log.info("the worker shows its health on http://%s:%d", host, port)
            if not ready.done():
                ready.set_result(f"{host}:{port}")

        await serve(
            self.board, host=self.host, port=self._port, insecure=self._insecure, on_ready=on_ready, sockets=sockets
        )

    @property
    def _is_linked(self) -> bool:
        return self._heard_at is not None and time.monotonic() - self._heard_at <= self._patience

    @property
    def _is_coordinated(self) -> bool:
        return self._presence is None or self._presence.is_healthy

    @property
    def _is_carried(self) -> bool:
        return self._broker is None or self._broker.is_up

    @property
    def _is_draining(self) -> bool:
        return self._worker is not None and self._worker.is_draining

    def _live(self, _accept: str) -> Answer:
        return shown(Liveness(status="ok"))

    def _ready(self, _accept: str) -> Answer:
        if self._is_draining:
            return shown(Liveness(status="stopping"), 503, retry_after="1")
        if not self._is_linked:
            return shown(Liveness(status="no sign of life was taken lately"), 503, retry_after="1")
        return shown(Liveness(status="ok"))

    def _health(self, _accept: str) -> Answer:
        is_linked, is_carried = self._is_linked, self._is_carried
        is_well = is_linked and self._is_coordinated and is_carried
        form = WorkerHealth(
            status="stopping" if self._is_draining else "healthy" if is_well else "degraded",
            instance_id="" if self._worker is None else self._worker.options.name,
            link_health=is_linked,
            coordinator_health=self._is_coordinated,
            broker_health=is_carried,
            is_draining=self._is_draining,
            slots=self._slots,
            busy=self._busy,
            timestamp=int(time.time()),
        )
        return shown(form, 200 if is_linked else 503)

    @property
    def _slots(self) -> int:
        return 0 if self._worker is None else self._worker.options.concurrency

    @property
    def _busy(self) -> int:
        return 0 if self._worker is None else self._worker.busy

    def _scraped(self, accept: str) -> Answer:
        if not is_asked_for(accept):
            return self._health(accept)
        tallies: tuple[Tally, ...] = (
            Counts.of(catalogue.BUILD, 1, __version__),
            Counts.of(catalogue.CPU, time.process_time()),
            Counts.of(catalogue.SLOTS, self._slots),
            Counts.of(catalogue.BUSY, self._busy),
            Counts.of(catalogue.DRAINING, self._is_draining),
            Counts.of(catalogue.LINKED, self._is_linked),
            Counts.of(catalogue.COORDINATOR_UP, self._is_coordinated),
            Counts.of(catalogue.BROKER_UP, self._is_carried),
            *self._metrics.tallies(),
            self.board.rejections.counts,
        )
        written = exposition(tallies, accept)
        return Answer(written.text, media=written.media)
