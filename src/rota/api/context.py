"""State shared by all routes of one API: the engine, settings, counters and watchers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rota.api.counts import JobCounts
from rota.api.limits import RejectionCounts, StreamSlots
from rota.api.live import LiveStream
from rota.api.settings import ApiSettings, Limits
from rota.api.token_cache import TokenCache
from rota.core.job import Job
from rota.engine import Engine
from rota.telemetry.events import CancelAsked, Event
from rota.telemetry.metrics import Metrics
from rota.wire.overview import OverviewForm

CancelledJobs = asyncio.Future[Sequence[Job]]


class CancelWatch:
    """Delivers cancels of running jobs to workers that wait for them over HTTP.

    Only cancels that pass through this process are delivered, and only to a worker that waits at that moment.
    All cancels come with heartbeats; most come sooner this way. One telemetry listener serves all workers, because
    events are frequent and cancels are rare.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, list[CancelledJobs]] = {}

    def on_event(self, event: Event) -> None:
        if type(event) is not CancelAsked or not self._waiting:
            return
        for worker in {job.worker for job in event.jobs if job.worker}:
            jobs = [job for job in event.jobs if job.worker == worker]
            for future in self._waiting.get(worker, ()):
                if not future.done():
                    future.set_result(jobs)

    @contextmanager
    def watch(self, worker: str) -> Iterator[CancelledJobs]:
        """Give a future that resolves to the worker's running jobs that are cancelled."""
        future: CancelledJobs = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(worker, []).append(future)
        try:
            yield future
        finally:
            self._waiting[worker].remove(future)
            if not self._waiting[worker]:
                del self._waiting[worker]
            future.cancel()


@dataclass
class Context:
    """What all routes share."""

    engine: Engine
    settings: ApiSettings
    #: Set when the server stops: long polls answer at once.
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    #: Work that goes on after its request was answered; cancelled when the server stops.
    background_tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.started_at = self.engine.clock()
        self.streams = StreamSlots(self.limits)
        self.counts = JobCounts(self.engine, self.background_tasks)
        self.live = LiveStream(self.engine, self.counts)
        self.rejections = RejectionCounts()
        self.tokens = TokenCache(self.engine)
        self.metrics = Metrics(clock=self.engine.clock)
        self.stop_metrics = self.engine.telemetry.listen(self.metrics.on_event)
        self.cancel_watch = CancelWatch()
        self.stop_cancels = self.engine.telemetry.listen(self.cancel_watch.on_event)
        #: The last overview and when it was made, by the monotonic clock.
        self.overview: tuple[float, OverviewForm] | None = None
        self.overview_lock = asyncio.Lock()
        #: Makes the OpenAPI document; set by the application, which knows all routes.
        self.describe: Callable[[], dict[str, Any]] = dict

    @cached_property
    def document(self) -> dict[str, Any]:
        """The OpenAPI document, made when it is first requested."""
        return self.describe()

    @property
    def limits(self) -> Limits:
        return self.settings.limits
