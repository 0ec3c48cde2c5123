"""Dead letters: the jobs in state dead. Looking at them by cause, sending them round again, exporting them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Struct, structs

from rota.api.calls import Answer, Call, Stream, nothing, shown
from rota.api.cursors import continued
from rota.api.errors import invalid
from rota.api.filtering import Listing, whole_name
from rota.api.job_pages import fields_of, page_of, portions
from rota.api.routes.acting import deed_form
from rota.api.settings import Scope
from rota.api.table import JSON_LINES, Handler, Route
from rota.core.errors import IllegalTransition
from rota.core.identity import JobId, to_text
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.engine import Engine
from rota.ports.faces import Actor
from rota.ports.faces import Answer as Verdict
from rota.ports.store import DeadGroup, JobQuery
from rota.wire.jobs import DeedForm, JobForm, JobPage, error_form, form_of
from rota.wire.scalars import Count, Identifier, Name, id_within, job_id_of
from rota.wire.system import LetterGroup, LetterGroups

KIND: Final = "dead"
Verb = Callable[[Sequence[JobId], Actor], Awaitable[Sequence[Verdict]]]
_BATCH: Final = 500
#: The most causes that are shown.
_MOST_GROUPS: Final = 500


class LetterListing(Listing, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters are asked for. `fields=payload,result` shows these too."""

    fields: Name | None = None
    type: Name | None = None
    queue: Name | None = None
    fingerprint: Name | None = None


