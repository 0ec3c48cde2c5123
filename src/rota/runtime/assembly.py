"""The composition root: builds worker, scheduler, coordinator and membership from the settings.

`rota …` processes and `app.run()` both build their components here, so that a setting holds whichever way Rota is
started. The API is built in `api_server`, which is loaded only where it is served. Nothing is started here; see
`components`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from rota.core.breaker import CircuitBreaker
from rota.core.cluster import Role
from rota.core.limit import Limit
from rota.core.schedule import Draft
from rota.core.submission import DEFAULT_QUEUE
from rota.engine import Engine
from rota.ports.client import WorkSource
from rota.ports.store import Retention
from rota.runtime import Link
from rota.runtime.coordinator import open_coordinator
from rota.runtime.membership import Membership
from rota.scheduler import Scheduler
from rota.settings import Settings, slots_of
from rota.telemetry.tracing import Spans
from rota.version import __version__
from rota.wire.submission import Defaults
from rota.worker import Handler, Handlers, SourceReference, Worker, WorkerOptions
from rota.worker.builtin import FileSettings, builtin_handlers
from rota.worker.worker import Announce

_HEARTBEATS_PER_LEASE: Final = 3
_LONGEST_INTERVAL: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class AppDefinition:
    """What a process needs of an app: the handlers, schedules, defaults and queues of its tasks."""

    handlers: tuple[Handler, ...] = ()
    schedules: tuple[Draft, ...] = ()
    #: The limits of the app's tasks.
    limits: tuple[Limit, ...] = ()
    #: The circuit breakers of the app's tasks.
    breakers: tuple[CircuitBreaker, ...] = ()
    #: The app's name; empty for a process without one.
    app: str = ""
    #: By task, the options of jobs whose submission over HTTP leaves them out.
    defaults: Mapping[str, Defaults] = field(default_factory=dict)
    queues: tuple[str, ...] = ()


def instance_name() -> str:
    """Return the name of this process: host and process id."""
    return f"{socket.gethostname()}-{os.getpid()}"


def worker_name(settings: Settings) -> str:
    return settings.worker_id or instance_name()


def beat_of(settings: Settings) -> timedelta:
    """Return the interval at which a worker renews its leases."""
    return min(settings.lease / _HEARTBEATS_PER_LEASE, _LONGEST_INTERVAL)


def retention_of(settings: Settings) -> Retention:
    return Retention(completed=settings.keep_completed, cancelled=settings.keep_completed, dead=settings.keep_dead)


def defaults_of(settings: Settings, app: AppDefinition) -> Defaults:
    """Return the options of jobs whose submission over HTTP leaves them out; those of the task come first."""
    server = Defaults(max_attempts=settings.max_attempts, backoff=settings.backoff)
    return replace(server, tasks=app.defaults)


def queues_of(settings: Settings, app: AppDefinition) -> tuple[str, ...]:
    """Return the queues that a worker serves: those of the settings, else those of the app's tasks and `default`."""
    if settings.origin("queues") != "default":
        return tuple(slots_of(part)[0] for part in settings.queues)
    return tuple(dict.fromkeys((DEFAULT_QUEUE, *app.queues)))


def queue_slots_of(settings: Settings) -> dict[str, int]:
    """Return the queues with a limit of running jobs of their own, and that limit."""
    return {name: slots for name, slots in map(slots_of, settings.queues) if slots is not None}


def concurrency_of(settings: Settings) -> int:
    """Return how many jobs a worker runs at once: the setting, else the sum of its queues' slots if all have some."""
    slots = queue_slots_of(settings)
    if settings.origin("concurrency") == "default" and len(slots) == len(settings.queues):
        return sum(slots.values())
    return settings.concurrency


def handlers_of(settings: Settings, app: AppDefinition) -> Handlers:
    """Collect the handlers of a worker; an app's task overrides a built-in type of the same name."""
    handlers = Handlers(app.handlers)
    root = Path(settings.file_root) if settings.file_root else None
    files = None if root is None else FileSettings(root, settings.file_quota, settings.file_mode)
    for handler in builtin_handlers(allow_hosts=settings.allow_hosts, files=files, timeout=settings.builtin_timeout):
        if handlers.lookup(handler.type) is None:
            handlers.register(handler)
    return handlers


def build_scheduler(engine: Engine, settings: Settings, stands_by: Callable[[], bool]) -> Scheduler:
    return Scheduler(engine, retention=retention_of(settings), stands_by=stands_by)


def build_worker(
    settings: Settings,
    app: AppDefinition,
    link: Link,
    *,
    source: WorkSource,
    announce: Announce,
    name: str = "",
    address: str = "",
    spans: Spans | None = None,
    keeper: SourceReference | None = None,
    logs: tuple[str, str] | None = None,
) -> Worker:
    """Build the worker. `keeper` says how a lease-keeper process opens the work source; None starts none."""
    options = WorkerOptions(
        name=name or worker_name(settings),
        queues=queues_of(settings, app),
        queue_slots=queue_slots_of(settings),
        concurrency=concurrency_of(settings),
        lease=settings.lease,
        beat=beat_of(settings),
        poll_interval=settings.poll_interval,
        drain_timeout=settings.drain_timeout,
        fail_rate=settings.fail_rate,
        capture_logs=settings.capture_logs,
        version=__version__,
        address=address,
        logs=logs,
        caller_tx_config=link.caller_tx,
    )
    return Worker(
        source,
        handlers_of(settings, app),
        options,
        announce_member=announce,
        register_schemas=link.register_schemas,
        steps=link.steps,
        inputs=link.inputs,
        spans=spans,
        store_time=None if link.engine is None else link.engine.store.time,
        lease_keeper=keeper,
        lease_tokens=link.lease_tokens,
        cipher=link.cipher,
    )


def build_membership(
    settings: Settings,
    engine: Engine | None,
    roles: list[Role],
    *,
    address: str = "",
    instance: str = "",
    follows_configuration: bool = True,
) -> Membership | None:
    """Build the membership of this process; None without a coordinator (a worker over HTTP)."""
    if engine is None and not settings.coordinator.strip():
        return None
    store = None if engine is None else engine.store
    coordinator = open_coordinator(settings.coordinator, store, settings.namespace)
    return Membership(
        coordinator,
        engine,
        roles,
        address=address,
        log_level=settings.log_level,
        instance=instance or instance_name(),
        follows_configuration=follows_configuration,
    )
