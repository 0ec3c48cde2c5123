"""Leases: who may run a job, until when, and under which fence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from rota.core.identity import JobId

DEFAULT_LEASE: Final = timedelta(seconds=15)
#: How long ahead of its time a job is claimed at most by a worker that has nothing else to do. Longer than a claim
#: takes where the disk is slow; and no longer, since a slot in which a job waits for its time is no slot for others.
AHEAD: Final = timedelta(milliseconds=100)
NOT_AHEAD: Final = timedelta(0)
GOES_AWAY: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class WorkerId:
    """A worker's name and the random mark of this start of it: a reused name is not the same worker."""

    name: str
    boot: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker's request for work.

    `types=None` takes every type. `ids` limits the claim to jobs that a broker handed over. `claim_id` names the
    request, so that one whose reply was lost can be repeated and yields the same jobs; `is_new` says that it
    is asked for the first time, so that no former answer needs to be looked for. Who says `ahead` can keep time: where
    nothing is due, it takes jobs whose time comes within this span, and begins none of them before its time. One that
    `is_woken` comes from who has looked at all there is, found nothing and was rung for since: a store that has heard
    of one job meanwhile may give that alone, if there is room for more. Who `stays` waits for so long where there is
    nothing: whoever brings a job meanwhile may lease it under the name of this claim, which gives it when asked again.
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
    stays: timedelta = GOES_AWAY


@dataclass(frozen=True, slots=True)
class Renewal:
    """A worker's word that it still runs a job, with what the attempt has to show since the last one."""

    job_id: JobId
    fence: int
    lease: timedelta = DEFAULT_LEASE
    progress: str | None = None
    log_tail: str | None = None


@dataclass(frozen=True, slots=True)
class Renewed:
    """The store's answer to a renewal that holds. `cancel` asks the worker to stop the job."""

    job_id: JobId
    fence: int
    until: datetime
    cancel: bool
