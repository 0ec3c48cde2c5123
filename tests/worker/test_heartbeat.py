"""Leases: renewed whatever a handler does, counted from the moment of the request, and given up when lost."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable
from datetime import datetime, timedelta
from typing import Any

from rota.core.errors import StoreUnavailable
from rota.core.lease import Claim, WorkerId
from rota.core.lifecycle import State
from rota.core.log_lines import lines_of
from rota.core.outcome import Lost, Succeeded
from rota.ports.client import AttemptReport
from rota.worker import current, handler_of
from worker.environment import LostResponses, RecordingSource, WorkerEnvironment, eventually

LEASE = timedelta(seconds=1)
BEAT = timedelta(milliseconds=250)
SETTINGS: dict[str, Any] = {"lease": LEASE, "beat": BEAT, "stop_grace": timedelta(milliseconds=300)}


async def test_a_handler_that_blocks_its_loop_for_three_leases_keeps_its_job(env: WorkerEnvironment) -> None:
    async def blocks() -> str:
        time.sleep(3)  # noqa: ASYNC251 - what this is about
        return "kept"

    def elsewhere() -> int:
        return 1

    async with env.scheduler(), env.worker(blocks, elsewhere, **SETTINGS):
        job_id = await env.submit("blocks", timeout=timedelta(minutes=1))
        await env.until(job_id, lambda job: job.state is State.RUNNING)
        other = await env.end_of(await env.submit("elsewhere"))
        assert (await env.look(job_id)).state is State.RUNNING
        job = await env.end_of(job_id)
    assert (job.state, job.result, job.attempts, job.crashes, job.fence) == (State.COMPLETED, '"kept"', 1, 0, 1)
    assert other.state is State.COMPLETED


async def test_jobs_behind_a_blocked_loop_are_handed_back_unbegun(env: WorkerEnvironment) -> None:
    """Another worker must be able to take them; neither attempt nor crash is counted."""
    begun = threading.Event()
    release = threading.Event()

    async def blocks() -> None:
        begun.set()
        release.wait(timeout=30)

    async def waits() -> int:
        return 1

    handlers = (blocks, waits)
    async with env.worker(*handlers, concurrency=4, **SETTINGS):
        await env.submit("blocks")
        await asyncio.to_thread(begun.wait, 20)
        behind = await env.submit_many(2, "waits")
        for job_id in behind:
            await env.until(job_id, lambda job: job.fence > 0 and job.state is State.PENDING)
        async with env.worker(waits, name="ben", **SETTINGS):
            jobs = await env.ends_of(behind)
        release.set()
    assert [(job.state, job.attempts, job.crashes, job.worker) for job in jobs] == [(State.COMPLETED, 1, 0, "ben")] * 2


async def test_an_attempt_whose_lease_cannot_be_renewed_is_stopped_and_handed_back(env: WorkerEnvironment) -> None:
    notified = threading.Event()

    async def long() -> None:
        if current().attempt == 1 and not notified.is_set():
            try:
                await asyncio.sleep(60)
            finally:
                notified.set()

    source = RecordingSource(env.engine, on_renew=LostResponses(100))
    async with env.worker(long, source=source, **SETTINGS):
        job = await env.end_of(await env.submit("long"))
    assert notified.is_set()
    # Handed back, not lost: no other worker had it, so no crash was counted and no attempt used.
    assert (job.state, job.attempts, job.crashes, job.fence) == (State.COMPLETED, 1, 0, 2)


async def test_a_run_that_ends_well_after_its_lease_was_in_doubt_still_counts(env: WorkerEnvironment) -> None:
    def unmoved() -> str:
        job = current()
        while not job.cancelled():
            time.sleep(0.01)
        return "done all the same"

    source = RecordingSource(env.engine, on_renew=LostResponses(100))
    async with env.worker(unmoved, source=source, **SETTINGS):
        job = await env.end_of(await env.submit("unmoved"))
    assert (job.state, job.fence, job.result) == (State.COMPLETED, 1, '"done all the same"')


async def test_a_run_whose_job_belongs_to_someone_else_is_stopped_and_says_nothing(env: WorkerEnvironment) -> None:
    begun, answer = threading.Event(), threading.Event()

    async def long() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            answer.set()

    source = RecordingSource(env.engine)
    async with env.worker(long, source=source, concurrency=1, **SETTINGS) as worker:
        job_id = await env.submit("long")
        await asyncio.to_thread(begun.wait, 20)
        job = await env.look(job_id)
        await env.engine.settle([AttemptReport(job_id, job.fence, Lost())])
        taken = await env.engine.claim(Claim(WorkerId("ben", "b"), 1, types=("long",)))
        await asyncio.to_thread(answer.wait, 20)
        await eventually(lambda: worker.busy == 0)
        assert source.settled == []
        await env.engine.settle([AttemptReport(job_id, taken[0].fence, Succeeded('"ben"'))])
    job = await env.look(job_id)
    assert (job.state, job.result, job.worker) == (State.COMPLETED, '"ben"', "ben")


async def test_a_job_that_arrives_after_most_of_its_lease_is_not_begun(env: WorkerEnvironment) -> None:
    """The answer to the first claim was so long on its way that the lease may have lapsed."""
    seen: list[Any] = []

    async def late(answer: Awaitable[Any]) -> Any:  # noqa: ANN401 - any answer
        jobs = await answer
        if jobs and not seen:
            seen.extend(jobs)
            await asyncio.sleep(LEASE.total_seconds() * 0.85)
        return jobs

    async def quick() -> int:
        return current().attempt

    async with env.worker(quick, source=RecordingSource(env.engine, on_claim=late), **SETTINGS):
        job = await env.end_of(await env.submit("quick"))
    assert (job.state, job.result, job.fence) == (State.COMPLETED, "1", 2)


async def _after(event: asyncio.Event, answer: Awaitable[Any]) -> Any:  # noqa: ANN401 - any answer
    """Ask only once something has happened."""
    try:
        await event.wait()
    except asyncio.CancelledError:
        answer.close()  # type: ignore[attr-defined]
        raise
    return await answer


async def test_a_worker_that_was_paused_past_its_lease_settles_in_vain(env: WorkerEnvironment) -> None:
    """As after SIGSTOP and SIGCONT: its settlement is on its way while another worker takes and ends the job."""
    finished = threading.Event()
    resumed = asyncio.Event()

    async def pause(answer: Awaitable[Any]) -> Any:  # noqa: ANN401 - any answer
        finished.set()
        return await _after(resumed, answer)

    async def once(answer: Awaitable[Any]) -> Any:  # noqa: ANN401 - any answer
        return await (answer if len(source.claims) == 1 else _after(resumed, answer))

    async def away(answer: Awaitable[Any]) -> Any:  # noqa: ANN401 - any answer
        answer.close()  # type: ignore[attr-defined]
        raise StoreUnavailable("paused")

    async def work() -> str:
        return "ada"

    source = RecordingSource(env.engine, on_settle=pause, on_renew=away, on_claim=once)
    job_id = await env.submit("work")
    async with env.worker(work, source=source, **SETTINGS):
        await asyncio.to_thread(finished.wait, 20)
        async with env.scheduler():
            job = await env.until(job_id, lambda job: job.crashes == 1)
        (taken,) = await env.engine.claim(Claim(WorkerId("ben", "b"), 1, types=("work",)))
        await env.engine.settle([AttemptReport(job_id, taken.fence, Succeeded('"ben"'))])
        before = await env.look(job_id)
        resumed.set()
    assert await env.look(job_id) == before
    assert (before.state, before.result, job.fence) == (State.COMPLETED, '"ben"', 1)


async def test_progress_and_log_arrive_with_the_heartbeat(env: WorkerEnvironment) -> None:
    release = threading.Event()

    def tells() -> None:
        current().progress(3, 4, "nearly")
        current().log("a line")
        release.wait(timeout=20)

    source = RecordingSource(env.engine)
    async with env.worker(handler_of(tells), source=source, **SETTINGS):
        job_id = await env.submit("tells")
        # The beat after the one that carried the news: by then it has arrived.
        await eventually(lambda: any(one.progress for batch in source.renewed[:-1] for one in batch))
        (attempt,) = await env.engine.store.attempts(job_id)
        release.set()
        await env.end_of(job_id)
    assert [line.message for line in lines_of(attempt.log_tail or "")] == ["a line"]
    progress = json.loads(attempt.progress or "")
    assert datetime.fromisoformat(progress.pop("at")).utcoffset() == timedelta(0)
    assert progress == {"done": 3, "total": 4, "message": "nearly"}
