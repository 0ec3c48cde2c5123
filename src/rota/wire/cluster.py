"""Members of the cluster, heartbeats, queues and the ledger of operator actions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from rota.core.cluster import Member, Role
from rota.core.ledger import LedgerEntry
from rota.core.lifecycle import State
from rota.core.worker_orders import WorkerFacts
from rota.wire.limits import MostRunning
from rota.wire.scalars import Count, Moment, Name, QueueName, ShortText, moment_of
from rota.wire.workers import FactsForm, OrdersForm, facts_form, facts_of, orders_form

NO_FACTS: Final = WorkerFacts()
Slots = Annotated[int, Meta(ge=0, le=1_000_000)]


class HeartbeatForm(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A heartbeat of a process, with its description. `types: null` means every type."""

    worker_id: Name
    boot_id: Name
    role: Role = Role.WORKER
    host: ShortText = ""
    pid: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    version: ShortText = ""
    address: ShortText = ""
    queues: Annotated[list[QueueName], Meta(max_length=1_000)] = []
    types: Annotated[list[Name], Meta(max_length=10_000)] | None = None
    slots: Slots = 0
    busy: Slots = 0
    is_draining: bool = False
    started_at: Moment | None = None
    facts: FactsForm | None = None


class HeartbeatRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Heartbeats of several processes."""

    workers: Annotated[list[HeartbeatForm], Meta(min_length=1, max_length=1_000)]


class LeaveRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Processes that stop, by their boot id."""

    boot_ids: Annotated[list[Name], Meta(min_length=1, max_length=1_000)]


class WorkerForm(Struct, kw_only=True):
    """A member of the cluster as of its last heartbeat."""

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
    #: The rest is null or empty for processes that are no workers.
    is_quiet: bool = False
    #: In cores, since the heartbeat before.
    cpu: float | None = None
    #: In bytes.
    rss: int | None = None
    fds: int | None = None
    threads_left_behind: Count = 0
    #: How many seconds its clock is ahead of the store's, to the delay of a heartbeat.
    clock_offset: float | None = None
    #: Some of the jobs that it runs.
    jobs: list[str] = []
    orders: OrdersForm | None = None


class WorkerDetail(WorkerForm, kw_only=True):
    """A worker, with its stacks if they were requested."""

    stacks: str = ""
    stacks_at: Moment | None = None


class WorkerList(Struct, kw_only=True):
    """A page of members, ordered by name."""

    items: list[WorkerForm]
    next_cursor: str | None = None


class TypeDepth(Struct, kw_only=True):
    """The number of jobs of a type in each state."""

    type: str
    states: dict[State, Count]


class QueueForm(Struct, kw_only=True):
    """A queue: its jobs by state and type, its workers, and its settings.

    `types` has those with the most jobs; `types_left_out` counts the others, which `GET /v1/stats` has. `due_since`
    is when the next job became due, of the type whose next job has waited longest; null if none is due.
    """

    name: str
    depth: Count
    #: How many of them are due, and wait only for a worker.
    due: Count
    due_since: Moment | None = None
    states: dict[State, Count]
    types: list[TypeDepth]
    types_left_out: Count = 0
    live_workers: Count
    #: The slots of its workers, which they may share with other queues.
    slots: Count = 0
    is_paused: bool
    paused_at: Moment | None
    pause_reason: str | None
    resume_at: Moment | None
    max_depth: int | None
    max_running: int | None
    rate_limit: str | None
    version: Count
    #: The actor who paused it, if the ledger still has the entry. Only in `GET /v1/queues`, as the fields below.
    paused_by: str | None = None
    #: Jobs submitted and ended for good a minute, in the last five whole minutes; null if they were not counted.
    rate_in: float | None = None
    rate_out: float | None = None
    #: How long its due jobs take at this rate, in seconds; null while no end is in sight.
    drain_seconds: float | None = None


