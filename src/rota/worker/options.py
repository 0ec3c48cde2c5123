"""How a worker works: its settings, in one value, checked once."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from rota.core.errors import InvalidRequest
from rota.core.lease import DEFAULT_LEASE, WorkerId
from rota.ports.guest import House


def fresh_boot() -> str:
    """Mark this start of a worker: a reused name is not the same worker."""
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Settings of one worker. Concurrency counts handlers of every kind together."""

    name: str
    boot: str = field(default_factory=fresh_boot)
    queues: tuple[str, ...] = ("default",)
    #: How many jobs of a queue run at once at most, for queues with a bound of their own.
    queue_slots: Mapping[str, int] = field(default_factory=dict)
    concurrency: int = 10
    lease: timedelta = DEFAULT_LEASE
    beat: timedelta = timedelta(seconds=5)
    #: How long to wait for news at most before asking anew; never more than a part of the lease.
    poll_interval: timedelta = timedelta(seconds=20)
    #: From the first signal to the end of `run`, handing back included.
    drain_timeout: timedelta = timedelta(seconds=30)
    #: How long a handler that was told to stop may take to do so before it is left behind.
    stop_grace: timedelta = timedelta(seconds=5)
    #: The part of all attempts that fails on purpose.
    fail_rate: float = 0.0
    #: The largest result that is kept, as JSON.
    result_bytes: int = 4_000_000
    #: A child process is replaced after so many jobs, or once it has grown beyond so many bytes.
    child_jobs: int = 1000
    child_bytes: int | None = None
    #: How long the companion keeps leases for a worker that says nothing at all (something holds its GIL).
    silence: timedelta = timedelta(minutes=15)
    #: Run handlers on a loop of their own. Only a simulation, in which nothing blocks, does without.
    own_loop: bool = True
    #: The level and the form of log lines in child processes; None leaves their logging alone.
    logs: tuple[str, str] | None = None
    #: How a handler's own connections become a part of the store; None where the store is out of reach.
    house: House | None = None
    host: str = ""
    version: str = ""
    address: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidRequest("worker.name: must not be empty", field="name")
        if self.concurrency < 1:
            raise InvalidRequest(f"worker.concurrency: {self.concurrency} must be 1 or more", field="concurrency")
        if self.poll_interval <= timedelta(0):
            raise InvalidRequest("worker.poll_interval: must be longer than nothing", field="poll_interval")
        if not 0 <= self.fail_rate <= 1:
            raise InvalidRequest(f"worker.fail_rate: {self.fail_rate} must lie between 0 and 1", field="fail_rate")
        if not timedelta(0) < self.beat * 2 <= self.lease:
            raise InvalidRequest(
                f"worker.beat: {self.beat.total_seconds():g} s must be at most half of the lease, "
                f"{self.lease.total_seconds():g} s, or one late beat loses every job",
                field="beat",
            )

    @property
    def identity(self) -> WorkerId:
        """Who claims."""
        return WorkerId(self.name, self.boot)
