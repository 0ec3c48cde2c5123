"""Legacy worker protocol: `GET /next-job` and `POST /jobs/{id}/complete`, with fences underneath."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct

from rota.api.aliases import FAILURE_WORDS, SUCCESS_WORDS
from rota.api.errors import invalid
from rota.api.http import Request, Response, empty_response, json_response
from rota.api.lease_tokens import UNNAMED_BOOT, holds_lease, lease_tokens
from rota.api.long_poll import claim_or_wait
from rota.api.permissions import require_queue
from rota.api.router import QueueCheck, Route
from rota.api.routes.jobs_read import job_forms
from rota.core.access import Action
from rota.core.errors import LeaseLost
from rota.core.job import Job
from rota.core.lease import Claim, WorkerId
from rota.core.lifecycle import State
from rota.core.outcome import Failed, Outcome, Succeeded
from rota.core.settlement import JobError
from rota.core.submission import DEFAULT_QUEUE
from rota.ports.client import AttemptReport
from rota.wire.jobs import ErrorForm, TaskForm, error_of
from rota.wire.scalars import Count, Fence, Identifier, Moment, Name, job_id_of, null_value
from rota.wire.submission import text_of


class NextJob(Struct, kw_only=True, forbid_unknown_fields=True):
    """The worker, its queues and types, the length of the lease, and how long to wait for a job."""

    worker_id: Name = "anonymous"
    boot_id: Name = UNNAMED_BOOT
    queue: Annotated[str, Meta(min_length=1, max_length=2_000)] = DEFAULT_QUEUE
    type: Annotated[str, Meta(min_length=1, max_length=2_000)] | None = None
    lease: Annotated[float, Meta(ge=1, le=86_400)] | None = None
    wait: Annotated[float, Meta(ge=0, le=3_600)] = 0.0


class Completion(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The outcome of a job: `success` or `status`, and the result or the error. It needs `fence` or `worker_id`.

    The fields of the lease may be sent back as `/next-job` gave them: `id` and `boot_id` must be those of the job and
    of its lease. `lease_until` and `attempts` are not compared: a renewal changes the first, and the fence is more
    exact than the second.
    """

    worker_id: Name | None = None
    success: bool | None = None
    status: Annotated[str, Meta(max_length=40)] | None = None
    result: Raw = msgspec.field(default_factory=null_value)
    error: Annotated[str, Meta(max_length=65_536)] | ErrorForm | None = None
    fence: Fence | None = None
    permanent: bool = False
    id: Identifier | None = None
    boot_id: Name | None = None
    #: From the header `Rota-Lease-Token` of `/next-job`; required if the job was claimed with a `boot_id`.
    lease_token: Name | None = None
    lease_until: Moment | None = None
    attempts: Count | None = None


async def next_job(request: Request) -> Response:
    """Claim one job; 204 when there is none."""
    query = request.query(NextJob)
    await request.body()
    lease = request.context.settings.next_job_lease if query.lease is None else timedelta(seconds=query.lease)
    claim = Claim(
        worker=WorkerId(query.worker_id, query.boot_id),
        limit=1,
        queues=tuple(name for name in query.queue.split(",") if name) or (DEFAULT_QUEUE,),
        types=None if query.type is None else tuple(name for name in query.type.split(",") if name),
        lease=lease,
    )
    for queue in claim.queues if request.key.queues else ():
        require_queue(request.key, queue)
    jobs = await claim_or_wait(request, claim, timedelta(seconds=query.wait))
    if not jobs:
        return empty_response()
    response = json_response((await job_forms(request, jobs))[0])
    response.headers += [(b"rota-lease-token", token.encode()) for token in lease_tokens(request, jobs).values()]
    return response


