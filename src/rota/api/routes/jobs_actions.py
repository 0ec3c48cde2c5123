"""Actions on jobs: cancel, retry, run now. On these paths an id may be a schedule's too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from rota.api.errors import http_error_of, invalid
from rota.api.headers import IDEMPOTENCY_KEY
from rota.api.http import Request, Response, json_response
from rota.api.permissions import require, uncovered_jobs
from rota.api.router import QueueCheck, Route
from rota.api.routes.jobs_edit import copy_with_changes
from rota.api.routes.jobs_read import job_or_schedule
from rota.core.access import Action
from rota.core.errors import IllegalTransition, JobNotFound
from rota.core.ids import JobId, ScheduleId, to_text
from rota.core.schedule import Schedule
from rota.engine import Engine
from rota.engine.jobs import unknown_job
from rota.ports.client import ActionResult, Actor, Deed
from rota.wire.job_edits import JobEditRequest
from rota.wire.jobs import ActionResultForm, BulkActionReply, BulkActionRequest, JobForm, TaskForm
from rota.wire.scalars import id_in_field, job_id_of
from rota.wire.schedules import RecurringForm, ScheduleStatus, recurring_form

Verb = Callable[[Engine, Sequence[JobId], Actor], Awaitable[Sequence[ActionResult]]]


async def _cancel_jobs(engine: Engine, ids: Sequence[JobId], by: Actor) -> Sequence[ActionResult]:
    return await engine.cancel(ids, by)


async def _retry_jobs(engine: Engine, ids: Sequence[JobId], by: Actor) -> Sequence[ActionResult]:
    return await engine.retry(ids, by)


async def _run_jobs_now(engine: Engine, ids: Sequence[JobId], by: Actor) -> Sequence[ActionResult]:
    return await engine.jobs.run_now(ids, by)


async def cancel(request: Request) -> Response:
    """Cancel a job, or ask a running one to stop (202). A schedule with this id is deleted."""
    return await _apply(request, _cancel_jobs)


async def retry(request: Request) -> Response:
    """Run a dead or cancelled job again, or a waiting one at once."""
    return await _apply(request, _retry_jobs)


async def retry_with_changes(request: Request) -> Response:
    """Run a job again; with changes in the body, a finished job stays and a new one is made of it (201)."""
    body = await request.read_or(JobEditRequest, JobEditRequest())
    if body != JobEditRequest():
        return await copy_with_changes(request, body, action="retry", needs_end=True)
    return await _apply(request, _retry_jobs)


async def run_now(request: Request) -> Response:
    """Start a waiting job at once. A schedule with this id creates a job at once."""
    return await _apply(request, _run_jobs_now)


async def _apply(request: Request, verb: Verb) -> Response:
    job_id = job_id_of(request.path_params["id"])
    (result,) = await verb(request.engine, [job_id], request.actor)
    if isinstance(result.refusal, JobNotFound):
        known = await request.engine.store.schedules([ScheduleId(job_id)])
        if known:
            return await _apply_to_schedule(request, verb, known[0])
    if result.refusal is not None:
        raise result.refusal
    return json_response(await job_or_schedule(request, job_id), 202 if result.deed is Deed.ASKED_TO_STOP else 200)


async def _apply_to_schedule(request: Request, verb: Verb, schedule: Schedule) -> Response:
    if verb is _retry_jobs:
        raise IllegalTransition(f"schedule {schedule.name!r}: a schedule is not retried; run it now, or retry its jobs")
    if verb is _run_jobs_now:
        require(request.key, Action.SCHEDULES_RUN)
        made = await request.engine.schedules.run_now(schedule.id, request.actor)
        return json_response(await job_or_schedule(request, made.job_id))
    require(request.key, Action.SCHEDULES_EDIT)
    await request.engine.schedules.drop(schedule.id, request.actor)
    return json_response(structs.replace(recurring_form(schedule), status=ScheduleStatus.CANCELLED, next_run_at=None))


def _many(verb: Verb) -> Callable[[Request], Awaitable[Response]]:
    async def act(request: Request) -> Response:
        body = await request.read(BulkActionRequest)
        if len(body.ids) > request.context.limits.batch:
            raise invalid([("ids", f"{len(body.ids)} ids; at most {request.context.limits.batch} at once")])
        ids = [id_in_field(text, "ids") for text in body.ids]
        results = await act_on_covered(request, ids, verb)
        return json_response(BulkActionReply(items=[action_result_form(one) for one in results]))

    return act


async def act_on_covered(request: Request, ids: Sequence[JobId], verb: Verb) -> Sequence[ActionResult]:
    """Act on jobs; those in queues that the token does not cover are answered as unknown, and are left alone."""
    uncovered = await uncovered_jobs(request, ids)
    if not uncovered:
        return await verb(request.engine, ids, request.actor)
    results = iter(await verb(request.engine, [one for one in ids if one not in uncovered], request.actor))
    return [ActionResult(one, refusal=unknown_job(one)) if one in uncovered else next(results) for one in ids]


def action_result_form(result: ActionResult) -> ActionResultForm:
    if result.refusal is not None:
        error = http_error_of(result.refusal)
        return ActionResultForm(id=to_text(result.job_id), status=error.status, error=error.problem())
    status = 202 if result.deed is Deed.ASKED_TO_STOP else 200
    return ActionResultForm(id=to_text(result.job_id), status=status, deed=result.deed)


_CANCEL_DESCRIPTIONS: Final = {
    200: "The job has ended as cancelled, and its handler does not start.",
    202: (
        "A worker runs the job and is asked to stop it: at once over a live connection, otherwise with its next "
        "heartbeat. Until then its handler may run, or may yet start. The job ends as cancelled when this attempt "
        "fails, stops or is lost, and as completed if it succeeds nevertheless; it is not attempted again."
    ),
}
_ROOTS: Final = {
    "/v1/jobs": JobForm | RecurringForm,
    "/jobs": TaskForm | RecurringForm,
    "/tasks": TaskForm | RecurringForm,
}


def _routes(verb: Callable[[Request], Awaitable[Response]], method: str, ending: str, summary: str) -> list[Route]:
    return [
        Route(
            method=method,
            path=f"{root}/{{id}}{ending}",
            action=Action.JOBS_CANCEL if verb is cancel else Action.JOBS_RETRY,
            queue_check=QueueCheck.JOB,
            handler=verb,
            summary=summary,
            tag="jobs" if root == "/v1/jobs" else "older paths",
            responses={200: form, 202: form} if verb is cancel else {200: form},
            error_statuses=(409,),
            descriptions=_CANCEL_DESCRIPTIONS if verb is cancel else {},
        )
        for root, form in _ROOTS.items()
    ]


#: On the older paths a retry takes no body.
_RETRY: Final = tuple(
    replace(
        route,
        handler=retry_with_changes,
        body=JobEditRequest,
        body_is_optional=True,
        headers=(IDEMPOTENCY_KEY,),
        responses={200: JobForm | RecurringForm, 201: JobForm},
        descriptions={201: "A new job was made, with the changes of the body; `retried_from` names the old one."},
    )
    if route.path.startswith("/v1/")
    else route
    for route in _routes(retry, "POST", "/retry", "Run a finished job again, or a waiting one at once")
)


def _batch(verb: Verb, name: str, summary: str) -> Route:
    return Route(
        method="POST",
        path=f"/v1/jobs:{name}",
        action=Action.JOBS_CANCEL if verb is _cancel_jobs else Action.JOBS_RETRY,
        queue_check=QueueCheck.HANDLER,
        handler=_many(verb),
        summary=summary,
        tag="jobs",
        body=BulkActionRequest,
        responses={200: BulkActionReply},
    )


ROUTES = (
    *_routes(cancel, "POST", "/cancel", "Cancel a job, or ask a running one to stop (202)"),
    *_routes(cancel, "DELETE", "", "Cancel a job; the same as POST .../cancel"),
    *_RETRY,
    *_routes(run_now, "POST", "/run-now", "Start a job that waits for its time at once"),
    _batch(_cancel_jobs, "cancel", "Cancel many jobs; each has its own result"),
    _batch(_retry_jobs, "retry", "Retry many jobs; each has its own result"),
    _batch(_run_jobs_now, "run-now", "Start many waiting jobs at once; each has its own result"),
)
