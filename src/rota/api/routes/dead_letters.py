"""Dead letters (jobs in state `dead`): list, group by cause, write notes on causes, retry, discard, export."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Struct, structs

from rota.api.cursors import continue_at
from rota.api.errors import HttpError, invalid
from rota.api.http import Request, Response, StreamResponse, empty_response, json_response
from rota.api.job_filter import PageQuery, exact_name
from rota.api.job_pages import fields_of, job_batches, job_page
from rota.api.permissions import require_jobs, within_queues
from rota.api.redaction import visible
from rota.api.router import JSON_LINES, Handler, QueueCheck, Route
from rota.api.routes.jobs_actions import action_result_form
from rota.core.access import Action
from rota.core.errors import IllegalTransition
from rota.core.ids import JobId, to_text
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.engine import Engine
from rota.engine.dead_letters import Cause, DeadTrend
from rota.ports.client import ActionResult, Actor
from rota.ports.store import DeadGroup, DeadNote, JobQuery
from rota.wire.jobs import ActionResultForm, JobForm, JobPage, error_form, job_form
from rota.wire.scalars import Count, Identifier, Name, id_in_field, job_id_of
from rota.wire.system import DeadLetterGroup, DeadLetterGroups, DeadLetterNote

KIND: Final = "dead"
Verb = Callable[[Sequence[JobId], Actor], Awaitable[Sequence[ActionResult]]]
Fingerprint = Annotated[str, Meta(max_length=32, pattern=r"^[0-9a-f]*(?!\n)$")]
_BATCH: Final = 500
#: The most causes that are listed.
_MOST_GROUPS: Final = 500


class DeadLetterQuery(PageQuery, kw_only=True, forbid_unknown_fields=True):
    """Filters of a list of dead letters. `fields=payload,result` adds these fields."""

    fields: Name | None = None
    type: Name | None = None
    queue: Name | None = None
    fingerprint: Name | None = None


class DeadLetterSelection(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A selection of dead letters: by id, by cause, type or queue, or all of them. `rate` is in jobs a second."""

    ids: Annotated[list[Identifier], Meta(max_length=1_000)] | None = None
    fingerprint: Name | None = None
    type: Name | None = None
    queue: Name | None = None
    all: bool = False
    rate: Annotated[float, Meta(gt=0, le=100_000)] | None = None


class DeadLetterCause(Struct, kw_only=True, forbid_unknown_fields=True):
    """A cause of dead letters. Without a fingerprint: the jobs that died without an error."""

    type: Name
    fingerprint: Fingerprint = ""


