"""Calls of the store as the history records them: plain values, times in microseconds, no types of Rota.

One function per verb for what was asked and one for what was answered. Calls that only read, or find nothing to do,
are not recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from rota.core.graph import NewWorkflow, Rerun
from rota.core.ids import JobId, to_number
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.ledger import LedgerEntry
from rota.core.limit import Limit
from rota.core.schedule import Firing, Occurrence, Schedule
from rota.core.settlement import Settlement
from rota.core.step import Step, StepKind
from rota.core.submission import TAKES, NewJob
from rota.core.time import EPOCH, span_to_micros, to_micros
from rota.core.waiting import Emission, Emitted, Wait
from rota.ports.store import Inserted, Retention

Plain = Any

#: The result of most handlers, which the history leaves out.
_USUAL_RESULT: Final = '"done"'

#: Calls whose request and answer are recorded too, not only when the store did them: the caller acts on the answer.
_RECORDED_AT_BOTH_ENDS: Final = frozenset({"insert", "settle", "ask_cancel", "put_schedules", "fire"})


def micros(moment: datetime | None) -> int | None:
    """Give a moment as microseconds, if there is one."""
    return None if moment is None else to_micros(moment)


def new_job(job: NewJob) -> dict[str, Plain]:
    """Describe a submission."""
    key = job.idempotency
    return {
        "id": job.id,
        "queue": job.queue,
        "type": job.type,
        "priority": job.priority,
        "run_at": micros(job.run_at),
        "expires_at": micros(job.expires_at),
        "max_attempts": job.max_attempts,
        "delivery": str(job.delivery),
        "key": None if key is None else [key.scope, key.key, key.request.hex(), span_to_micros(key.keep)],
        "after": [[dependency.on, str(dependency.need)] for dependency in job.after],
        "on_success": job.on_success is not None,
        "on_failure": job.on_failure is not None,
        # The job that the store itself makes if a dependency fails; its times count from then.
        "failure_job": None if job.on_failure is None else new_job(job.on_failure.make(JobId(0), EPOCH)),
        "parent_id": job.parent_id,
        "schedule_id": job.schedule_id,
        "fire_time": micros(job.fire_time),
        "submission": job.tags[0] if job.tags else None,
        **({} if job.concurrency_key is None else {"concurrency_key": job.concurrency_key}),
        **({} if TAKES not in job.meta else {"takes": job.meta[TAKES]}),
    }


def limit(limit: Limit) -> dict[str, Plain]:
    """Describe a limit; of its rates, the interval and the burst."""
    return {
        "name": limit.name,
        "max_running": limit.max_running,
        "rates": [[rate.interval, rate.burst] for rate in limit.rates],
        "per_key_max_running": limit.per_key_max_running,
        "weight": limit.weight,
        "order": limit.order,
        "closed_until": micros(limit.closed_until),
    }


def stored_job(job: Job) -> dict[str, Plain]:
    """Describe a job as the store has it."""
    return {
        "id": job.id,
        "queue": job.queue,
        "type": job.type,
        "priority": job.priority,
        "state": str(job.state),
        "run_at": micros(job.run_at),
        "expires_at": micros(job.expires_at),
        "fence": job.fence,
        "attempts": job.attempts,
        "crashes": job.crashes,
        "max_attempts": job.max_attempts,
        "delivery": str(job.delivery),
        "worker": job.worker,
        "boot": job.boot,
        "lease_until": micros(job.lease_until),
        "cancel": job.cancel_requested_at is not None,
        "reason": None if job.reason is None else str(job.reason),
        "key": job.idempotency_key,
        "parent_id": job.parent_id,
        "schedule_id": job.schedule_id,
        "fire_time": micros(job.fire_time),
        "result": None if job.result is None else json.loads(job.result),
    }


def claimed_job(job: Job) -> dict[str, Plain]:
    """Describe a job as a claim gave it."""
    return {
        "id": job.id,
        "fence": job.fence,
        "attempts": job.attempts,
        "crashes": job.crashes,
        "run_at": micros(job.run_at),
        "lease_until": micros(job.lease_until),
    }


def settlement(one: Settlement) -> dict[str, Plain]:
    """Describe what was to be written about one job."""
    fields: dict[str, Plain] = {
        "id": one.job_id,
        "fence": one.fence,
        "source": str(one.source),
        "target": str(one.target),
        "event": str(one.event),
    }
    if one.run_at is not None:
        fields["run_at"] = micros(one.run_at)
    if one.reason is not None:
        fields["reason"] = str(one.reason)
    for flag in ("refund", "crash", "renew"):
        if getattr(one, flag):
            fields[flag] = True
    if one.lapsed_at is not None:
        fields["lapsed_at"] = micros(one.lapsed_at)
    if one.follow_up is not None:
        fields["follow_up"] = new_job(one.follow_up)
    if one.wait is not None:
        fields["wait"] = one.wait.key
    if one.result is not None and one.result != _USUAL_RESULT:
        fields["result"] = json.loads(one.result)
    return fields


def _span(span: timedelta | None) -> int | None:
    return None if span is None else span_to_micros(span)


def step(one: Step | None) -> Plain:
    """Describe a step as the store has it; None if the lease is lost."""
    if one is None:
        return None
    subject = to_number(one.subject) if one.kind is StepKind.CALL and one.subject is not None else one.subject
    outcome = None if one.outcome is None else json.loads(one.outcome)
    return {
        "key": one.key,
        "kind": str(one.kind),
        "is_done": one.is_done,
        "outcome": outcome,
        "until": micros(one.until),
        "subject": subject,
    }


def _begin_wait(job_id: JobId, fence: int, wait: Wait, *, child: NewJob | None = None, **_options: object) -> Plain:
    return {
        "job": job_id,
        "fence": fence,
        "key": wait.key,
        "kind": str(wait.kind),
        "span": _span(wait.span),
        "event": wait.event,
        "child": None if child is None else new_job(child),
    }


def _conclude(job_id: JobId, fence: int, key: str, outcome: str, **_options: object) -> Plain:
    return {"job": job_id, "fence": fence, "key": key, "outcome": json.loads(outcome)}


def _emit(emission: Emission, *, entry: LedgerEntry | None = None, **_options: object) -> Plain:
    return {
        "name": emission.name,
        "payload": json.loads(emission.payload),
        "keep": span_to_micros(emission.keep),
        "entry": entry_of(entry),
    }


def _emitted(one: Emitted) -> Plain:
    return {"is_new": one.is_new, "queues": dict(one.queues)}


def _put_workflow(workflow: NewWorkflow, **_options: object) -> Plain:
    return {
        "id": workflow.id,
        "name": workflow.name,
        "policy": str(workflow.policy),
        "nodes": [
            {"job": new_job(node.job), "parents": [[one.position, str(one.need)] for one in node.parents]}
            for node in workflow.nodes
        ],
    }


def _rerun(again: Rerun, *, entry: LedgerEntry | None = None, **_options: object) -> Plain:
    return {
        "workflow": again.workflow_id,
        "positions": [node.position for node in again.nodes],
        "jobs": [new_job(job) for job in again.jobs],
        "replaces": list(again.replaces),
        "skipped": list(again.skipped),
        "entry": entry_of(entry),
    }


def entry_of(entry: LedgerEntry | None) -> list[str] | None:
    """Describe an operator's act."""
    return None if entry is None else [entry.actor, entry.action, entry.target]


