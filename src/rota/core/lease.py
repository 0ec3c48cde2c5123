"""Leases: the right of a worker to run a job until a time, under a fence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from rota.core.ids import JobId

DEFAULT_LEASE: Final = timedelta(seconds=15)
#: How long ahead of its time an idle worker may claim a job. Longer than a claim takes on a slow disk; not longer,
#: because a slot in which a job waits for its time is not free for others.
AHEAD: Final = timedelta(milliseconds=100)
NOT_AHEAD: Final = timedelta(0)
NO_WAIT: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class WorkerId:
    """A worker's name and the random id of this start of it: a reused name is not the same worker."""

    name: str
    boot: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker's request for work.

    - `types=None` takes every type; `ids` limits the claim to jobs that a broker handed over.
    - `claim_id` names the claim, so that one whose reply was lost can be repeated and yields the same jobs. `is_new`
      says that it is sent for the first time, so that the store need not search for a former answer.
    - `ahead`: if nothing is due, take jobs whose time comes within this span. The worker starts none before its time.
    - `is_woken`: an earlier claim of the worker returned nothing, and it was woken since. A store that was notified of
      one new job may return just that one, if the worker has slots for more.
    - `waits`: how long the worker waits if there is no job. A store that keeps waiting claims may lease a job to this
      claim meanwhile; the repeated claim returns it.
    """

    worker: WorkerId
    limit: int
    queues: tuple[str, ...] = ("default",)
    types: tuple[str, ...] | None = None
    lease: timedelta = DEFAULT_LEASE
    claim_id: str | None = None
    ids: tuple[JobId, ...] | None = None
    is_new: bool = False
    ahead: timedelta = NOT_AHEAD
    is_woken: bool = False
    waits: timedelta = NO_WAIT


@dataclass(frozen=True, slots=True)
class Renewal:
    """A worker's request to extend a lease, with the progress and log of the attempt since the last one."""

    job_id: JobId
    fence: int
    lease: timedelta = DEFAULT_LEASE
    progress: str | None = None
    log_tail: str | None = None


@dataclass(frozen=True, slots=True)
class Renewed:
    """The store's answer to a renewal that was accepted. `cancel` asks the worker to stop the job."""

    job_id: JobId
    fence: int
    until: datetime
    cancel: bool
