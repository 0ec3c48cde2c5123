"""How calls to the store look in the history: plain values, times as microseconds, nothing of Rota's own types.

One function per verb for what was asked and one for what was answered. Calls that only look, or find nothing to do, are
not worth a line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.ledger import LedgerEntry
from rota.core.limit import Limit
from rota.core.schedule import Firing, Occurrence, Schedule
from rota.core.settlement import Settlement
from rota.core.submission import NewJob
from rota.core.time import EPOCH, span_to_micros, to_micros
from rota.ports.store import Inserted, Retention

Plain = Any

#: Calls whose sending is told too, not only what the store made of them: their callers draw conclusions from answers.
_TOLD: Final = frozenset({"insert", "settle", "ask_cancel", "put_schedules", "fire"})


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
    told: dict[str, Plain] = {
        "id": one.job_id,
        "fence": one.fence,
        "source": str(one.source),
        "target": str(one.target),
        "event": str(one.event),
    }
    if one.run_at is not None:
        told["run_at"] = micros(one.run_at)
    if one.reason is not None:
        told["reason"] = str(one.reason)
    for flag in ("refund", "crash", "renew"):
        if getattr(one, flag):
            told[flag] = True
    if one.lapsed_at is not None:
        told["lapsed_at"] = micros(one.lapsed_at)
    if one.follow_up is not None:
        told["follow_up"] = new_job(one.follow_up)
    return told


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
}


def is_api_given(verb: str) -> bool:
    """Say whether the history tells who asked and what they heard, not only what was done."""
    return verb in _TOLD


def is_worth_telling(verb: str, answer: object) -> bool:
    """Say whether the history tells that it was done."""
    return verb in _ASKED and not (verb in {"promote", "prune"} and not answer)


def asked(verb: str, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Plain:
    """Describe what a call asked for."""
    describe = _ASKED.get(verb)
    return None if describe is None else describe(*arguments, **options)


def answered(verb: str, answer: object) -> Plain:
    """Describe what a call was answered."""
    describe = _ANSWERED.get(verb)
    return None if describe is None else describe(answer)