def schedule(one: Schedule) -> dict[str, Plain]:
    """Describe a schedule."""
    return {
        "id": one.id,
        "name": one.name,
        "rule": one.rule,
        "version": one.version,
        "catch_up": str(one.catch_up),
        "catch_up_limit": one.catch_up_limit,
        "grace": span_to_micros(one.grace),
        "overlap": str(one.overlap),
        "end_at": micros(one.end_at),
        "paused": one.paused_at is not None,
        "next_fire_at": micros(one.next_fire_at),
    }


def occurrence(one: Occurrence) -> list[Plain]:
    """Describe what became of a fire time."""
    return [micros(one.fire_time), str(one.fate), one.job_id]


def firing(one: Firing) -> dict[str, Plain]:
    """Describe what a scheduler wrote down."""
    return {
        "schedule_id": one.schedule_id,
        "version": one.version,
        "planned_for": micros(one.planned_for),
        "is_backfill": one.is_backfill,
        "occurrences": [occurrence(each) for each in one.occurrences],
        "jobs": [new_job(job) for job in one.jobs],
        "next_fire_at": micros(one.next_fire_at),
        "cancels": list(one.cancels),
    }


def _claim(claim: Claim, **_options: object) -> Plain:
    return {
        "worker": claim.worker.name,
        "boot": claim.worker.boot,
        "limit": claim.limit,
        "queues": list(claim.queues),
        "types": None if claim.types is None else list(claim.types),
        "claim_id": claim.claim_id,
        "ahead": span_to_micros(claim.ahead),
    }


