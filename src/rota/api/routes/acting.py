"""Having something done about jobs: cancel, retry, run now. Under the paths of jobs an id may be a schedule's too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import structs

from rota.api.calls import Answer, Call, shown
from rota.api.errors import Refusal, invalid, refusal_of
from rota.api.routes.looking import found
from rota.api.settings import Scope
from rota.api.table import Route
from rota.core.errors import IllegalTransition, JobNotFound
from rota.core.identity import JobId, ScheduleId, to_text
from rota.core.schedule import Schedule
from rota.engine import Engine
from rota.ports.faces import Actor, Deed
from rota.ports.faces import Answer as Verdict
from rota.wire.jobs import ActReply, ActRequest, DeedForm, JobForm, TaskForm
from rota.wire.scalars import id_within, job_id_of
from rota.wire.schedules import RecurringForm, Standing, recurring_form

Verb = Callable[[Engine, Sequence[JobId], Actor], Awaitable[Sequence[Verdict]]]


async def _cancelled(engine: Engine, ids: Sequence[JobId], by: Actor) -> Sequence[Verdict]:
    return await engine.cancel(ids, by)


async def _retried(engine: Engine, ids: Sequence[JobId], by: Actor) -> Sequence[Verdict]:
    return await engine.retry(ids, by)


async def _started(engine: Engine, ids: Sequence[JobId], by: Actor) -> Sequence[Verdict]:
    return await engine.jobs.run_now(ids, by)


async def cancel(call: Call) -> Answer:
    """Cancel a job, or ask a running one to stop (202). A schedule of this id is deleted."""
    return await _act(call, _cancelled)


async def retry(call: Call) -> Answer:
    """Run a finished job again, or one that waits for its time at once."""
    return await _act(call, _retried)


async def run_now(call: Call) -> Answer:
    """Start a job that waits for its time at once. A schedule of this id makes a job at once."""
    return await _act(call, _started)


async def _act(call: Call, verb: Verb) -> Answer:
    job_id = job_id_of(call.path_names["id"])
    (verdict,) = await verb(call.engine, [job_id], call.actor)
    if isinstance(verdict.refusal, JobNotFound):
        known = await call.engine.store.schedules([ScheduleId(job_id)])
        if known:
            return await _act_on_schedule(call, verb, known[0])
    if verdict.refusal is not None:
        raise verdict.refusal
    return shown(await found(call, job_id), 202 if verdict.deed is Deed.ASKED_TO_STOP else 200)


async def _act_on_schedule(call: Call, verb: Verb, schedule: Schedule) -> Answer:
    if verb is _retried:
        raise IllegalTransition(f"schedule {schedule.name!r}: a schedule is not retried; run it now, or retry its jobs")
    if verb is _started:
        made = await call.engine.schedules.run_now(schedule.id, call.actor)
        return shown(await found(call, made.job_id))
    await call.engine.schedules.drop(schedule.id, call.actor)
    return shown(structs.replace(recurring_form(schedule), status=Standing.CANCELLED, next_run_at=None))


def _many(verb: Verb) -> Callable[[Call], Awaitable[Answer]]:
    async def act(call: Call) -> Answer:
        request = await call.read(ActRequest)
        if len(request.ids) > call.context.limits.batch:
            raise invalid([("ids", f"{len(request.ids)} ids; at most {call.context.limits.batch} at once")])
        ids = [id_within(text, "ids") for text in request.ids]
        verdicts = await verb(call.engine, ids, call.actor)
        return shown(ActReply(items=[deed_form(one) for one in verdicts]))

    return act


def deed_form(verdict: Verdict) -> DeedForm:
    """Show what came of a wish."""
    if verdict.refusal is not None:
        refusal: Refusal = refusal_of(verdict.refusal)
        return DeedForm(id=to_text(verdict.job_id), status=refusal.status, error=refusal.problem())
    status = 202 if verdict.deed is Deed.ASKED_TO_STOP else 200
    return DeedForm(id=to_text(verdict.job_id), status=status, deed=verdict.deed)


_CANCELLED: Final = {
    200: "The job has ended as cancelled, and no handler begins.",
    202: (
        "A worker holds the job and is told to stop it: at once over a live connection, otherwise with its next "
        "heartbeat. Until then its handler may run, or may yet begin. The job ends as cancelled when this attempt "
        "fails, stops or is lost, and as completed if it succeeds all the same; it is not attempted again."
    ),
}
_FORMS: Final = {
    "/v1/jobs": JobForm | RecurringForm,
    "/jobs": TaskForm | RecurringForm,
    "/tasks": TaskForm | RecurringForm,
}


def _family(verb: Callable[[Call], Awaitable[Answer]], method: str, ending: str, summary: str) -> list[Route]:
    return [
        Route(
            method=method,
            path=f"{root}/{{id}}{ending}",
            scope=Scope.SUBMIT,
            handler=verb,
            summary=summary,
            family="jobs" if root == "/v1/jobs" else "older paths",
            gives={200: form, 202: form} if verb is cancel else {200: form},
            refuses=(409,),
            meanings=_CANCELLED if verb is cancel else {},
        )
        for root, form in _FORMS.items()
    ]


def _batch(verb: Verb, name: str, summary: str) -> Route:
    return Route(
        method="POST",
        path=f"/v1/jobs:{name}",
        scope=Scope.SUBMIT,
        handler=_many(verb),
        summary=summary,
        family="jobs",
        takes=ActRequest,
        gives={200: ActReply},
    )


ROUTES = (
    *_family(cancel, "POST", "/cancel", "Cancel a job, or ask a running one to stop (202)"),
    *_family(cancel, "DELETE", "", "Cancel a job; the same as POST .../cancel"),
    *_family(retry, "POST", "/retry", "Run a finished job again, or a waiting one at once"),
    *_family(run_now, "POST", "/run-now", "Start a job that waits for its time at once"),
    _batch(_cancelled, "cancel", "Cancel many jobs; each is answered by itself"),
    _batch(_retried, "retry", "Retry many jobs; each is answered by itself"),
    _batch(_started, "run-now", "Start many waiting jobs at once; each is answered by itself"),
)
