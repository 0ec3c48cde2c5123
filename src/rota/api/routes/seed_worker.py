"""The worker protocol of seed 1, kept for good: take one job, say how it went. Fenced underneath."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct

from rota.api.aliases import FAILURE_WORDS, SUCCESS_WORDS
from rota.api.calls import Answer, Call, nothing, shown
from rota.api.errors import invalid
from rota.api.routes.looking import forms
from rota.api.settings import Scope
from rota.api.table import Route
from rota.api.waiting import claimed
from rota.core.errors import LeaseLost
from rota.core.job import Job
from rota.core.lease import Claim, WorkerId
from rota.core.lifecycle import State
from rota.core.outcome import Failed, Outcome, Succeeded
from rota.core.settlement import JobError
from rota.core.submission import DEFAULT_QUEUE
from rota.ports.faces import Report
from rota.wire.jobs import ErrorForm, TaskForm, plain_error
from rota.wire.scalars import Count, Fence, Identifier, Moment, Name, job_id_of, no_value
from rota.wire.submission import text_of


class NextJob(Struct, kw_only=True, forbid_unknown_fields=True):
    """Who asks for a job, of what kind, for how long, and how long it waits for one."""

    worker_id: Name = "anonymous"
    boot_id: Name = "http"
    queue: Annotated[str, Meta(min_length=1, max_length=2_000)] = DEFAULT_QUEUE
    type: Annotated[str, Meta(min_length=1, max_length=2_000)] | None = None
    lease: Annotated[float, Meta(ge=1, le=86_400)] | None = None
    wait: Annotated[float, Meta(ge=0, le=3_600)] = 0.0


class Completion(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a job went: `success` or `status`, and the result or the error. Without `fence`, `worker_id` must hold it.

    The fields of the lease may be sent back as `/next-job` gave them: `id` and `boot_id` must be those of the job and
    of its lease. `lease_until` and `attempts` are not compared, since a renewal moves the one and the fence counts more
    exactly than the other.
    """

    worker_id: Name | None = None
    success: bool | None = None
    status: Annotated[str, Meta(max_length=40)] | None = None
    result: Raw = msgspec.field(default_factory=no_value)
    error: Annotated[str, Meta(max_length=65_536)] | ErrorForm | None = None
    fence: Fence | None = None
    permanent: bool = False
    id: Identifier | None = None
    boot_id: Name | None = None
    lease_until: Moment | None = None
    attempts: Count | None = None


async def next_job(call: Call) -> Answer:
    """Hand out one job with its fence; 204 when there is none."""
    wanted = call.query(NextJob)
    await call.body()
    lease = call.context.settings.next_job_lease if wanted.lease is None else timedelta(seconds=wanted.lease)
    claim = Claim(
        worker=WorkerId(wanted.worker_id, wanted.boot_id),
        limit=1,
        queues=tuple(name for name in wanted.queue.split(",") if name) or (DEFAULT_QUEUE,),
        types=None if wanted.type is None else tuple(name for name in wanted.type.split(",") if name),
        lease=lease,
    )
    jobs = await claimed(call, claim, timedelta(seconds=wanted.wait))
    return shown((await forms(call, jobs))[0]) if jobs else nothing()


async def complete(call: Call) -> Answer:
    """Write down how a job went. Who no longer holds it is refused (409), and nothing changes."""
    completion = await call.read(Completion)
    is_success = _is_success(completion)
    job = await call.engine.jobs.one(job_id_of(call.path_names["id"]))
    if completion.id is not None and completion.id != call.path_names["id"]:
        raise invalid([("id", "this is not the id in the path")])
    fence = _fence(job, completion)
    applied = await call.engine.settle([Report(job.id, fence, _outcome(completion, is_success=is_success))])
    after = await call.engine.jobs.one(job.id)
    if not applied and not _was_said_before(after, completion, fence, is_success=is_success):
        raise LeaseLost(f"{job.name}: it is not yours any more; what came of it was not written down")
    return shown((await forms(call, [after]))[0])


def _is_success(completion: Completion) -> bool:
    said = None
    if completion.status is not None:
        word = completion.status.strip().lower()
        if word not in SUCCESS_WORDS | FAILURE_WORDS:
            raise invalid([("status", f"{word!r} says neither success nor failure; say 'completed' or 'failed'")])
        said = word in SUCCESS_WORDS
    if completion.success is None and said is None:
        raise invalid([("success", "say how it went: 'success' (true or false) or 'status'")])
    if completion.success is not None and said is not None and completion.success != said:
        raise invalid([("status", "'success' and 'status' contradict each other")])
    return bool(said if completion.success is None else completion.success)


def _fence(job: Job, completion: Completion) -> int:
    """Find the fence that is spoken under: the one given, or that of the lease which this worker holds or last held."""
    if completion.worker_id is not None and job.worker != completion.worker_id:
        raise LeaseLost(f"{job.name}: worker {completion.worker_id!r} does not hold it")
    if completion.boot_id is not None and job.boot not in {None, completion.boot_id}:
        raise LeaseLost(f"{job.name}: the process {completion.boot_id!r} does not hold it")
    if completion.fence is not None:
        return completion.fence
    if completion.worker_id is None:
        raise invalid([("worker_id", "say who you are, or give the 'fence' that came with the job")])
    return job.fence


def _outcome(completion: Completion, *, is_success: bool) -> Outcome:
    if is_success:
        return Succeeded(text_of(completion.result))
    match completion.error:
        case ErrorForm() as form:
            error = plain_error(form)
        case None:
            error = JobError("Error", "the worker reported a failure")
        case text:
            error = JobError("Error", text)
    return Failed(error, completion.permanent)


def _was_said_before(job: Job, completion: Completion, fence: int, *, is_success: bool) -> bool:
    """Say whether this is only the repetition of what was written down: a reply may have been lost."""
    ends = {State.COMPLETED} if is_success else {State.RETRYING, State.DEAD}
    return job.fence == fence and job.worker == completion.worker_id and job.state in ends


ROUTES = (
    Route(
        method="GET",
        path="/next-job",
        scope=Scope.WORK,
        handler=next_job,
        summary="Hand out one job with its fence; 204 when there is none",
        family="older paths",
        query=NextJob,
        gives={200: TaskForm, 204: None},
        answers_head=False,
    ),
    Route(
        method="POST",
        path="/jobs/{id}/complete",
        scope=Scope.WORK,
        handler=complete,
        summary="Say how a job went; 409 when it is not yours any more",
        family="older paths",
        takes=Completion,
        gives={200: TaskForm},
        refuses=(409,),
    ),
)
