"""Row mapping: values of the core to columns, and rows back to values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from rota.core.cluster import ClusterView, Leadership, Member, Role
from rota.core.job import AGING_MICROS, Attempt, Job, turn_at
from rota.core.lease import Claim
from rota.core.ledger import LedgerEntry, Token
from rota.core.lifecycle import Event, State
from rota.core.limit import Limit
from rota.core.queue import Lane, LaneCount, Queue
from rota.core.queue import due_since as first_due
from rota.core.retry import DEFAULT_BACKOFF, Backoff
from rota.core.schedule import Blackout, CatchUp, Fate, Occurrence, Overlap, Schedule
from rota.core.settlement import JobError, Reason, Settlement
from rota.core.step import Step
from rota.core.submission import NO_META, Delivery, NewJob, Template
from rota.core.time import MICROSECOND, from_micros, span_to_micros, to_micros
from rota.ports.store import Timetable

Row = tuple[Any, ...]

_STATES = {state.value: state for state in State}
_SCHEDULED = State.SCHEDULED.value
_PENDING = State.PENDING.value
#: Looking a member up in its enumeration costs as much as a call, and this is done for every job.
_RUNNING = State.RUNNING
_DELIVERIES = {delivery.value: delivery for delivery in Delivery}


def micros(moment: datetime | None) -> int | None:
    """Write a moment, or nothing."""
    return None if moment is None else to_micros(moment)


def moment(value: int | None) -> datetime | None:
    """Read a moment, or nothing."""
    return None if value is None else from_micros(value)


def ids_text(ids: Sequence[int]) -> str:
    """Write ids as a JSON list, for json_each."""
    return str(ids if isinstance(ids, list) else list(ids))


def new_job_row(job: NewJob, state: State, run_at: datetime, now: int) -> Row:
    """Write a new job, in the order of insert.sql."""
    due_at = to_micros(run_at)
    return (
        job.id,
        job.type,
        job.queue,
        job.priority,
        state.value,
        _turn(due_at, now, job.priority),
        due_at,
        now,
        now,
        job.max_attempts,
        micros(job.expires_at),
        None if job.timeout is None else span_to_micros(job.timeout),
        job.delivery.value,
        None if job.backoff is DEFAULT_BACKOFF else job.backoff.to_text(),
        job.payload,
        None if job.idempotency is None else job.idempotency.key,
        job.concurrency_key,
        json.dumps(job.tags, ensure_ascii=False) if job.tags else None,
        json.dumps(dict(job.meta), ensure_ascii=False) if job.meta else None,
        len({dependency.on for dependency in job.after}),
        None if job.on_success is None else job.on_success.to_text(),
        None if job.on_failure is None else job.on_failure.to_text(),
        job.parent_id,
        job.schedule_id,
        micros(job.fire_time),
    )


#: The optional fields of a new job, and their defaults.
_OPTIONAL = attrgetter(
    "timeout", "expires_at", "idempotency", "concurrency_key", "on_success", "on_failure", "parent_id", "schedule_id",
    "fire_time", "tags", "after", "meta", "backoff",
)  # fmt: skip
_DEFAULTS = (*(None,) * 9, (), (), NO_META, DEFAULT_BACKOFF)


def is_plain(job: NewJob) -> bool:
    """Whether a new job has no optional field, as nearly all."""
    return bool(_OPTIONAL(job) == _DEFAULTS)


def are_plain(jobs: Iterable[NewJob]) -> bool:
    """Whether no job of a batch has an optional field."""
    return all(map(_DEFAULTS.__eq__, map(_OPTIONAL, jobs)))


def plain_job_row(job: NewJob, now: int) -> Row:
    """Write a plain job that is due now or later, in the order of insert_plain.sql."""
    due_at = now if job.run_at is None else to_micros(job.run_at)
    priority = job.priority
    return (
        job.id,
        job.type,
        job.queue,
        priority,
        _SCHEDULED if due_at > now else _PENDING,
        now - priority * AGING_MICROS if due_at == now else _turn(due_at, now, priority),
        due_at,
        now,
        now,
        job.max_attempts,
        job.delivery._value_,
        job.payload,
    )


def _turn(due_at: int, now: int, priority: int) -> int:
    # A job submitted with a time in the past is due now; else that time would outweigh any priority.
    return turn_at(max(due_at, now), priority)


def job_of(row: Row) -> Job:
    """Read a job, in the order of job_columns.sql."""
    (
        job_id, type_, payload, queue, priority, state, run_at, created_at, updated_at, fence, attempts, crashes,
        max_attempts, backoff, delivery, timeout, expires_at, worker, boot, lease_until, started_at, finished_at,
        cancel_requested_at, result, error, reason, idempotency_key, concurrency_key, tags, meta, blockers, on_success,
        on_failure, parent_id, schedule_id, fire_time,
    ) = row  # fmt: skip
    return Job(
        job_id,
        type_,
        payload,
        queue,
        priority,
        _STATES[state],
        from_micros(run_at),
        from_micros(created_at),
        from_micros(updated_at),
        fence,
        attempts,
        crashes,
        max_attempts,
        DEFAULT_BACKOFF if backoff is None else Backoff.from_text(backoff),
        _DELIVERIES[delivery],
        None if timeout is None else timedelta(microseconds=timeout),
        moment(expires_at),
        worker,
        boot,
        moment(lease_until),
        moment(started_at),
        moment(finished_at),
        moment(cancel_requested_at),
        result,
        None if error is None else error_of(error),
        None if reason is None else Reason(reason),
        idempotency_key,
        concurrency_key,
        () if tags is None else tuple(json.loads(tags)),
        NO_META if meta is None else MappingProxyType(json.loads(meta)),
        blockers,
        None if on_success is None else Template.from_text(on_success),
        None if on_failure is None else Template.from_text(on_failure),
        parent_id,
        schedule_id,
        moment(fire_time),
    )


def leased_jobs(rows: Sequence[Row], wanted: Claim, elaborate: Callable[[Row], Job]) -> list[Job]:
    """Read what a claim gave, in the order of claim_columns.sql; `elaborate` reads a job with optional fields."""
    if not rows:
        return []
    started_at = from_micros(rows[0][12])
    until = started_at + wanted.lease
    name, boot = wanted.worker.name, wanted.worker.boot
    return [
        Job(
            row[0], row[1], row[2], row[3], row[4], _RUNNING, from_micros(row[5]), from_micros(row[6]), started_at,
            row[7], row[8], row[9], row[10], DEFAULT_BACKOFF, _DELIVERIES[row[11]], None, None, name, boot, until,
            started_at, meta=NO_META,
        )
        if row[13] is None
        else elaborate(row)
        for row in rows
    ]  # fmt: skip


def settlement_row(settlement: Settlement, fingerprint: str | None, now: int) -> dict[str, Any]:
    """Write a settlement, by the names of settle.sql."""
    return {
        "id": settlement.job_id,
        "fence": settlement.fence,
        "source": settlement.source.value,
        "target": settlement.target.value,
        "is_final": settlement.is_final,
        "run_at": micros(settlement.run_at),
        "aging": AGING_MICROS,
        "refund": settlement.refund,
        "crash": settlement.crash,
        "renew": settlement.renew,
        "if_lapsed": settlement.if_lapsed,
        "result": settlement.result,
        "error": error_text(settlement.error),
        "reason": None if settlement.reason is None else settlement.reason.value,
        "fingerprint": fingerprint,
        "now": now,
    }


def error_text(error: JobError | None) -> str | None:
    """Write an error. Escaped to ASCII: a message may hold characters that a database refuses."""
    return None if error is None else json.dumps([error.kind, error.message, error.traceback])


def error_of(text: str) -> JobError:
    """Read an error."""
    return JobError(*json.loads(text))


def attempt_of(row: Row) -> Attempt:
    """Read an attempt, in the order of attempts.sql."""
    job_id, fence, worker, boot, started_at, ended_at, event, error, progress, log_tail = row
    return Attempt(
        job_id=job_id,
        fence=fence,
        worker=worker,
        boot=boot,
        started_at=from_micros(started_at),
        ended_at=moment(ended_at),
        event=None if event is None else Event(event),
        error=None if error is None else error_of(error),
        progress=progress,
        log_tail=log_tail,
    )


def schedule_row(schedule: Schedule, now: int) -> dict[str, Any]:
    """Write a schedule, by the names of create_schedule.sql."""
    return {
        "id": schedule.id,
        "name": schedule.name,
        "rule": schedule.rule,
        "template": schedule.template.to_text(),
        "now": now,
        "zone": schedule.zone,
        "catch_up": schedule.catch_up.value,
        "catch_up_limit": schedule.catch_up_limit,
        "grace": span_to_micros(schedule.grace),
        "overlap": schedule.overlap.value,
        "jitter": span_to_micros(schedule.jitter),
        "start_at": micros(schedule.start_at),
        "end_at": micros(schedule.end_at),
        "blackouts": _blackouts_text(schedule.blackouts),
        "paused_at": micros(schedule.paused_at),
        "pause_reason": schedule.pause_reason,
        "next_fire_at": micros(schedule.next_fire_at),
        "version": schedule.version,
        "app": schedule.app,
    }


def schedule_of(row: Row) -> Schedule:
    """Read a schedule, in the order of schedule_columns.sql."""
    (
        schedule_id, name, rule, template, created_at, updated_at, zone, catch_up, catch_up_limit, grace, overlap,
        jitter, start_at, end_at, blackouts, paused_at, pause_reason, next_fire_at, last_fire_at, last_job_id, version,
        app,
    ) = row  # fmt: skip
    return Schedule(
        id=schedule_id,
        name=name,
        rule=rule,
        template=Template.from_text(template),
        created_at=from_micros(created_at),
        updated_at=from_micros(updated_at),
        zone=zone,
        catch_up=CatchUp(catch_up),
        catch_up_limit=catch_up_limit,
        grace=grace * MICROSECOND,
        overlap=Overlap(overlap),
        jitter=jitter * MICROSECOND,
        start_at=moment(start_at),
        end_at=moment(end_at),
        blackouts=_blackouts_of(blackouts),
        paused_at=moment(paused_at),
        pause_reason=pause_reason,
        app=app,
        next_fire_at=moment(next_fire_at),
        last_fire_at=moment(last_fire_at),
        last_job_id=last_job_id,
        version=version,
    )


def _blackouts_text(blackouts: tuple[Blackout, ...]) -> str | None:
    if not blackouts:
        return None
    return json.dumps([[span_to_micros(one.lasting), micros(one.start), one.rule] for one in blackouts])


def _blackouts_of(text: str | None) -> tuple[Blackout, ...]:
    return tuple(
        Blackout(lasting * MICROSECOND, moment(start), rule) for lasting, start, rule in json.loads(text or "[]")
    )


def occurrence_of(row: Row) -> Occurrence:
    """Read the record of a fire time, in the order of occurrences.sql."""
    schedule_id, fire_time, fate, job_id = row
    return Occurrence(schedule_id, from_micros(fire_time), Fate(fate), job_id)


def step_of(row: Row) -> Step:
    """Read a step, in the order of step.sql."""
    job_id, key, began_under, began_at, ended_at, outcome = row
    return Step(job_id, key, began_under, from_micros(began_at), moment(ended_at), outcome)


def member_row(member: Member, now: int) -> dict[str, Any]:
    """Write a process, by the names of beat.sql."""
    return {
        "boot": member.boot,
        "role": member.role.value,
        "name": member.name,
        "host": member.host,
        "pid": member.pid,
        "version": member.version,
        "address": member.address,
        "queues": json.dumps(member.queues),
        "types": None if member.types is None else json.dumps(member.types),
        "slots": member.slots,
        "busy": member.busy,
        "is_draining": int(member.is_draining),
        "started_at": micros(member.started_at),
        "now": now,
    }


def member_of(row: Row) -> Member:
    """Read a process, in the order of members.sql."""
    role, name, boot, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at = row
    return Member(
        role=Role(role),
        name=name,
        boot=boot,
        host=host,
        pid=pid,
        version=version,
        address=address,
        queues=tuple(json.loads(queues)),
        types=None if types is None else tuple(json.loads(types)),
        slots=slots,
        busy=busy,
        is_draining=bool(is_draining),
        started_at=from_micros(started_at),
        seen_at=from_micros(seen_at),
    )


def leadership_of(row: Row) -> Leadership:
    """Read who leads, in the order of leader.sql."""
    name, holder, term, until = row
    return Leadership(name, holder, term, from_micros(until))


def current_leadership(rows: Sequence[Row], now: int) -> Leadership | None:
    """Read who leads now: a row whose time has passed names a former leader."""
    found = [leadership_of(row) for row in rows]
    return found[0] if found and found[0].until > from_micros(now) else None


def members_text(members: Sequence[Member]) -> str:
    """Write processes as check_in.sql reads them: JSON, in the order in which rows are always written."""
    rows = [member_row(member, 0) for member in sorted(members, key=lambda one: one.boot)]
    return json.dumps([{**row, "is_draining": bool(row["is_draining"])} for row in rows])


def cluster_view_of(row: Row) -> ClusterView:
    """Read the view of the cluster, in the order of check_in.sql: time, leader, and the row of the configuration."""
    now, lead, queue = row[0], tuple(row[1:5]), tuple(row[5:])
    return ClusterView(
        None if lead[0] is None else current_leadership([lead], now), None if queue[0] is None else queue_of(queue)
    )


def queue_row(queue: Queue) -> dict[str, Any]:
    """Write a queue's settings, by the names of create_queue.sql."""
    return {
        "name": queue.name,
        "paused_at": micros(queue.paused_at),
        "pause_reason": queue.pause_reason,
        "resume_at": micros(queue.resume_at),
        "max_depth": queue.max_depth,
        "max_running": queue.max_running,
        "rate_limit": queue.rate_limit,
        "version": queue.version,
    }


