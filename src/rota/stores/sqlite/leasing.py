"""Handing out work: claims, renewals, and the wish that a running job should stop."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Final

from rota.core.identity import JobId
from rota.core.instant import from_micros, span_to_micros
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.stores.merging import Lane, Place, Reading, most_urgent
from rota.stores.rows import ids_text, job_of, leased_jobs
from rota.stores.sqlite.driver import Connection
from rota.stores.sqlite.statements import statement

#: Up to this many lanes are looked at without asking first which of them have work, and so many in one statement.
FEW_LANES: Final = 128


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
    lanes = _lanes(connection, wanted, now)
    if len(lanes) < 2:  # noqa: PLR2004 - one, or none
        rows = [row for lane in lanes for row in connection.rows(statement("pending"), (*lane, now, now, wanted.limit))]
        return [job_id for _, job_id in rows]
    # So much more than its share that a second look is rarely needed: measured, both more and less cost more.
    asking = most_urgent(lanes, wanted.limit, min(2 * wanted.limit // len(lanes) + 2, wanted.limit))
    try:
        reading = next(asking)
        while True:
            reading = asking.send(_first_places(connection, reading, now))
    except StopIteration as ended:
        return [job_id for (_, job_id), _ in ended.value[: wanted.limit]]


def _lanes(connection: Connection, wanted: Claim, now: int) -> list[Lane]:
    """Give the lanes that a claim has to look at."""
    paused = {name for (name,) in connection.rows(statement("paused_queues"), (now,))}
    queues = [queue for queue in dict.fromkeys(wanted.queues) if queue not in paused]
    if wanted.types is not None and len(queues) * len(wanted.types) <= FEW_LANES:
        return [(queue, type_) for queue in queues for type_ in dict.fromkeys(wanted.types)]
    return [(queue, type_) for queue in queues for type_ in _types_with_work(connection, queue, wanted.types)]


def _first_places(connection: Connection, reading: Reading, now: int) -> dict[Lane, list[Place]]:
    """Give the first places of each lane."""
    found: dict[Lane, list[Place]] = {lane: [] for lane in reading.lanes}
    for start in range(0, len(reading.lanes), FEW_LANES):
        some = reading.lanes[start : start + FEW_LANES]
        values = tuple(
            chain.from_iterable((queue, type_, reading.last_turn, now, now, reading.count) for queue, type_ in some)
        )
        for number, turn, job_id in connection.rows(_lanes_statement(len(some)), values):
            found[some[number]].append((turn, job_id))
    return found


@cache
def _lanes_statement(count: int) -> str:
    """Repeat the statement for one lane, each time with the lane's number."""
    part = statement("pending_in_lane")
    return " UNION ALL ".join(part.replace("{number}", str(number)) for number in range(count))


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
