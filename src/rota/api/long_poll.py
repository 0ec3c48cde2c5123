"""Long polling: wait for a caller until there is work, a cancel, or the end of a job.

A wait ends early when the caller disconnects, its token ends, or the server stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from rota.api.http import Request
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Claim
from rota.core.outcome import Released
from rota.ports.client import AttemptReport


async def claim_or_wait(request: Request, claim: Claim, wait: timedelta) -> Sequence[Job]:
    """Claim jobs; when there are none, wait for some as long as the caller does.

    A claim under way is never cancelled: jobs that it leased would have no holder. Jobs leased to a caller that has
    disconnected meanwhile are released at once, unless the claim has an id: then the caller may repeat the claim at
    another server and may be running the jobs already.
    """
    engine = request.engine
    jobs = await engine.claim(claim)
    if jobs or not wait:
        return jobs
    loop = asyncio.get_running_loop()
    deadline = loop.time() + min(wait, request.context.limits.longest_wait).total_seconds()
    abandoned = asyncio.ensure_future(request.abandoned())
    try:
        with engine.broker.subscribe(claim.queues, claim.types) as subscription:
            while not abandoned.done():
                jobs = await engine.claim(claim, looks_again=True)
                left = deadline - loop.time()
                if jobs or left <= 0:
                    break
                pause = engine.leases.pause(claim, left)
                wakeup = asyncio.ensure_future(subscription.wait(timedelta(seconds=pause)))
                await asyncio.wait((wakeup, abandoned), return_when=asyncio.FIRST_COMPLETED)
                if not wakeup.done():
                    await _discard(wakeup)
                    return ()
        if jobs and abandoned.done() and claim.claim_id is None and not request.context.closing.is_set():
            await engine.settle([AttemptReport(job.id, job.fence, Released()) for job in jobs])
            return ()
        return jobs
    finally:
        await _discard(abandoned)


async def wait_for_cancels(request: Request, worker: str, wait: timedelta) -> Sequence[Job]:
    """Return the running jobs of a worker that are cancelled while it waits."""
    seconds = min(wait, request.context.limits.longest_wait).total_seconds()
    abandoned = asyncio.ensure_future(request.abandoned())
    try:
        with request.context.cancel_watch.watch(worker) as waiting:
            await asyncio.wait((waiting, abandoned), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else ()
    finally:
        await _discard(abandoned)


async def wait_for_end(request: Request, job_id: JobId, wait: timedelta) -> Job:
    """Return a job once it has ended, or at the end of the wait."""
    wait = min(wait, request.context.limits.longest_wait)
    if not wait:
        return await request.engine.jobs.one(job_id)
    abandoned = asyncio.ensure_future(request.abandoned())
    waiting = asyncio.ensure_future(request.engine.wait(job_id, wait))
    try:
        await asyncio.wait((waiting, abandoned), return_when=asyncio.FIRST_COMPLETED)
        return waiting.result() if waiting.done() else await request.engine.jobs.one(job_id)
    finally:
        await _discard(waiting)
        await _discard(abandoned)


async def _discard(task: asyncio.Future[Any]) -> None:
    """Cancel a wait, and ignore its outcome."""
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()