def queue_of(row: Row) -> Queue:
    """Read a queue's settings, in the order of queues.sql."""
    name, paused_at, pause_reason, resume_at, max_depth, max_running, rate_limit, version = row
    return Queue(name, moment(paused_at), pause_reason, moment(resume_at), max_depth, max_running, rate_limit, version)


def limit_row(limit: Limit) -> dict[str, Any]:
    """Write a limit, by the names of save_limit and close_limit."""
    return {
        "name": limit.name,
        "max_running": limit.max_running,
        "rate_limit": limit.rate_limit,
        "per_key_max_running": limit.per_key_max_running,
        "per_key_rate_limit": limit.per_key_rate_limit,
        "closed_until": micros(limit.closed_until),
        "reason": limit.reason,
        "app": limit.app,
        "set_by": limit.set_by,
    }


def limit_of(row: Row) -> Limit:
    """Read a limit, in the order of limit_columns."""
    name, most, rates, key_most, key_rates, closed_until, reason, app, set_by, set_at = row
    return Limit(name, most, rates, key_most, key_rates, moment(closed_until), reason, app, set_by, moment(set_at))


def entry_of(row: Row) -> LedgerEntry:
    """Read an entry of the ledger, in the order of ledger.sql."""
    number, at, actor, action, target, origin, detail, digest = row
    return LedgerEntry(actor, action, target, origin, detail, from_micros(at), number, digest)