class DeadLetterNoteChange(Struct, kw_only=True, forbid_unknown_fields=True):
    """A note on dead letters of one cause. Without a fingerprint: on the jobs that died without an error."""

    type: Name
    fingerprint: Fingerprint = ""
    text: Annotated[str, Meta(min_length=1, max_length=1_000, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]+$")]


Letters = TypeVar("Letters", DeadLetterQuery, DeadLetterSelection)


class DeadLetterReply(Struct, kw_only=True):
    """The result. With a rate the work continues after the response (202): `done` counts what was done so far."""

    done: Count
    refused: list[ActionResultForm]
    is_going_on: bool


async def list_dead_letters(request: Request) -> Response:
    """List dead letters, the last to die first; those of one cause by creation, newest first."""
    listing = _with_exact_names(request.query(DeadLetterQuery))
    query = within_queues(request.key, continue_at(KIND, listing.cursor, _query(listing, listing.limit + 1)))
    items, cursor = await job_page(request.context, query, KIND, fields_of(listing.fields))
    return json_response(JobPage(items=items, next_cursor=cursor))


def _with_exact_names(selection: Letters) -> Letters:
    """Parse the names in a selection, before a stream starts; refuse patterns, as lists of jobs do."""
    names = {name: value for name in ("type", "queue") if (value := getattr(selection, name))}
    return structs.replace(selection, **{name: exact_name(value, name) for name, value in names.items()})


def _query(selection: DeadLetterQuery | DeadLetterSelection, limit: int) -> JobQuery:
    return JobQuery(
        states=(State.DEAD,),
        types=(selection.type,) if selection.type else (),
        queues=(selection.queue,) if selection.queue else (),
        fingerprint=selection.fingerprint,
        limit=limit,
    )


async def groups(request: Request) -> Response:
    """Group dead letters by cause: the same type, and the same error except for numbers."""
    letters = request.engine.dead_letters
    # Both read every dead job: a server with several cores does so at the same time.
    causes, trend = await asyncio.gather(request.engine.jobs.dead_groups(_MOST_GROUPS + 1), letters.trend())
    examples = {job.id: job for job in await request.engine.get([group.example for group in causes])}
    notes = await letters.notes()
    items = [_group_form(group, examples.get(group.example), trend, notes) for group in causes[:_MOST_GROUPS]]
    is_complete = len(causes) <= _MOST_GROUPS
    return json_response(DeadLetterGroups(items=items, is_complete=is_complete, trend_since=trend.since))


def _group_form(
    group: DeadGroup, example: Job | None, trend: DeadTrend, notes: Mapping[Cause, DeadNote]
) -> DeadLetterGroup:
    cause = (group.type, group.fingerprint or "")
    return DeadLetterGroup(
        fingerprint=group.fingerprint or "",
        type=group.type,
        error=None if example is None or example.error is None else error_form(example.error),
        count=group.count,
        first_at=group.first_at,
        last_at=group.last_at,
        example_id=to_text(group.example),
        tags=[] if example is None else list(example.tags),
        trend=list(trend.of(cause)),
        note=_note_form(notes.get(cause)),
    )


def _note_form(note: DeadNote | None) -> DeadLetterNote | None:
    if note is None or note.text is None or note.set_at is None:
        return None
    return DeadLetterNote(text=note.text, set_by=note.set_by, set_at=note.set_at)


async def set_note(request: Request) -> Response:
    """Set the note on a cause. It stays when its jobs are retried, so that it is there if they fail by it again."""
    change = await request.read(DeadLetterNoteChange)
    text = change.text.strip()
    if not text:
        raise invalid([("text", "it is blank; write something, or remove the note with DELETE")])
    note = _note_form(await request.engine.dead_letters.set_note(_cause(change), text, request.actor))
    if note is None:
        raise _no_such_cause(change, "no job of this type is dead by this cause")
    return json_response(note)


async def remove_note(request: Request) -> Response:
    """Remove the note on a cause."""
    query = request.query(DeadLetterCause)
    if not await request.engine.dead_letters.remove_note(_cause(query), request.actor):
        raise _no_such_cause(query, "there is no note on this cause")
    return empty_response()


def _cause(given: DeadLetterCause | DeadLetterNoteChange) -> Cause:
    return given.type, given.fingerprint


def _no_such_cause(given: DeadLetterCause | DeadLetterNoteChange, problem: str) -> HttpError:
    named = f"type {given.type!r}, fingerprint {given.fingerprint!r}"
    return HttpError(404, "not_found", f"{named}: {problem}; GET /v1/dead-letters/groups lists the causes")


async def retry_one(request: Request) -> Response:
    """Retry one dead letter."""
    job = await request.engine.jobs.one(job_id_of(request.path_params["id"]))
    if job.state is not State.DEAD:
        raise IllegalTransition(f"{job.name}: not dead (state: {job.state}); only a dead letter can be retried here")
    (result,) = await request.engine.retry([job.id], request.actor)
    if result.refusal is not None:
        raise result.refusal
    return json_response(job_form(await request.engine.jobs.one(job.id)))


async def discard_one(request: Request) -> Response:
    """Delete one dead letter."""
    (result,) = await request.engine.jobs.discard([job_id_of(request.path_params["id"])], request.actor)
    if result.refusal is not None:
        raise result.refusal
    return empty_response()


async def discard_many(request: Request) -> Response:
    """Delete a selection of dead letters."""
    selection = _checked(await request.read(DeadLetterSelection))
    if selection.rate is not None:
        raise invalid([("rate", "discarding has no rate; leave this out")])
    return json_response(await _apply_to_all(request, selection, request.engine.jobs.discard))


async def retry_many(request: Request) -> Response:
    """Retry a selection of dead letters, at once or at a rate."""
    selection = _checked(await request.read(DeadLetterSelection))
    if selection.rate is None:
        return json_response(await _apply_to_all(request, selection, request.engine.retry))
    query = await _covered(request, selection)
    task = asyncio.create_task(_retry_slowly(request.engine, selection, query, request.actor, selection.rate))
    request.context.background_tasks.add(task)
    task.add_done_callback(request.context.background_tasks.discard)
    return json_response(DeadLetterReply(done=0, refused=[], is_going_on=True), 202)


def _checked(selection: DeadLetterSelection) -> DeadLetterSelection:
    """Refuse an empty or contradictory selection."""
    if (
        sum(
            (selection.ids is not None, selection.all, bool(selection.fingerprint or selection.type or selection.queue))
        )
        != 1
    ):
        raise invalid([("ids", "select by 'ids', or by 'fingerprint', 'type' and 'queue', or send 'all': true")])
    return _with_exact_names(selection)


async def _covered(request: Request, selection: DeadLetterSelection) -> JobQuery:
    """Return the query of a selection within the queues of the token; refuse a listed id outside of them."""
    query = _query(selection, _BATCH)
    if selection.ids is None:
        return within_queues(request.key, query)
    await require_jobs(request, [id_in_field(text, "ids") for text in selection.ids])
    return query


async def _apply_to_all(request: Request, selection: DeadLetterSelection, verb: Verb) -> DeadLetterReply:
    reply = DeadLetterReply(done=0, refused=[], is_going_on=False)
    query = await _covered(request, selection)
    async for ids in _selected_ids(request.engine, selection, query):
        for result in await verb(ids, request.actor):
            if result.refusal is None:
                reply.done += 1
            elif len(reply.refused) < _BATCH:
                reply.refused.append(action_result_form(result))
    return reply


async def _retry_slowly(
    engine: Engine, selection: DeadLetterSelection, query: JobQuery, by: Actor, rate: float
) -> None:
    """Retry at most `rate` jobs a second: the system that made them fail may be recovering."""
    loop = asyncio.get_running_loop()
    next_at = loop.time()
    size = max(int(rate / 10), 1)
    async for ids in _selected_ids(engine, selection, query):
        for start in range(0, len(ids), size):
            part = ids[start : start + size]
            await asyncio.sleep(max(next_at - loop.time(), 0))
            await engine.retry(part, by)
            next_at = max(next_at, loop.time() - 1) + len(part) / rate


async def _selected_ids(engine: Engine, selection: DeadLetterSelection, query: JobQuery) -> AsyncIterator[list[JobId]]:
    if selection.ids is not None:
        yield [id_in_field(text, "ids") for text in selection.ids]
        return
    async for batch in job_batches(engine, query):
        yield [job.id for job in batch]


async def export(request: Request) -> StreamResponse:
    """Export dead letters, one JSON object a line."""
    listing = _with_exact_names(request.query(DeadLetterQuery))
    await request.body()
    selection = DeadLetterSelection(type=listing.type, queue=listing.queue, fingerprint=listing.fingerprint)
    headers = [(b"content-disposition", b'attachment; filename="dead-letters.jsonl"')]
    query = within_queues(request.key, _query(selection, _BATCH))
    return StreamResponse(_lines(request, query), JSON_LINES, headers)


async def _lines(request: Request, query: JobQuery) -> AsyncGenerator[bytes, None]:
    async for batch in job_batches(request.engine, query):
        yield b"".join(msgspec.json.encode(visible(request, job_form(job))) + b"\n" for job in batch)


def _route(method: str, path: str, action: Action, handler: Handler, summary: str, **more: Any) -> Route:  # noqa: ANN401
    return Route(
        method=method,
        path=f"/v1/dead-letters{path}",
        action=action,
        handler=handler,
        summary=summary,
        tag="dead letters",
        **more,
    )


ROUTES = (
    _route(
        "GET",
        "",
        Action.JOBS_READ,
        list_dead_letters,
        "List dead letters",
        queue_check=QueueCheck.HANDLER,
        query=DeadLetterQuery,
        responses={200: JobPage},
    ),
    _route(
        "GET", "/groups", Action.JOBS_READ, groups, "Group dead letters by cause", responses={200: DeadLetterGroups}
    ),
    _route(
        "PUT",
        "/groups/note",
        Action.DEAD_LETTERS_NOTE,
        set_note,
        "Set the note on a cause of dead letters",
        body=DeadLetterNoteChange,
        responses={200: DeadLetterNote},
        error_statuses=(404,),
    ),
    _route(
        "DELETE",
        "/groups/note",
        Action.DEAD_LETTERS_NOTE,
        remove_note,
        "Remove the note on a cause of dead letters",
        query=DeadLetterCause,
        responses={204: None},
        error_statuses=(404,),
    ),
    _route(
        "GET",
        "/export",
        Action.JOBS_READ,
        export,
        "Export dead letters as JSON lines",
        queue_check=QueueCheck.HANDLER,
        query=DeadLetterQuery,
        responses={200: JSON_LINES},
    ),
    _route(
        "POST",
        "/{id}/retry",
        Action.JOBS_RETRY,
        retry_one,
        "Retry one dead letter",
        queue_check=QueueCheck.JOB,
        responses={200: JobForm},
        error_statuses=(409,),
    ),
    _route(
        "POST",
        ":retry",
        Action.JOBS_RETRY,
        retry_many,
        "Retry many dead letters, at once or at a rate (202)",
        queue_check=QueueCheck.HANDLER,
        body=DeadLetterSelection,
        responses={200: DeadLetterReply, 202: DeadLetterReply},
    ),
    _route(
        "DELETE",
        "/{id}",
        Action.DEAD_LETTERS_DISCARD,
        discard_one,
        "Delete one dead letter",
        queue_check=QueueCheck.JOB,
        responses={204: None},
        error_statuses=(409,),
    ),
    _route(
        "POST",
        ":discard",
        Action.DEAD_LETTERS_DISCARD,
        discard_many,
        "Delete many dead letters",
        queue_check=QueueCheck.HANDLER,
        body=DeadLetterSelection,
        responses={200: DeadLetterReply},
    ),
)
