"""Options of a worker, checked once."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from rota.core.errors import InvalidRequest
from rota.core.lease import DEFAULT_LEASE, WorkerId
from rota.ports.caller_tx import CallerTxConfig


def fresh_boot() -> str:
    """Make a random id for this start of a worker: another process with the same name is another worker."""
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Options of one worker. `concurrency` is the number of slots for all executors together."""

    name: str
    boot: str = field(default_factory=fresh_boot)
    queues: tuple[str, ...] = ("default",)
    #: The most jobs of a queue that run at once, for queues with a bound of their own.
    queue_slots: Mapping[str, int] = field(default_factory=dict)
    concurrency: int = 10
    lease: timedelta = DEFAULT_LEASE
    beat: timedelta = timedelta(seconds=5)
    #: How long a claim waits for work at most; never more than a part of the lease.
    poll_interval: timedelta = timedelta(seconds=20)
    #: From the first signal to the end of `run`, including the hand-back.
    drain_timeout: timedelta = timedelta(seconds=30)
    #: How long a handler that was asked to stop may take before it is abandoned.
    stop_grace: timedelta = timedelta(seconds=5)
    #: The fraction of attempts that fail on purpose.
    fail_rate: float = 0.0
    #: The largest result that is stored, as JSON.
    result_bytes: int = 4_000_000
    #: A child process is replaced after this many jobs, or once it has grown beyond this many bytes.
    child_jobs: int = 1000
    child_bytes: int | None = None
    #: How long the lease keeper renews for a worker that sends nothing (something holds its GIL).
    silence: timedelta = timedelta(minutes=15)
    #: Run async handlers on a loop of their own. Only a simulation, in which nothing blocks, does not.
    own_loop: bool = True
    #: Keep the `logging` records of handlers with their jobs.
    capture_logs: bool = True
    #: Level and format of log lines in child processes; None leaves their logging alone.
    logs: tuple[str, str] | None = None
    #: How steps join a handler's own transaction; None if the worker reaches the store over HTTP.
    caller_tx_config: CallerTxConfig | None = None
    host: str = ""
    version: str = ""
    address: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidRequest("worker.name: must not be empty", field="name")
        if self.concurrency < 1:
            raise InvalidRequest(f"worker.concurrency: {self.concurrency} must be 1 or more", field="concurrency")
        if self.poll_interval <= timedelta(0):
            raise InvalidRequest("worker.poll_interval: must be more than 0 s", field="poll_interval")
        if not 0 <= self.fail_rate <= 1:
            raise InvalidRequest(f"worker.fail_rate: {self.fail_rate} must be between 0 and 1", field="fail_rate")
        if not timedelta(0) < self.beat * 2 <= self.lease:
            raise InvalidRequest(
                f"worker.beat: {self.beat.total_seconds():g} s must be at most half of the lease, "
                f"{self.lease.total_seconds():g} s, or one late heartbeat loses every job",
                field="beat",
            )

    @property
    def identity(self) -> WorkerId:
        return WorkerId(self.name, self.boot)
