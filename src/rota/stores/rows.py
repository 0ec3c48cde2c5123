"""Row mapping: values of the core to columns, and rows back to values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from rota.core.ids import JobId, to_text
from rota.core.job import AGING_MICROS, Attempt, Job, turn_at
from rota.core.job_edit import JobChange
from rota.core.lease import Claim
from rota.core.lifecycle import Event, State
from rota.core.queue import Lane, LaneCount
from rota.core.queue import due_since as first_due
from rota.core.retry import DEFAULT_BACKOFF, Backoff
from rota.core.schedule import Blackout, CatchUp, Fate, Occurrence, Overlap, Schedule
from rota.core.settlement import JobError, Reason, Settlement
from rota.core.step import Step, StepKind
from rota.core.submission import NO_META, Delivery, Dependency, Need, NewJob, Template
from rota.core.time import MICROSECOND, from_micros, span_to_micros, to_micros
from rota.core.unique_keys import UNIQUE
from rota.core.waiting import EmittedEvent, Wait
from rota.ports.store import Edge, Timetable

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


def unique_dependencies(dependencies: Sequence[Dependency]) -> list[tuple[JobId, Need, int]]:
    """Return parent, need and position of dependencies. If a job is named twice, the stricter need counts."""
    by_parent: dict[JobId, tuple[JobId, Need, int]] = {}
    for position, one in enumerate(dependencies):
        earlier = by_parent.get(one.on)
        if earlier is None:
            by_parent[one.on] = (one.on, one.need, position)
        elif earlier[1] is Need.END:
            by_parent[one.on] = (one.on, one.need, earlier[2])
    return list(by_parent.values())


def edge_of(row: Row) -> Edge:
    """Read a dependency."""
    parent, child, need, met = row
    return Edge(parent, child, Need(need), bool(met))


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
        meta_text(job),
        len({dependency.on for dependency in job.after}),
        None if job.on_success is None else job.on_success.to_text(),
        None if job.on_failure is None else job.on_failure.to_text(),
        job.parent_id,
        job.schedule_id,
        micros(job.fire_time),
    )


def meta_text(job: NewJob) -> str | None:
    """Write the meta of a new job, with the name of its unique key."""
    meta = dict(job.meta)
    if job.unique is not None:
        meta[UNIQUE] = " ".join(job.unique.name_for(job.type, job.queue))
    return json.dumps(meta, ensure_ascii=False) if meta else None


#: The optional fields of a new job, and their defaults.
_OPTIONAL = attrgetter(
    "timeout", "expires_at", "idempotency", "concurrency_key", "on_success", "on_failure", "parent_id", "schedule_id",
    "fire_time", "unique", "tags", "after", "meta", "backoff",
)  # fmt: skip
_DEFAULTS = (*(None,) * 10, (), (), NO_META, DEFAULT_BACKOFF)


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


def change_row(change: JobChange, now: int) -> dict[str, Any]:
    """Write the change of a waiting job, by the names in edit_job."""
    return {
        "id": change.job_id,
        "fence": change.fence,
        "source": change.source.value,
        "updated_at": to_micros(change.updated_at),
        "target": change.target.value,
        "queue": change.queue,
        "priority": change.priority,
        "run_at": to_micros(change.run_at),
        "max_attempts": change.max_attempts,
        "payload": change.payload,
        "tags": json.dumps(change.tags, ensure_ascii=False) if change.tags else None,
        "aging": AGING_MICROS,
        "now": now,
    }


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


def must_be_read_whole(more: object) -> bool:
    """Whether a claimed job sets optional fields besides its concurrency key, by the last of claim_columns.sql.

    That column is NULL if the job sets none, and the key if that is all it sets.
    """
    return more is not None and (more.__class__ is not str or not more)


def leased_jobs(rows: Sequence[Row], claim: Claim, build_full: Callable[[Row], Job]) -> list[Job]:
    """Build leased jobs from rows in the order of claim_columns.sql; `build_full` builds those with optional fields."""
    if not rows:
        return []
    started_at = from_micros(rows[0][12])
    until = started_at + claim.lease
    name, boot = claim.worker.name, claim.worker.boot
    return [
        Job(
            row[0], row[1], row[2], row[3], row[4], _RUNNING, from_micros(row[5]), from_micros(row[6]), started_at,
            row[7], row[8], row[9], row[10], DEFAULT_BACKOFF, _DELIVERIES[row[11]], None, None, name, boot, until,
            started_at, concurrency_key=row[13], meta=NO_META,
        )
        if row[13] is None or not must_be_read_whole(row[13])
        else build_full(row)
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
        "lapsed_at": micros(settlement.lapsed_at),
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
    job_id, key, began_under, began_at, ended_at, outcome, kind, until, subject = row
    times = from_micros(began_at), moment(ended_at)
    return Step(job_id, key, began_under, *times, outcome, StepKind(kind), moment(until), subject)


def event_of(row: Row) -> EmittedEvent:
    """Read an emitted event: name, payload, time, expiry."""
    name, payload, at, expires_at = row
    return EmittedEvent(name, payload, from_micros(at), from_micros(expires_at))


def due_of(wait: Wait, now: int) -> int | None:
    """Return when a wait that begins now ends by its time; None if it does not."""
    return None if wait.span is None else now + span_to_micros(wait.span)


def subject_of(wait: Wait, child_id: JobId | None) -> str | None:
    """Return what a wait waits for: the name of an event, or the id of a child job."""
    return wait.event if child_id is None else to_text(child_id)


def lanes_of(rows: Iterable[Row]) -> tuple[LaneCount, ...]:
    """Read counts by lane and state. Jobs with and without a key are counted apart, and added up here."""
    lanes: dict[tuple[str, str, str], LaneCount] = {}
    for queue, type_, state, count, due_since in rows:
        one = LaneCount(Lane(queue, type_), _STATES[state], count, moment(due_since))
        other = lanes.get((queue, type_, state))
        if other is not None:
            one = LaneCount(one.lane, one.state, one.count + other.count, first_due((one, other)))
        lanes[queue, type_, state] = one
    return tuple(lanes.values())


def states_of(rows: Sequence[Row]) -> Mapping[State, int]:
    """Read counts by state."""
    return {_STATES[state]: count for state, count in rows}


def timetable_of(row: Row) -> Timetable:
    """Read a timetable: the time, then when a job, a lease, an expiry, a schedule and a wait are due."""
    now, *edges = row
    return Timetable(from_micros(now), *map(moment, edges))