def token_row(token: Token) -> Row:
    """Write a token, in the order of put_token.sql."""
    return (
        token.id,
        token.name,
        token.digest,
        json.dumps(token.scopes),
        json.dumps(token.queues),
        to_micros(token.created_at),
        micros(token.expires_at),
        micros(token.revoked_at),
        micros(token.last_used_at),
    )


def token_of(row: Row) -> Token:
    """Read a token, in the order of tokens.sql."""
    token_id, name, digest, scopes, queues, created_at, expires_at, revoked_at, last_used_at = row
    return Token(
        id=token_id,
        name=name,
        digest=digest,
        scopes=tuple(json.loads(scopes)),
        created_at=from_micros(created_at),
        queues=tuple(json.loads(queues)),
        expires_at=moment(expires_at),
        revoked_at=moment(revoked_at),
        last_used_at=moment(last_used_at),
    )


def lanes_of(rows: Iterable[Row]) -> tuple[LaneCount, ...]:
    """Read counts by lane and state. Jobs with and without a key are counted apart, and added up here."""
    found: dict[tuple[str, str, str], LaneCount] = {}
    for queue, type_, state, count, due_since in rows:
        one = LaneCount(Lane(queue, type_), _STATES[state], count, moment(due_since))
        other = found.get((queue, type_, state))
        if other is not None:
            one = LaneCount(one.lane, one.state, one.count + other.count, first_due((one, other)))
        found[queue, type_, state] = one
    return tuple(found.values())


def states_of(rows: Sequence[Row]) -> Mapping[State, int]:
    """Read counts by state."""
    return {_STATES[state]: count for state, count in rows}


def timetable_of(row: Row) -> Timetable:
    """Read a timetable: the time, then when a job, a lease, an expiry and a schedule are due."""
    now, *edges = row
    return Timetable(from_micros(now), *map(moment, edges))
