"""Handing out work: claims, renewals, and the wish that a running job should stop."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from heapq import nsmallest

from rota.core.identity import JobId
from rota.core.instant import from_micros, span_to_micros
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.stores.rows import Row, ids_text, job_of, leased_jobs
from rota.stores.sqlite.driver import Connection
from rota.stores.sqlite.statements import statement


def claim(connection: Connection, wanted: Claim, now: int) -> list[Job]:
    """Lease the most urgent jobs that may be claimed. Reads first, and writes only if there are any."""
    if wanted.claim_id is not None:
        former = recall(connection, wanted.claim_id)
        if former is not None:
            return former
    ids = (
        _handed_over(connection, wanted, wanted.ids, now)
        if wanted.ids is not None
        else _most_urgent(connection, wanted, now)
    )
    if ids:
        jobs = _lease(connection, wanted, ids, now)
    elif wanted.ahead:
        jobs = _lease_ahead(connection, wanted, now)
    else:
        return []
    if jobs and wanted.claim_id is not None:
        leases_text = str([[job.id, job.fence] for job in jobs])
        connection.run(statement("remember_claim"), (wanted.claim_id, now, leases_text))
    return jobs


def recall(connection: Connection, claim_id: str) -> list[Job] | None:
    """Give the jobs of an earlier claim that are still held under it; None if it gave none."""
    leases = connection.rows(statement("recall_claim"), (claim_id,))
    return _held(connection, json.loads(leases[0][0])) if leases else None


def _held(connection: Connection, leases: Sequence[tuple[JobId, int]]) -> list[Job]:
    """Give the jobs of an earlier claim that still run under the fences it gave."""
    fences = dict(leases)
    rows = connection.rows(statement("get"), (ids_text(list(fences)),))
    jobs = {job.id: job for job in map(job_of, rows)}
    ordered = (jobs[job_id] for job_id in fences if job_id in jobs)
    return [job for job in ordered if job.lease_until is not None and job.fence == fences[job.id]]


def _handed_over(connection: Connection, wanted: Claim, ids: Sequence[JobId], now: int) -> list[JobId]:
    parameters = {
        "ids": ids_text(ids),
        "queues": json.dumps(wanted.queues),
        "types": None if wanted.types is None else json.dumps(wanted.types),
        "now": now,
        "limit": wanted.limit,
    }
    return [job_id for _, job_id in connection.rows(statement("claimable"), parameters)]


def _most_urgent(connection: Connection, wanted: Claim, now: int) -> list[JobId]:
    """Take the earliest turns of all lanes asked for. Each lane is looked at by itself.

    So a million jobs of a type that this worker does not know cost it one step over their lane.
    """
    paused = {name for (name,) in connection.rows(statement("paused_queues"), (now,))}
    found: list[Row] = []
    lanes = 0
    for queue in dict.fromkeys(wanted.queues):
        if queue in paused:
            continue
        for type_ in _types_with_work(connection, queue, wanted.types):
            found += connection.rows(statement("pending"), (queue, type_, now, now, wanted.limit))
            lanes += 1
    if lanes > 1:
        found = nsmallest(wanted.limit, found)
    return [job_id for _, job_id in found]


def _types_with_work(connection: Connection, queue: str, wanted: tuple[str, ...] | None) -> Iterator[str]:
    """Leap through the types that have pending jobs in a queue and those that are wanted, whichever is ahead."""
    sought = None if wanted is None else sorted(set(wanted))
    floor = "" if sought is None else sought[0] if sought else None
    while floor is not None:
        found = connection.rows(statement("next_type"), (queue, floor))
        if not found:
            return
        type_ = found[0][0]
        if sought is None:
            yield type_
            floor = type_ + "\0"
            continue
        place = bisect_left(sought, type_)
        if place < len(sought) and sought[place] == type_:
            yield type_
            place += 1
        floor = sought[place] if place < len(sought) else None


def _lease_parameters(wanted: Claim, ids: Sequence[JobId], now: int) -> dict[str, object]:
    return {
        "ids": ids_text(ids),
        "worker": wanted.worker.name,
        "boot": wanted.worker.boot,
        "now": now,
        "lease_until": now + span_to_micros(wanted.lease),
    }


def _lease(connection: Connection, wanted: Claim, ids: Sequence[JobId], now: int) -> list[Job]:
    rows = connection.rows(statement("claim"), _lease_parameters(wanted, ids, now))
    elaborate = [row[0] for row in rows if row[-1]]
    more = connection.rows(statement("get"), (ids_text(elaborate),)) if elaborate else ()
    elaborated = {job.id: job for job in map(job_of, more)}
    jobs = {job.id: job for job in leased_jobs(rows, wanted, lambda row: elaborated[row[0]])}
    return [jobs[job_id] for job_id in ids]


def _soon(connection: Connection, wanted: Claim, now: int) -> list[JobId]:
    """Give the jobs whose time comes within the span that a claim looks ahead."""
    if wanted.ids is not None:
        return []
    parameters = {
        "queues": json.dumps(wanted.queues),
        "types": None if wanted.types is None else json.dumps(wanted.types),
        "now": now,
        "until": now + span_to_micros(wanted.ahead),
        "limit": wanted.limit,
    }
    return [job_id for (job_id,) in connection.rows(statement("soon"), parameters)]


def _lease_ahead(connection: Connection, wanted: Claim, now: int) -> list[Job]:
    ids = _soon(connection, wanted, now)
    if not ids:
        return []
    rows = connection.rows(statement("claim_ahead"), _lease_parameters(wanted, ids, now))
    jobs = {job.id: job for job in map(job_of, rows)}
    return [jobs[job_id] for job_id in ids]


def renew(connection: Connection, renewals: Sequence[Renewal], now: int) -> list[Renewed | None]:
    """Extend the leases that still hold; None stands for one that does not."""
    return [_renew_one(connection, renewal, now) for renewal in renewals]


def _renew_one(connection: Connection, renewal: Renewal, now: int) -> Renewed | None:
    until = now + span_to_micros(renewal.lease)
    parameters = {"id": renewal.job_id, "fence": renewal.fence, "lease_until": until}
    held = connection.rows(statement("renew"), parameters)
    if not held:
        return None
    if renewal.progress is not None or renewal.log_tail is not None:
        note = {"id": renewal.job_id, "progress": renewal.progress, "log_tail": renewal.log_tail}
        connection.run(statement("note_attempt"), note)
    return Renewed(renewal.job_id, renewal.fence, from_micros(until), bool(held[0][0]))


def ask_cancel(connection: Connection, leases: Sequence[tuple[JobId, int]], now: int) -> list[JobId]:
    """Mark running jobs as to be cancelled, and give those that were."""
    return [
        job_id
        for job_id, fence in leases
        if connection.run(statement("ask_cancel"), {"id": job_id, "fence": fence, "now": now})
    ]


def lost(connection: Connection, limit: int, now: int) -> list[Job]:
    """Give running jobs whose lease has run out."""
    return [job_of(row) for row in connection.rows(statement("lost"), (now, limit))]


def expired(connection: Connection, limit: int, now: int) -> list[Job]:
    """Give waiting jobs that are too late to start."""
    return [job_of(row) for row in connection.rows(statement("expired"), (now, limit))]
