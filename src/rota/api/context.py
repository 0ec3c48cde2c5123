"""State shared by all routes of one API: the engine, settings, counters and watchers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final, Protocol

from rota.api.counts import JobCounts
from rota.api.limits import RejectionCounts, StreamSlots
from rota.api.live import LiveStream
from rota.api.logins import Logins
from rota.api.settings import ApiSettings, Limits
from rota.api.shared_answers import SharedAnswers
from rota.api.token_cache import TokenCache
from rota.api.token_limits import Quota, TokenLimiter
from rota.core.cluster import Leadership
from rota.core.health import HealthProblem
from rota.core.job import Job
from rota.core.namespace import Namespace, NamespaceLimits
from rota.engine import Engine
from rota.ports.client import Actor
from rota.telemetry.events import CancelAsked, Event, LeaderChanged
from rota.telemetry.metrics import Metrics
from rota.wire.overview import OverviewForm

#: How many leaders are remembered.
MOST_LEADERS = 50
#: So many large pages are made at once by a process; others wait for a moment.
LARGE_PAGES: Final = 4
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
        """Return a future that resolves to the worker's running jobs that are cancelled."""
        future: CancelledJobs = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(worker, []).append(future)
        try:
            yield future
        finally:
            self._waiting[worker].remove(future)
            if not self._waiting[worker]:
                del self._waiting[worker]
            future.cancel()


class NamespaceHost(Protocol):
    """The other namespaces that an API serves."""

    def opened(self, name: str) -> Context | None:
        """Return the context of a namespace that is open and not deleted; None if it has to be opened or is unknown."""
        ...

    async def open(self, name: str) -> Context:
        """Open a namespace; raise `NamespaceNotFound` if there is none of this name."""
        ...

    def contexts(self) -> Iterable[Context]:
        """Return the contexts of all open namespaces."""
        ...

    async def create(self, name: str, limits: NamespaceLimits, by: Actor) -> Namespace:
        """List a namespace and make its tables."""
        ...

    async def refresh(self) -> None:
        """Read the list of namespaces again, after a change through this process."""
        ...


@dataclass
class Context:
    """What all routes of one namespace share."""

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
        self.shared_answers: SharedAnswers[Any] = SharedAnswers()
        self.live = LiveStream(self.engine, self.counts, on_update=self.shared_answers.forget)
        self.rejections = RejectionCounts()
        self.tokens = TokenCache(self.engine)
        self.logins = Logins(self.engine, self.rejections)
        self.token_limiter = TokenLimiter(self.limits)
        #: Taken while a page of up to eight megabytes is made.
        self.large_pages = asyncio.Semaphore(LARGE_PAGES)
        self.metrics = Metrics(clock=self.engine.clock)
        self.stop_metrics = self.engine.telemetry.listen(self.metrics.on_event)
        self.cancel_watch = CancelWatch()
        self.stop_cancels = self.engine.telemetry.listen(self.cancel_watch.on_event)
        #: The leaders that this process has seen, the latest last, and when each was first seen.
        self.leaders: deque[tuple[datetime, Leadership]] = deque(maxlen=MOST_LEADERS)
        self.stop_leaders = self.engine.telemetry.listen(self._on_leader)
        #: The last overview and when it was made, by the monotonic clock.
        self.overview: tuple[float, OverviewForm] | None = None
        self.overview_lock = asyncio.Lock()
        #: The problems that need an operator, and when they were found, by the monotonic clock.
        self.problems: tuple[float, list[HealthProblem]] | None = None
        self.problems_lock = asyncio.Lock()
        #: Makes the OpenAPI document; set by the application, which knows all routes.
        self.describe: Callable[[], dict[str, Any]] = dict
        #: The other namespaces; None where there can be none.
        self.namespaces: NamespaceHost | None = None
        #: The limits of this namespace on requests; None without any.
        self.quota: Quota | None = None

    def _on_leader(self, event: Event) -> None:
        if type(event) is LeaderChanged:
            self.leaders.append((self.engine.clock(), event.leadership))

    def for_namespace(self, engine: Engine, settings: ApiSettings) -> Context:
        """Make the context of another namespace on the same server: tokens, streams and pages count together."""
        other = Context(engine, settings)
        other.streams, other.tokens, other.token_limiter = self.streams, self.tokens, self.token_limiter
        other.large_pages, other.describe = self.large_pages, self.describe
        return other

    def limit(self, limits: NamespaceLimits) -> None:
        """Set the limits of this namespace."""
        self.engine.waiting_limit.most = limits.jobs_waiting
        given = {name: most for name, most in limits.given.items() if name != "jobs_waiting"}
        name = self.engine.namespace
        self.quota = Quota(f"namespace {name}", f"the namespace {name!r}", "namespace_limit", given) if given else None

    async def aclose(self) -> None:
        """Stop counting, and cancel the work that goes on behind answered requests."""
        self.stop_metrics()
        self.stop_cancels()
        self.stop_leaders()
        tasks = tuple(self.background_tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @cached_property
    def document(self) -> dict[str, Any]:
        """The OpenAPI document, made when it is first requested."""
        return self.describe()

    @property
    def limits(self) -> Limits:
        return self.settings.limits