class LetterChoice(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which dead letters are meant: by id, by cause, type or queue, or all of them. `rate` is in jobs a second."""

    ids: Annotated[list[Identifier], Meta(max_length=1_000)] | None = None
    fingerprint: Name | None = None
    type: Name | None = None
    queue: Name | None = None
    all: bool = False
    rate: Annotated[float, Meta(gt=0, le=100_000)] | None = None


Letters = TypeVar("Letters", LetterListing, LetterChoice)


class LetterReply(Struct, kw_only=True):
    """What was done. With a rate it goes on after this answer (202): `done` is what was done so far."""

    done: Count
    refused: list[DeedForm]
    is_going_on: bool


async def list_letters(call: Call) -> Answer:
    """List dead letters, the last to die first; of one cause, newest first."""
    listing = _named(call.query(LetterListing))
    query = continued(KIND, listing.cursor, _query(listing, listing.limit + 1))
    items, cursor = await page_of(call.engine, query, KIND, fields_of(listing.fields))
    return shown(JobPage(items=items, next_cursor=cursor))


def _named(choice: Letters) -> Letters:
    """Read the names of a choice, before an answer begins; refuse patterns, as lists of jobs do."""
    names = {name: value for name in ("type", "queue") if (value := getattr(choice, name))}
    return structs.replace(choice, **{name: whole_name(value, name) for name, value in names.items()})


def _query(choice: LetterListing | LetterChoice, limit: int) -> JobQuery:
    return JobQuery(
        states=(State.DEAD,),
        types=(choice.type,) if choice.type else (),
        queues=(choice.queue,) if choice.queue else (),
        fingerprint=choice.fingerprint,
        limit=limit,
    )


async def groups(call: Call) -> Answer:
    """Group dead letters by their cause: one type, one error but for its numbers."""
    found = await call.engine.jobs.dead_groups(_MOST_GROUPS + 1)
    examples = {job.id: job for job in await call.engine.get([group.example for group in found])}
    items = [_group_form(group, examples.get(group.example)) for group in found[:_MOST_GROUPS]]
    return shown(LetterGroups(items=items, is_complete=len(found) <= _MOST_GROUPS))


def _group_form(group: DeadGroup, example: Job | None) -> LetterGroup:
    return LetterGroup(
        fingerprint=group.fingerprint or "",
        type=group.type,
        error=None if example is None else error_form(example.error),
        count=group.count,
        first_at=group.first_at,
        last_at=group.last_at,
        example_id=to_text(group.example),
    )


async def _batches(engine: Engine, choice: LetterChoice) -> AsyncIterator[Sequence[Job]]:
    """Give the dead letters of a choice, batch by batch, in the order in which they are listed."""
    async for batch in portions(engine, _query(choice, _BATCH)):
        yield batch


async def retry_one(call: Call) -> Answer:
    """Send one dead letter round again."""
    job = await call.engine.jobs.one(job_id_of(call.path_names["id"]))
    if job.state is not State.DEAD:
        raise IllegalTransition(f"{job.name}: it is no dead letter but {job.state}")
    (verdict,) = await call.engine.retry([job.id], call.actor)
    if verdict.refusal is not None:
        raise verdict.refusal
    return shown(form_of(await call.engine.jobs.one(job.id)))


async def discard_one(call: Call) -> Answer:
    """Delete one dead letter for good."""
    (verdict,) = await call.engine.jobs.discard([job_id_of(call.path_names["id"])], call.actor)
    if verdict.refusal is not None:
        raise verdict.refusal
    return nothing()


async def discard_many(call: Call) -> Answer:
    """Delete a choice of dead letters for good."""
    choice = _choice(await call.read(LetterChoice))
    if choice.rate is not None:
        raise invalid([("rate", "what is discarded is discarded at once; leave this out")])
    return shown(await _done_to_all(call, choice, call.engine.jobs.discard))


async def retry_many(call: Call) -> Answer:
    """Send a choice of dead letters round again, at once or at a rate."""
    choice = _choice(await call.read(LetterChoice))
    if choice.rate is None:
        return shown(await _done_to_all(call, choice, call.engine.retry))
    errand = asyncio.create_task(_retry_slowly(call.engine, choice, call.actor, choice.rate))
    call.context.errands.add(errand)
    errand.add_done_callback(call.context.errands.discard)
    return shown(LetterReply(done=0, refused=[], is_going_on=True), 202)


def _choice(choice: LetterChoice) -> LetterChoice:
    """Refuse a choice that says nothing, or two things."""
    if sum((choice.ids is not None, choice.all, bool(choice.fingerprint or choice.type or choice.queue))) != 1:
        raise invalid([("ids", "say which: 'ids', or 'fingerprint', 'type' and 'queue', or 'all': true")])
    return _named(choice)


async def _done_to_all(call: Call, choice: LetterChoice, verb: Verb) -> LetterReply:
    reply = LetterReply(done=0, refused=[], is_going_on=False)
    async for ids in _chosen(call.engine, choice):
        for verdict in await verb(ids, call.actor):
            if verdict.refusal is None:
                reply.done += 1
            elif len(reply.refused) < _BATCH:
                reply.refused.append(deed_form(verdict))
    return reply


async def _retry_slowly(engine: Engine, choice: LetterChoice, by: Actor, rate: float) -> None:
    """Retry so many a second: what made them fail may still be weak."""
    loop = asyncio.get_running_loop()
    next_at = loop.time()
    size = max(int(rate / 10), 1)
    async for ids in _chosen(engine, choice):
        for start in range(0, len(ids), size):
            part = ids[start : start + size]
            await asyncio.sleep(max(next_at - loop.time(), 0))
            await engine.retry(part, by)
            next_at = max(next_at, loop.time() - 1) + len(part) / rate


async def _chosen(engine: Engine, choice: LetterChoice) -> AsyncIterator[list[JobId]]:
    if choice.ids is not None:
        yield [id_within(text, "ids") for text in choice.ids]
        return
    async for batch in _batches(engine, choice):
        yield [job.id for job in batch]


async def export(call: Call) -> Stream:
    """Give all dead letters of a choice, one JSON object a line."""
    listing = _named(call.query(LetterListing))
    await call.body()
    choice = LetterChoice(type=listing.type, queue=listing.queue, fingerprint=listing.fingerprint)
    headers = [(b"content-disposition", b'attachment; filename="dead-letters.jsonl"')]
    return Stream(_lines(call.engine, choice), JSON_LINES, headers)


async def _lines(engine: Engine, choice: LetterChoice) -> AsyncGenerator[bytes, None]:
    async for batch in _batches(engine, choice):
        yield b"".join(msgspec.json.encode(form_of(job)) + b"\n" for job in batch)


def _route(method: str, path: str, scope: Scope, handler: Handler, summary: str, **more: Any) -> Route:  # noqa: ANN401
    return Route(
        method=method,
        path=f"/v1/dead-letters{path}",
        scope=scope,
        handler=handler,
        summary=summary,
        family="dead letters",
        **more,
    )


ROUTES = (
    _route("GET", "", Scope.READ, list_letters, "List dead letters", query=LetterListing, gives={200: JobPage}),
    _route("GET", "/groups", Scope.READ, groups, "Group dead letters by cause", gives={200: LetterGroups}),
    _route(
        "GET",
        "/export",
        Scope.READ,
        export,
        "Export dead letters as JSON lines",
        query=LetterListing,
        gives={200: JSON_LINES},
    ),
    _route(
        "POST",
        "/{id}/retry",
        Scope.SUBMIT,
        retry_one,
        "Send one dead letter round again",
        gives={200: JobForm},
        refuses=(409,),
    ),
    _route(
        "POST",
        ":retry",
        Scope.ADMIN,
        retry_many,
        "Send many dead letters round again, at once or at a rate (202)",
        takes=LetterChoice,
        gives={200: LetterReply, 202: LetterReply},
    ),
    _route(
        "DELETE",
        "/{id}",
        Scope.ADMIN,
        discard_one,
        "Delete one dead letter for good",
        gives={204: None},
        refuses=(409,),
    ),
    _route(
        "POST",
        ":discard",
        Scope.ADMIN,
        discard_many,
        "Delete many dead letters for good",
        takes=LetterChoice,
        gives={200: LetterReply},
    ),
)