def _settle(settlements: Sequence[Settlement], *, entry: LedgerEntry | None = None, **_options: object) -> Plain:
    return {"settlements": [settlement(one) for one in settlements], "entry": entry_of(entry)}


def _ask_cancel(leases: Sequence[tuple[int, int]], *, entry: LedgerEntry | None = None, **_options: object) -> Plain:
    return {"leases": [list(lease) for lease in leases], "entry": entry_of(entry)}


def _renew(renewals: Sequence[Renewal], **_options: object) -> Plain:
    return [[one.job_id, one.fence] for one in renewals]


def _prune(retention: Retention, limit: int, **_options: object) -> Plain:
    spans = {"completed": retention.completed, "cancelled": retention.cancelled, "dead": retention.dead}
    return {"limit": limit} | {name: None if span is None else span_to_micros(span) for name, span in spans.items()}


def _batch(describe: Callable[[Any], Plain]) -> Callable[..., Plain]:
    return lambda items, *_arguments, **_options: [describe(item) for item in items]


def _inserted(answers: Sequence[Inserted]) -> Plain:
    return [[one.job_id, str(one.receipt), str(one.state)] for one in answers]


def _renewed(answers: Sequence[Renewed]) -> Plain:
    return [[one.job_id, one.fence, to_micros(one.until), one.cancel] for one in answers]


_ASKED: Final[Mapping[str, Callable[..., Plain]]] = {
    "insert": _batch(new_job),
    "claim": _claim,
    "renew": _renew,
    "settle": _settle,
    "ask_cancel": _ask_cancel,
    "promote": lambda limit, **_options: limit,
    "prune": _prune,
    "put_schedules": _batch(schedule),
    "fire": _batch(firing),
    "begin_wait": _begin_wait,
    "conclude": _conclude,
    "emit": _emit,
    "end_waits": lambda limit, **_options: limit,
    "put_workflow": _put_workflow,
    "rerun": _rerun,
}

_ANSWERED: Final[Mapping[str, Callable[[Any], Plain]]] = {
    "insert": _inserted,
    "claim": lambda jobs: [claimed_job(job) for job in jobs],
    "renew": _renewed,
    "settle": list,
    "ask_cancel": list,
    "promote": dict,
    "prune": int,
    "put_schedules": list,
    "fire": list,
    "begin_wait": step,
    "conclude": step,
    "emit": _emitted,
    "end_waits": dict,
    "put_workflow": _inserted,
    "rerun": bool,
}


def records_both_ends(verb: str) -> bool:
    """Whether the history records the request and the answer at the caller, too."""
    return verb in _RECORDED_AT_BOTH_ENDS


def is_recorded(verb: str, answer: object) -> bool:
    """Whether the history records that the store did it."""
    if isinstance(answer, Emitted) and not answer.is_new:
        return False
    return verb in _ASKED and not (verb in {"promote", "prune", "end_waits"} and not answer)


def asked(verb: str, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Plain:
    """Describe what a call asked for."""
    describe = _ASKED.get(verb)
    return None if describe is None else describe(*arguments, **options)


def answered(verb: str, answer: object) -> Plain:
    """Describe what a call was answered."""
    describe = _ANSWERED.get(verb)
    return None if describe is None else describe(answer)
