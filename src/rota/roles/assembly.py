"""The composition root: builds link, worker, scheduler and API from the settings.

`rota …` processes and `app.run()` both build their parts here, so that a setting holds whichever way Rota is started.
Nothing is started here; see `parts`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from rota.core.fleet import Role
from rota.core.schedule import Draft
from rota.core.submission import DEFAULT_QUEUE
from rota.engine import Engine
from rota.ports.faces import WorkSource
from rota.ports.store import Retention
from rota.roles.presence import Presence
from rota.runtime import Link, open_coordinator
from rota.scheduler import Scheduler
from rota.settings import Settings, slots_of
from rota.telemetry.tracing import Spans
from rota.version import __version__
from rota.wire.submission import Defaults
from rota.worker import Handler, Handlers, SourceReference, Worker, WorkerOptions
from rota.worker.builtin import FileSettings, builtin_handlers
from rota.worker.worker import Announce

_BEATS_PER_LEASE: Final = 3
_LONGEST_BEAT: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Program:
    """What an app brings to a process: the handlers, schedules, defaults and queues of its tasks."""

    handlers: tuple[Handler, ...] = ()
    schedules: tuple[Draft, ...] = ()
    #: The app's name; empty for a process without one.
    app: str = ""
    #: What jobs of a task get where their submission over HTTP says nothing.
    defaults: Mapping[str, Defaults] = field(default_factory=dict)
    queues: tuple[str, ...] = ()


def instance_name() -> str:
    """Name this process: host and process id."""
    return f"{socket.gethostname()}-{os.getpid()}"


def worker_name(settings: Settings) -> str:
    """Name the worker of this process."""
    return settings.worker_id or instance_name()


def beat_of(settings: Settings) -> timedelta:
    """Say how often a worker renews its leases."""
    return min(settings.lease / _BEATS_PER_LEASE, _LONGEST_BEAT)


def retention_of(settings: Settings) -> Retention:
    """Say how long finished jobs are kept."""
    return Retention(completed=settings.keep_completed, cancelled=settings.keep_completed, dead=settings.keep_dead)


def defaults_of(settings: Settings, program: Program) -> Defaults:
    """Say what jobs get where their submission over HTTP says nothing; the options of a task come first."""
    server = Defaults(max_attempts=settings.max_attempts, backoff=settings.backoff)
    return replace(server, tasks=program.defaults)


def queues_of(settings: Settings, program: Program) -> tuple[str, ...]:
    """Say which queues a worker serves: those of the settings, else those of the app's tasks and the default one."""
    if settings.origin("queues") != "default":
        return tuple(slots_of(part)[0] for part in settings.queues)
    return tuple(dict.fromkeys((DEFAULT_QUEUE, *program.queues)))


def queue_slots_of(settings: Settings) -> dict[str, int]:
    """Say how many jobs of a queue a worker runs at once, for the queues that have a bound of their own."""
    return {name: slots for name, slots in map(slots_of, settings.queues) if slots is not None}


def concurrency_of(settings: Settings) -> int:
    """Say how many jobs a worker runs at once: as set, else as many as its queues have slots, if all have some."""
    slots = queue_slots_of(settings)
    if settings.origin("concurrency") == "default" and len(slots) == len(settings.queues):
        return sum(slots.values())
    return settings.concurrency


def handlers_of(settings: Settings, program: Program) -> Handlers:
    """Gather the handlers of a worker; an app's task goes before a built-in type of the same name."""
    handlers = Handlers(program.handlers)
    root = Path(settings.file_root) if settings.file_root else None
    files = None if root is None else FileSettings(root, settings.file_quota, settings.file_mode)
    for handler in builtin_handlers(allow_hosts=settings.allow_hosts, files=files, timeout=settings.builtin_timeout):
        if handlers.lookup(handler.type) is None:
            handlers.register(handler)
    return handlers


def build_scheduler(engine: Engine, settings: Settings, stands_by: Callable[[], bool]) -> Scheduler:
    """Build the scheduler."""
    return Scheduler(engine, retention=retention_of(settings), stands_by=stands_by)


def build_worker(
    settings: Settings,
    program: Program,
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
    """Build the worker. `keeper` tells how a lease-keeper process reaches the source; without one there is none."""
    options = WorkerOptions(
        name=name or worker_name(settings),
        queues=queues_of(settings, program),
        queue_slots=queue_slots_of(settings),
        concurrency=concurrency_of(settings),
        lease=settings.lease,
        beat=beat_of(settings),
        poll_interval=settings.poll_interval,
        drain_timeout=settings.drain_timeout,
        fail_rate=settings.fail_rate,
        version=__version__,
        address=address,
        logs=logs,
        house=link.house,
    )
    return Worker(
        source,
        handlers_of(settings, program),
        options,
        announce_member=announce,
        steps=link.steps,
        spans=spans,
        store_time=None if link.engine is None else link.engine.store.time,
        companion=keeper,
    )


def make_presence(
    settings: Settings, engine: Engine | None, roles: list[Role], *, address: str = "", instance: str = ""
) -> Presence | None:
    """Build what makes this process known to the others; None where there is nobody to tell but the API."""
    coordinator = open_coordinator(settings.coordinator, None if engine is None else engine.store)
    if coordinator is None:
        return None
    return Presence(
        coordinator, engine, roles, address=address, log_level=settings.log_level, instance=instance or instance_name()
    )
