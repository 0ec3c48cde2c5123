"""Bench targets: the interface of what is loaded. `http_target` is an API over HTTP, `store_target` a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from rota.core.lifecycle import State

#: The states of a bench job that is not finished.
UNFINISHED: Final = frozenset({State.PENDING, State.QUEUED, State.RUNNING})


class RequestFailed(Exception):
    """A request that failed. Failures are counted by `kind`."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Submitted:
    """The ids of the jobs that a request submitted, and why others were refused."""

    ids: Sequence[str]
    refused: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ServerUsage:
    """Resources a server has used so far: CPU seconds of its process, and its calls to the store to submit."""

    cpu_seconds: float | None = None
    store_calls: float = 0.0
    store_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkerCapacity:
    """The workers that take jobs of this type from this queue, and their slots."""

    workers: int = 0
    slots: int = 0
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """How many jobs of the queue wait, and how many run."""

    waiting: int = 0
    running: int = 0


@dataclass(frozen=True, slots=True)
class JobTimes:
    """When a job was created, started and finished, by the store's clock."""

    created: datetime
    started: datetime | None
    finished: datetime | None


class Target(Protocol):
    """What is loaded: a deployment or a store."""

    #: Its address, shown in the report.
    name: str
    #: The kind of its store.
    store: str
    #: Whether it is reached over HTTP.
    is_http: bool

    async def submit(self, caller: int, count: int) -> Submitted:
        """Submit jobs, on the connection of a caller; raise `RequestFailed` if the request fails as a whole."""
        ...

    async def round_trip(self) -> None:
        """Send a request that does not use the store; do nothing on a store."""
        ...

    async def usage(self) -> Sequence[ServerUsage]:
        """Return the resources that each of its processes has used so far, without those that do not report it."""
        ...

    async def capacity(self) -> WorkerCapacity:
        """Return the workers that would run the jobs."""
        ...

    async def counts(self) -> QueueCounts:
        """Count the jobs of this queue and type that wait and run."""
        ...

    async def times(self, ids: Sequence[str]) -> Sequence[JobTimes]:
        """Return when jobs were created, started and finished."""
        ...

    async def cancel(self, ids: Sequence[str]) -> None:
        """Cancel jobs that are not finished."""
        ...

    async def discard(self, ids: Sequence[str]) -> int:
        """Delete cancelled and dead jobs, and give how many were."""
        ...

    async def close(self) -> None:
        """Close its connections."""
        ...