async def complete(request: Request) -> Response:
    """Settle a job; 409, without an effect, if the lease is lost."""
    completion = await request.read(Completion)
    is_success = _is_success(completion)
    job = await request.engine.jobs.one(job_id_of(request.path_params["id"]))
    if completion.id is not None and completion.id != request.path_params["id"]:
        raise invalid([("id", "this differs from the id in the path")])
    fence = _fence(job, completion)
    _require_lease_token(request, job, fence, completion)
    applied = await request.engine.settle([AttemptReport(job.id, fence, _outcome(completion, is_success=is_success))])
    after = await request.engine.jobs.one(job.id)
    if not applied and not _is_repetition(after, completion, fence, is_success=is_success):
        raise LeaseLost(f"{job.name}: the lease is lost; the outcome was not stored")
    return json_response((await job_forms(request, [after]))[0])


def _require_lease_token(request: Request, job: Job, fence: int, completion: Completion) -> None:
    """Refuse to settle by names a job that a process with a boot of its own has claimed.

    Names and boots of workers are shown to readers. Only a worker that named no boot, on these paths, need not prove
    its claim.
    """
    if job.boot in {None, UNNAMED_BOOT} or holds_lease(request, job.id, fence, completion.lease_token):
        return
    fix = "send the 'lease_token' from the header Rota-Lease-Token of the claim"
    raise LeaseLost(f"{job.name}: another process holds the lease; {fix}")


def _is_success(completion: Completion) -> bool:
    from_status = None
    if completion.status is not None:
        word = completion.status.strip().lower()
        if word not in SUCCESS_WORDS | FAILURE_WORDS:
            raise invalid([("status", f"{word!r} is not an outcome; send 'completed' or 'failed'")])
        from_status = word in SUCCESS_WORDS
    if completion.success is None and from_status is None:
        raise invalid([("success", "send the outcome: 'success' (true or false) or 'status'")])
    if completion.success is not None and from_status is not None and completion.success != from_status:
        raise invalid([("status", "'success' and 'status' contradict each other")])
    return bool(from_status if completion.success is None else completion.success)


def _fence(job: Job, completion: Completion) -> int:
    """Return the fence of the request, or of the lease that this worker holds or held last."""
    if completion.worker_id is not None and job.worker != completion.worker_id:
        raise LeaseLost(f"{job.name}: worker {completion.worker_id!r} does not hold the lease")
    if completion.boot_id is not None and job.boot not in {None, completion.boot_id}:
        raise LeaseLost(f"{job.name}: process {completion.boot_id!r} does not hold the lease")
    if completion.fence is not None:
        return completion.fence
    if completion.worker_id is None:
        raise invalid([("worker_id", "send the worker's name, or the 'fence' that came with the job")])
    return job.fence


def _outcome(completion: Completion, *, is_success: bool) -> Outcome:
    if is_success:
        return Succeeded(text_of(completion.result))
    match completion.error:
        case ErrorForm() as form:
            error = error_of(form)
        case None:
            error = JobError("Error", "the worker reported a failure")
        case text:
            error = JobError("Error", text)
    return Failed(error, completion.permanent)


def _is_repetition(job: Job, completion: Completion, fence: int, *, is_success: bool) -> bool:
    """Return whether this outcome was stored before: the response to the first request may have been lost."""
    ends = {State.COMPLETED} if is_success else {State.RETRYING, State.DEAD}
    return job.fence == fence and job.worker == completion.worker_id and job.state in ends


ROUTES = (
    Route(
        method="GET",
        path="/next-job",
        action=Action.WORK,
        queue_check=QueueCheck.HANDLER,
        handler=next_job,
        summary="Claim one job; 204 when there is none",
        tag="older paths",
        query=NextJob,
        responses={200: TaskForm, 204: None},
        allows_head=False,
    ),
    Route(
        method="POST",
        path="/jobs/{id}/complete",
        action=Action.WORK,
        queue_check=QueueCheck.JOB,
        handler=complete,
        summary="Settle a job; 409 when the lease is lost",
        tag="older paths",
        body=Completion,
        responses={200: TaskForm},
        error_statuses=(409,),
    ),
)
