"""What a dead worker leaves: leases that it held, and answers that it never heard.

What it held is lost: its handlers may have begun, so each job has used an attempt and bears a mark. But there may be
more. A claim that waits is answered by whoever brings a job, and for some milliseconds the dead look alive: then a job
is leased to somebody who never learns of it. Nobody but us knows by which name to ask for it. We ask for no queue, so
that nothing can come but what was given by that name before.

What was given and never held was not begun, since a worker holds before it begins: it is handed back as it was. Only a
job that must run at most once is lost in this case as well. Two things can keep from us that it was held: a pipe that
was full, and an end between two companions.

A job that came too late for a question comes along with the next one, so two questions may be open at the end.

Should the store be away, all this is tried until the leases have run out anyway.
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
from rota.ports.faces import Report, WorkSource
from rota.worker.leases import Key

_log = logging.getLogger("rota.worker.companion")
LARGEST_BATCH: Final = 500
#: How many of a worker's last questions may have answers that it has not heard.
QUESTIONS: Final = 2
PAUSE_SECONDS: Final = 0.2

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Estate:
    """What a worker leaves, and why."""

    worker: WorkerId
    held: tuple[Key, ...]
    asked: tuple[str, ...]
    error: JobError


async def give_back(source: WorkSource, estate: Estate, *, give_up_at: float) -> None:
    """Have others do what a dead worker leaves."""
    lost = [Report(job_id, fence, Lost(estate.error)) for job_id, fence in estate.held]
    for reports in batches(lost):
        await _insist(partial(source.settle, reports), give_up_at)
    held = set(estate.held)
    for question in estate.asked:
        jobs = await _insist(partial(_answer_to, source, estate.worker, question), give_up_at) or ()
        unheard = [_report(job, estate.error) for job in jobs if (job.id, job.fence) not in held]
        for reports in batches(unheard):
            await _insist(partial(source.settle, reports), give_up_at)


async def _answer_to(source: WorkSource, worker: WorkerId, question: str) -> Sequence[Job]:
    """Ask what a question has brought, for nothing new."""
    try:
        return await source.claim(Claim(worker, limit=1, queues=(), types=(), claim_id=question))
    except InvalidRequest as refusal:
        # Nobody need act: an API wants to be told a queue, and what it gave waits for its lease as it ever did.
        _log.debug("what a dead worker's last question brought, if anything, is left to its lease: %s", refusal)
        return ()


def _report(job: Job, error: JobError) -> Report:
    is_safe = job.delivery is not Delivery.AT_MOST_ONCE
    return Report(job.id, job.fence, Released(started=False) if is_safe else Lost(error))


async def _insist(ask: Callable[[], Awaitable[T]], give_up_at: float) -> T | None:
    """Ask until there is an answer; None if there is none in time."""
    while time.monotonic() < give_up_at:
        try:
            return await ask()
        except Exception as failure:  # noqa: BLE001 - a transport may raise anything
            _log.warning("a dead worker's leases could not be given up: %s", failure)
            await asyncio.sleep(PAUSE_SECONDS)
    return None


def batches(many: Sequence[T]) -> Iterable[Sequence[T]]:
    """Give no more at a time than a source takes at once."""
    return (many[start : start + LARGEST_BATCH] for start in range(0, len(many), LARGEST_BATCH))
