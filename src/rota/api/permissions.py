"""Checks of a caller's actions and queues, beyond the one action that every route declares.

A token may be limited to queues. Where the path names a job, a schedule or a queue, `check_path` looks it up before the
handler runs; handlers of batches and lists use the other functions. A job in a queue that a token does not cover is
answered as an unknown job, so that ids of other queues reveal nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rota.api.errors import HttpError
from rota.core.access import QUEUE_ACTIONS, Action, covers_queue, named_queues
from rota.core.errors import JobNotFound, ScheduleNotFound
from rota.core.ids import JobId, ScheduleId, to_number
from rota.core.schedule import Schedule
from rota.core.submission import NewJob, Template
from rota.engine.jobs import unknown_job
from rota.ports.store import JobQuery

if TYPE_CHECKING:
    from rota.api.http import Request
    from rota.api.router import Route
    from rota.api.settings import ApiKey


def require(key: ApiKey, action: Action) -> None:
    """Refuse a caller that lacks an action."""
    if action not in key.actions:
        raise HttpError(
            403,
            "forbidden",
            f"this token lacks the action '{action}'",
            fix=f"use a token whose role or actions include '{action}'",
        )


def require_queue(key: ApiKey, queue: str) -> None:
    """Refuse a caller whose token does not cover a queue."""
    if not covers_queue(key.queues, queue):
        raise HttpError(
            403,
            "forbidden",
            f"this token is limited to the queues {', '.join(key.queues)}; '{queue}' is not among them",
            fix=f"use a token that covers the queue '{queue}'",
        )


def require_queues(key: ApiKey, job: NewJob | Template) -> None:
    """Refuse a job whose queue, or that of a job that follows it, is not covered."""
    require_queue(key, job.queue)
    for follower in (job.on_success, job.on_failure):
        if follower is not None:
            require_queues(key, follower)


async def require_jobs(request: Request, ids: Sequence[JobId]) -> None:
    """Answer as for an unknown job if one of the jobs is not covered."""
    for job_id in await uncovered_jobs(request, ids):
        raise unknown_job(job_id)


async def uncovered_jobs(request: Request, ids: Sequence[JobId]) -> Collection[JobId]:
    """Return the ids of existing jobs whose queues the caller's token does not cover."""
    queues = request.key.queues
    if not queues:
        return ()
    return [job.id for job in await request.engine.get(ids) if not covers_queue(queues, job.queue)]


def within_queues(key: ApiKey, query: JobQuery) -> JobQuery:
    """Limit a query to the queues of the caller's token."""
    if not key.queues:
        return query
    for queue in query.queues:
        require_queue(key, queue)
    if query.queues:
        return query
    names = named_queues(key.queues)
    if names is None:
        detail = f"this token is limited to the queues {', '.join(key.queues)}; a list must name the queues it is about"
        raise HttpError(403, "forbidden", detail, fix="add the parameter 'queue' with the names of queues")
    return replace(query, queues=names)


async def check_path(route: Route, request: Request) -> None:
    """Keep a token that is limited to queues within them, as the route declares."""
    if route.action not in QUEUE_ACTIONS:
        return
    check = route.queue_check.value
    if check == "queue":
        require_queue(request.key, request.path_params["name"])
    elif check == "job":
        await _check_job(request)
    elif check == "schedule":
        _check_schedule(request, await _schedules(request))
    elif check == "none":
        raise HttpError(
            403,
            "forbidden",
            f"this token is limited to the queues {', '.join(request.key.queues)}; this route is about all queues",
            fix="use a token without a limit to queues",
        )


async def _check_job(request: Request) -> None:
    try:
        job_id = JobId(to_number(request.path_params["id"]))
    except JobNotFound:
        return
    await require_jobs(request, [job_id])
    schedules = await request.engine.store.schedules([ScheduleId(job_id)])
    if any(not covers_queue(request.key.queues, one.template.queue) for one in schedules):
        raise unknown_job(job_id)


async def _schedules(request: Request) -> Sequence[Schedule]:
    """Return the schedule in the path, by id or by name; none if it is unknown."""
    name = request.path_params["id"]
    try:
        return await request.engine.store.schedules([ScheduleId(to_number(name))]) or await _named(request, name)
    except JobNotFound:
        return await _named(request, name)


async def _named(request: Request, name: str) -> Sequence[Schedule]:
    try:
        return [await request.engine.schedules.named(name)]
    except ScheduleNotFound:
        return ()


def _check_schedule(request: Request, schedules: Sequence[Schedule]) -> None:
    for schedule in schedules:
        if not covers_queue(request.key.queues, schedule.template.queue):
            name = request.path_params["id"]
            raise ScheduleNotFound(f"schedule {name[:60]!r}: unknown, or outside the queues of this token", field="id")
