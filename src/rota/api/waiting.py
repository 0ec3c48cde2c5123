"""Waiting on someone's behalf: until there is work, or a job has ended; never longer than they wait themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from rota.api.calls import Call
from rota.core.identity import JobId
from rota.core.job import Job
from rota.core.lease import Claim
from rota.core.outcome import Released
from rota.ports.faces import Report


async def claimed(call: Call, wanted: Claim, wait: timedelta) -> Sequence[Job]:
    """Claim for a caller; when there is nothing, wait for something while the caller does.

    The store is never left in the middle of a claim: what it leased would belong to nobody. What was leased to a caller
    who has gone meanwhile is handed back at once, unless the claim has a name: then the caller may ask again for the
    same jobs, elsewhere, and may have begun them by now.
    """
    engine = call.engine
    jobs = await engine.claim(wanted)
    if jobs or not wait:
        return jobs
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + min(wait, call.context.limits.longest_wait).total_seconds()
    gone = asyncio.ensure_future(call.gone())
    try:
        with engine.broker.attend(wanted.queues, wanted.types) as attendance:
            while True:
                jobs = await engine.claim(wanted, looks_again=True)
                left = give_up_at - loop.time()
                if jobs or left <= 0 or gone.done():
                    break
                bell = asyncio.ensure_future(attendance.wait(timedelta(seconds=left)))
                await asyncio.wait((bell, gone), return_when=asyncio.FIRST_COMPLETED)
                if not bell.done():
                    await _dropped(bell)
                    return ()
        if jobs and gone.done() and wanted.claim_id is None and not call.context.closing.is_set():
            await engine.settle([Report(job.id, job.fence, Released()) for job in jobs])
            return ()
        return jobs
    finally:
        await _dropped(gone)


async def cancelled(call: Call, worker: str, wait: timedelta) -> Sequence[Job]:
    """Give running jobs of a worker that are cancelled while it waits."""
    seconds = min(wait, call.context.limits.longest_wait).total_seconds()
    gone = asyncio.ensure_future(call.gone())
    try:
        with call.context.cancels.watch(worker) as waiting:
            await asyncio.wait((waiting, gone), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else ()
    finally:
        await _dropped(gone)


async def ended(call: Call, job_id: JobId, wait: timedelta) -> Job:
    """Give a job, once it has ended or the caller waits no longer."""
    wait = min(wait, call.context.limits.longest_wait)
    if not wait:
        return await call.engine.jobs.one(job_id)
    gone = asyncio.ensure_future(call.gone())
    waiting = asyncio.ensure_future(call.engine.wait(job_id, wait))
    try:
        await asyncio.wait((waiting, gone), return_when=asyncio.FIRST_COMPLETED)
        return waiting.result() if waiting.done() else await call.engine.jobs.one(job_id)
    finally:
        await _dropped(waiting)
        await _dropped(gone)


async def _dropped(task: asyncio.Future[Any]) -> None:
    """End a wait that nobody needs any more, whatever came of it."""
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()
