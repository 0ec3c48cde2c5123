"""Targets: who is loaded, as the rest of the bench sees it. One is reached over HTTP, the other is a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from rota.core.lifecycle import State

#: The states that a job of the bench can be in before it has ended.
UNDER_WAY: Final = frozenset({State.PENDING, State.QUEUED, State.RUNNING})


class Trouble(Exception):
    """A request that did not do what it should. `kind` is what it is counted as."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Made:
    """What a request made: the ids of its jobs, and why others were refused."""

    ids: Sequence[str]
    refused: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Strain:
    """What a server has spent so far: CPU seconds of its process, and its calls to the store to submit."""

    cpu_seconds: float | None = None
    store_calls: float = 0.0
    store_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Crew:
    """Who would run the jobs: the workers that take this type from this queue, and their slots."""

    workers: int = 0
    slots: int = 0
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class Tide:
    """How many of the queue's jobs wait, and how many run."""

    waiting: int = 0
    running: int = 0


@dataclass(frozen=True, slots=True)
class Times:
    """When a job was made, leased and ended, all by the store's clock."""

    created: datetime
    started: datetime | None
    finished: datetime | None


class Target(Protocol):
    """What is loaded."""

    #: How a person calls it.
    name: str
    #: What keeps its jobs.
    store: str
    #: Whether there is a way to go, and a server at its end.
    is_http: bool

    async def submit(self, caller: int, count: int) -> Made:
        """Submit jobs, for the caller of a number; raise `Trouble` when that fails as a whole."""
        ...

    async def round_trip(self) -> None:
        """Go there and back without touching the store; do nothing where there is no way to go."""
        ...

    async def strain(self) -> Sequence[Strain]:
        """Say what each of its processes has spent so far; nothing about one that does not say."""
        ...

    async def crew(self) -> Crew:
        """Say who would run the jobs."""
        ...

    async def tide(self) -> Tide:
        """Say how many jobs of this queue and type wait and run."""
        ...

    async def times(self, ids: Sequence[str]) -> Sequence[Times]:
        """Say when jobs were made, leased and ended."""
        ...

    async def cancel(self, ids: Sequence[str]) -> None:
        """Cancel jobs that have not ended."""
        ...

    async def discard(self, ids: Sequence[str]) -> int:
        """Delete cancelled and dead jobs for good, and say how many were."""
        ...

    async def close(self) -> None:
        """Let go of it."""
        ...