class QueueChange(Struct, kw_only=True, forbid_unknown_fields=True):
    """A queue's limits; what is left out stays, null removes it.

    `max_depth` is how many jobs may wait in it (null for the server's own limit), `max_running` how many may run at
    once, `rate_limit` how often they may start.
    """

    max_depth: Annotated[int, Meta(ge=0, le=1_000_000_000)] | UnsetType | None = UNSET
    max_running: MostRunning | UnsetType | None = UNSET
    rate_limit: Name | UnsetType | None = UNSET


class QueueList(Struct, kw_only=True):
    """A page of queues that have jobs, workers or settings, ordered by name."""

    items: list[QueueForm]
    next_cursor: str | None = None


class LedgerEntryForm(Struct, kw_only=True):
    """One action of an operator. `digest` is a hash chain over all entries up to this one."""

    number: Count
    at: Moment | None
    actor: str
    action: str
    target: str
    origin: str
    detail: str
    digest: str
    surface: str = ""


class LedgerPage(Struct, kw_only=True):
    """A page of the ledger, newest first."""

    items: list[LedgerEntryForm]
    next_cursor: str | None
    #: Whether the search stopped after many entries; it goes on at the cursor.
    partial: bool = False


class LedgerVerification(Struct, kw_only=True):
    """Whether the hash chain of the ledger is whole. `finding` names the oldest entry that does not match.

    `is_complete` is false if only the last entries were read. Note `last_digest` elsewhere: only it shows whether the
    newest entries were deleted.
    """

    is_intact: bool
    is_complete: bool
    count: Count
    last_number: Count | None
    last_digest: str | None
    finding: str | None


def member_of(form: HeartbeatForm) -> Member:
    return Member(
        role=form.role,
        name=form.worker_id,
        boot=form.boot_id,
        host=form.host,
        pid=form.pid,
        version=form.version,
        address=form.address,
        queues=tuple(form.queues),
        types=None if form.types is None else tuple(form.types),
        slots=form.slots,
        busy=form.busy,
        is_draining=form.is_draining,
        started_at=moment_of(form.started_at, "started_at"),
        facts=facts_of(form.facts),
    )


def heartbeat_form(member: Member) -> HeartbeatForm:
    return HeartbeatForm(
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
        facts=facts_form(member.facts),
    )


def worker_form(member: Member, alive_since: datetime) -> WorkerForm:
    """Convert a member; it counts as alive if its last heartbeat is not older than `alive_since`."""
    return WorkerForm(**_worker_fields(member, alive_since))


def worker_detail(member: Member, alive_since: datetime) -> WorkerDetail:
    """Convert a worker, with its stacks."""
    facts = member.facts or NO_FACTS
    return WorkerDetail(**_worker_fields(member, alive_since), stacks=facts.stacks, stacks_at=facts.stacks_at)


def _worker_fields(member: Member, alive_since: datetime) -> dict[str, Any]:
    facts = member.facts or NO_FACTS
    offset = None if facts.sent_at is None or member.seen_at is None else facts.sent_at - member.seen_at
    return {
        "worker_id": member.name,
        "boot_id": member.boot,
        "role": member.role,
        "host": member.host,
        "pid": member.pid,
        "version": member.version,
        "address": member.address,
        "queues": list(member.queues),
        "types": None if member.types is None else list(member.types),
        "slots": member.slots,
        "busy": member.busy,
        "is_draining": member.is_draining,
        "is_alive": member.seen_at is not None and member.seen_at >= alive_since,
        "started_at": member.started_at,
        "seen_at": member.seen_at,
        "is_quiet": facts.is_quiet,
        "cpu": facts.cpu,
        "rss": facts.rss,
        "fds": facts.fds,
        "threads_left_behind": facts.threads_left_behind,
        "clock_offset": None if offset is None else round(offset.total_seconds(), 3),
        "jobs": list(facts.jobs),
        "orders": orders_form(member.orders) if member.role is Role.WORKER else None,
    }


def ledger_entry_form(entry: LedgerEntry) -> LedgerEntryForm:
    return LedgerEntryForm(
        number=entry.number,
        at=entry.at,
        actor=entry.actor,
        action=entry.action,
        target=entry.target,
        origin=entry.origin,
        detail=entry.detail,
        digest=entry.digest,
        surface=entry.surface,
    )
