"""Workers, queues and the ledger as they are shown, and how workers make themselves known."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from rota.core.fleet import Member, Role
from rota.core.lane import Queue
from rota.core.ledger import Entry
from rota.core.lifecycle import State
from rota.wire.scalars import Count, Line, Moment, Name, QueueName, moment_of

Slots = Annotated[int, Meta(ge=0, le=1_000_000)]


class Beat(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A process's word that it is alive, as it describes itself. `types: null` takes every type."""

    worker_id: Name
    boot_id: Name
    role: Role = Role.WORKER
    host: Line = ""
    pid: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    version: Line = ""
    address: Line = ""
    queues: Annotated[list[QueueName], Meta(max_length=1_000)] = []
    types: Annotated[list[Name], Meta(max_length=10_000)] | None = None
    slots: Slots = 0
    busy: Slots = 0
    is_draining: bool = False
    started_at: Moment | None = None


class BeatRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Processes that are alive."""

    workers: Annotated[list[Beat], Meta(min_length=1, max_length=1_000)]


class LeaveRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Processes that say goodbye, by the mark of their start."""

    boot_ids: Annotated[list[Name], Meta(min_length=1, max_length=1_000)]


class WorkerForm(Struct, kw_only=True):
    """A process that takes part, as it last described itself."""

    worker_id: str
    boot_id: str
    role: Role
    host: str
    pid: Count
    version: str
    address: str
    queues: list[str]
    types: list[str] | None
    slots: Count
    busy: Count
    is_draining: bool
    is_alive: bool
    started_at: Moment | None
    seen_at: Moment | None


class WorkerList(Struct, kw_only=True):
    """A page of the processes on record, by name."""

    items: list[WorkerForm]
    next_cursor: str | None = None


class TypeDepth(Struct, kw_only=True):
    """How many jobs of a type are in which state."""

    type: str
    states: dict[State, Count]


class QueueForm(Struct, kw_only=True):
    """A queue: what waits and runs in it, who works on it, and its settings.

    `types` has those with the most jobs; `types_left_out` counts the others, which `GET /v1/stats` has. `due_since`
    says when the next job in line became due, of the type whose next job has waited longest; null if none is due.
    """

    name: str
    depth: Count
    #: How many of them are due: they wait for nothing but a worker.
    due: Count
    due_since: Moment | None = None
    states: dict[State, Count]
    types: list[TypeDepth]
    types_left_out: Count = 0
    live_workers: Count
    is_paused: bool
    paused_at: Moment | None
    pause_reason: str | None
    resume_at: Moment | None
    max_depth: int | None
    version: Count


class QueueChange(Struct, kw_only=True, forbid_unknown_fields=True):
    """A queue's limits. `max_depth` is how many jobs may wait in it; null for as many as the server allows."""

    max_depth: Annotated[int, Meta(ge=0, le=1_000_000_000)] | None


class QueueList(Struct, kw_only=True):
    """A page of the queues that have jobs, workers or settings, by name."""

    items: list[QueueForm]
    next_cursor: str | None = None


class EntryForm(Struct, kw_only=True):
    """One act of an operator. `digest` binds it to all entries before it."""

    number: Count
    at: Moment | None
    actor: str
    action: str
    target: str
    origin: str
    detail: str
    digest: str


class EntryPage(Struct, kw_only=True):
    """A page of the ledger, newest first."""

    items: list[EntryForm]
    next_cursor: str | None


def member_of(beat: Beat) -> Member:
    """Read how a process describes itself."""
    return Member(
        role=beat.role,
        name=beat.worker_id,
        boot=beat.boot_id,
        host=beat.host,
        pid=beat.pid,
        version=beat.version,
        address=beat.address,
        queues=tuple(beat.queues),
        types=None if beat.types is None else tuple(beat.types),
        slots=beat.slots,
        busy=beat.busy,
        is_draining=beat.is_draining,
        started_at=moment_of(beat.started_at, "started_at"),
    )


def beat_of(member: Member) -> Beat:
    """Write how a process describes itself."""
    return Beat(
        role=member.role,
        worker_id=member.name,
        boot_id=member.boot,
        host=member.host,
        pid=member.pid,
        version=member.version,
        address=member.address,
        queues=list(member.queues),
        types=None if member.types is None else list(member.types),
        slots=member.slots,
        busy=member.busy,
        is_draining=member.is_draining,
        started_at=member.started_at,
    )


def worker_form(member: Member, alive_since: datetime) -> WorkerForm:
    """Show a process; it is taken for alive if it was seen since."""
    return WorkerForm(
        worker_id=member.name,
        boot_id=member.boot,
        role=member.role,
        host=member.host,
        pid=member.pid,
        version=member.version,
        address=member.address,
        queues=list(member.queues),
        types=None if member.types is None else list(member.types),
        slots=member.slots,
        busy=member.busy,
        is_draining=member.is_draining,
        is_alive=member.seen_at is not None and member.seen_at >= alive_since,
        started_at=member.started_at,
        seen_at=member.seen_at,
    )


def queue_of(form: QueueForm) -> Queue:
    """Read a queue's settings as the server showed them."""
    return Queue(
        form.name,
        form.paused_at,
        form.pause_reason,
        form.resume_at,
        form.max_depth,
        version=form.version,
    )


def entry_form(entry: Entry) -> EntryForm:
    """Show an entry of the ledger."""
    return EntryForm(
        number=entry.number,
        at=entry.at,
        actor=entry.actor,
        action=entry.action,
        target=entry.target,
        origin=entry.origin,
        detail=entry.detail,
        digest=entry.digest,
    )
