"""Who takes part: workers, schedulers and API nodes, and which of them leads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Role(StrEnum):
    """What a process is there for."""

    WORKER = "worker"
    SCHEDULER = "scheduler"
    API = "api"


@dataclass(frozen=True, slots=True)
class Member:
    """A process that takes part, as it last described itself. Without `seen_at` it has not been seen yet."""

    role: Role
    name: str
    boot: str
    host: str = ""
    pid: int = 0
    version: str = ""
    address: str = ""
    queues: tuple[str, ...] = ()
    types: tuple[str, ...] | None = ()
    slots: int = 0
    busy: int = 0
    is_draining: bool = False
    started_at: datetime | None = None
    seen_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Leadership:
    """Who leads, until when. `term` grows by one with every change of leader."""

    name: str
    holder: str
    term: int
    until: datetime
