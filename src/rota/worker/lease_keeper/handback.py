"""Hand-back of a dead worker's jobs: those it held, and those that were leased to it but never reached it.

Held jobs are reported as lost: their handlers may have started, so each has used an attempt and counts a crash. There
may be more. A waiting claim is answered by the process that submits a job, and for some milliseconds a dead worker
seems alive: then a job is leased to a worker that never receives it. Only the lease keeper has the id of that claim. It
repeats the claim for no queue, so that only jobs can come that were leased under that id before.

A job that was leased and never held was not started, since a worker holds a job before it starts its handler: it is
handed back without using an attempt. Only an at-most-once job is reported as lost in this case as well, because two
things can hide from the keeper that it was held: a full pipe, and a crash between two lease keepers.

A job that came too late for a claim comes with the next one, so two claims may be open at the end.

If the store is unavailable, all this is repeated until the leases have lapsed anyway.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from rota.core.errors import InvalidRequest
from rota.core.job import Job
from rota.core.lease import Claim, WorkerId
from rota.core.outcome import Lost, Released
from rota.core.settlement import JobError
from rota.core.submission import Delivery
from rota.ports.client import AttemptReport, WorkSource
from rota.worker.lease_keeper.protocol import LeaseKey

_log = logging.getLogger("rota.worker.lease_keeper")
LARGEST_BATCH: Final = 500
#: How many of a worker's last claims may have jobs that it has not received.
OPEN_CLAIMS: Final = 2
PAUSE_SECONDS: Final = 0.2

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DeadWorker:
    """A worker that died, its leases, the ids of its last claims, and the error to report."""

    worker: WorkerId
    held: tuple[LeaseKey, ...]
    claim_ids: tuple[str, ...]
    error: JobError


async def hand_back(source: WorkSource, dead: DeadWorker, *, give_up_at: float) -> None:
    """Make a dead worker's jobs available to others."""
    lost = [AttemptReport(job_id, fence, Lost(dead.error)) for job_id, fence in dead.held]
    for reports in batches(lost):
        await _retry(partial(source.settle, reports), give_up_at)
    held = set(dead.held)
    for claim_id in dead.claim_ids:
        jobs = await _retry(partial(_leased_under, source, dead.worker, claim_id), give_up_at) or ()
        unknown = [_report(job, dead.error) for job in jobs if (job.id, job.fence) not in held]
        for reports in batches(unknown):
            await _retry(partial(source.settle, reports), give_up_at)


async def _leased_under(source: WorkSource, worker: WorkerId, claim_id: str) -> Sequence[Job]:
    """Return the jobs that were leased under a claim, and lease no others."""
    try:
        return await source.claim(Claim(worker, limit=1, queues=(), types=(), claim_id=claim_id))
    except InvalidRequest as refusal:
        # An API requires a queue in a claim; then these jobs wait until their leases lapse.
        _log.debug("the jobs of the dead worker's last claim, if any, wait until their leases lapse: %s", refusal)
        return ()


def _report(job: Job, error: JobError) -> AttemptReport:
    is_safe = job.delivery is not Delivery.AT_MOST_ONCE
    return AttemptReport(job.id, job.fence, Released(started=False) if is_safe else Lost(error))


async def _retry(call: Callable[[], Awaitable[T]], give_up_at: float) -> T | None:
    """Repeat a call until it succeeds; None if it does not in time."""
    while time.monotonic() < give_up_at:
        try:
            return await call()
        except Exception as failure:  # noqa: BLE001 - a transport may raise anything
            _log.warning("the jobs of a dead worker could not be handed back; trying again: %s", failure)
            await asyncio.sleep(PAUSE_SECONDS)
    return None


def batches(items: Sequence[T]) -> Iterable[Sequence[T]]:
    """Split into batches that a source accepts."""
    return (items[start : start + LARGEST_BATCH] for start in range(0, len(items), LARGEST_BATCH))
