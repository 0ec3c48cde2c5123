"""Claim: leasing due jobs to workers, renewing leases, and requesting the cancellation of running jobs."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Final

from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.time import from_micros, span_to_micros
from rota.stores.lane_merge import LaneKey, LaneRead, Place, most_urgent
from rota.stores.limit_memory import LimitMemory
from rota.stores.limited_lanes import ClaimConditions, conditions_of, is_limited
from rota.stores.rows import ids_text, job_of, leased_jobs, must_be_read_whole
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.limits import take_limited
from rota.stores.sqlite.statements import statement

#: Up to this many lanes (queue and type) are read without first finding out which have work, and in one statement.
FEW_LANES: Final = 128


def claim_jobs(connection: SqliteConnection, claim: Claim, memory: LimitMemory, now: int) -> list[Job]:
    """Lease the most urgent claimable jobs. Reads first, and writes only if there are any."""
    if claim.claim_id is not None:
        repeated = repeated_claim(connection, claim.claim_id)
        if repeated is not None:
            return repeated
    conditions = claim_conditions(connection, now)
    if claim.ids is not None:
        ids = _claimable(connection, claim, claim.ids, now)
    elif conditions.is_limited:
        ids = _within_limits(connection, claim, conditions, memory)
    else:
        ids = _most_urgent(connection, _lanes(connection, claim, conditions), claim.limit, now)
    if ids:
        jobs = _lease(connection, claim, ids, now)
    elif claim.ahead:
        jobs = _lease_early(connection, claim, now)
    else:
        return []
    if jobs and claim.claim_id is not None:
        connection.run(statement("save_claim"), (claim.claim_id, now, leases_text(jobs)))
    return jobs


def leases_text(jobs: Sequence[Job]) -> str:
    """Write the leases of a claim as JSON: pairs of job and fence."""
    return str([[job.id, job.fence] for job in jobs])


def repeated_claim(connection: SqliteConnection, claim_id: str) -> list[Job] | None:
    """Return the jobs of an earlier claim that still run under the fences it gave; None if there was no such claim."""
    leases = connection.rows(statement("leases_of_claim"), (claim_id,))
    return _still_leased(connection, json.loads(leases[0][0])) if leases else None


def _still_leased(connection: SqliteConnection, leases: Sequence[tuple[JobId, int]]) -> list[Job]:
    fences = dict(leases)
    rows = connection.rows(statement("jobs_by_id"), {"keys": ids_text(list(fences))})
    jobs = {job.id: job for job in map(job_of, rows)}
    ordered = (jobs[job_id] for job_id in fences if job_id in jobs)
    return [job for job in ordered if job.lease_until is not None and job.fence == fences[job.id]]


def _claimable(connection: SqliteConnection, claim: Claim, ids: Sequence[JobId], now: int) -> list[JobId]:
    """Return those of the jobs delivered by a broker that may be claimed."""
    parameters = {**_filters(claim), "ids": ids_text(ids), "now": now}
    return [job_id for _, job_id in connection.rows(statement("claimable_jobs"), parameters)]


def _filters(claim: Claim) -> dict[str, object]:
    return {
        "queues": json.dumps(claim.queues),
        "types": None if claim.types is None else json.dumps(claim.types),
        "limit": claim.limit,
    }


def claim_conditions(connection: SqliteConnection, now: int) -> ClaimConditions:
    """Read the restrictions of a claim in one statement."""
    return conditions_of(connection.rows(statement("claim_conditions"), (now,)), now)


def _within_limits(
    connection: SqliteConnection, claim: Claim, conditions: ClaimConditions, memory: LimitMemory
) -> list[JobId]:
    """Return jobs of lanes without limits, and of limited lanes and keys as many as their limits allow.

    The two parts take turns in being read first, so that neither can keep the other from starting.
    """
    lanes = _lanes(connection, claim, conditions)
    free = [lane for lane in lanes if not is_limited(lane, conditions.limited)]
    held = [lane for lane in lanes if is_limited(lane, conditions.limited)]
    keyed = _lanes(connection, claim, conditions, "next_type_with_keys") if conditions.has_keys else []
    is_ordinary_first = memory.is_ordinary_first()
    ids = _most_urgent(connection, free, claim.limit, conditions.now) if is_ordinary_first else []
    if len(ids) < claim.limit and (held or keyed):
        rest = replace(claim, limit=claim.limit - len(ids))
        ids += take_limited(connection, rest, held, keyed, memory, conditions.now)
    if not is_ordinary_first and len(ids) < claim.limit:
        ids += _most_urgent(connection, free, claim.limit - len(ids), conditions.now)
    return ids


def _most_urgent(connection: SqliteConnection, lanes: Sequence[LaneKey], limit: int, now: int) -> list[JobId]:
    """Return the jobs with the lowest turns of some lanes. Each lane is read by itself.

    So a million jobs of a type that this worker does not know cost it one step over their lane.
    """
    if len(lanes) < 2:  # noqa: PLR2004 - one, or none
        rows = [
            row for lane in lanes for row in connection.rows(statement("pending_of_lane"), (*lane, now, now, limit))
        ]
        return [job_id for _, job_id in rows]
    # Of each lane so much more than its share that a second read is rarely needed: measured, more and less cost more.
    merging = most_urgent(lanes, limit, min(2 * limit // len(lanes) + 2, limit))
    try:
        reading = next(merging)
        while True:
            reading = merging.send(_first_places(connection, reading, now))
    except StopIteration as ended:
        return [job_id for (_, job_id), _ in ended.value[:limit]]


def _lanes(
    connection: SqliteConnection, claim: Claim, conditions: ClaimConditions, next_type: str = "next_type_with_work"
) -> list[LaneKey]:
    """Return the lanes that a claim has to read; `next_type` is the statement that finds types with work."""
    queues = [queue for queue in dict.fromkeys(claim.queues) if queue not in conditions.paused]
    if claim.types is not None and len(queues) * len(claim.types) <= FEW_LANES:
        return [(queue, type_) for queue in queues for type_ in dict.fromkeys(claim.types)]
    return [(queue, type_) for queue in queues for type_ in _types_with_work(connection, queue, claim.types, next_type)]


def _first_places(connection: SqliteConnection, reading: LaneRead, now: int) -> dict[LaneKey, list[Place]]:
    """Return the first turns and jobs of each lane."""
    places: dict[LaneKey, list[Place]] = {lane: [] for lane in reading.lanes}
    for start in range(0, len(reading.lanes), FEW_LANES):
        some = reading.lanes[start : start + FEW_LANES]
        values = tuple(
            chain.from_iterable((queue, type_, reading.last_turn, now, now, reading.count) for queue, type_ in some)
        )
        for number, turn, job_id in connection.rows(_lanes_statement(len(some)), values):
            places[some[number]].append((turn, job_id))
    return places


@cache
def _lanes_statement(count: int) -> str:
    """Repeat the statement for one lane, each time with the lane's number."""
    part = statement("pending_of_numbered_lane")
    return " UNION ALL ".join(part.replace("{number}", str(number)) for number in range(count))


def _types_with_work(
    connection: SqliteConnection, queue: str, types: tuple[str, ...] | None, next_type: str
) -> Iterator[str]:
    """Yield the wanted types that have pending jobs in a queue, by a loose index scan that skips both ways."""
    names = None if types is None else sorted(set(types))
    lowest = "" if names is None else names[0] if names else None
    while lowest is not None:
        rows = connection.rows(statement(next_type), (queue, lowest))
        if not rows:
            return
        type_ = rows[0][0]
        if names is None:
            yield type_
            lowest = type_ + "\0"
            continue
        place = bisect_left(names, type_)
        if place < len(names) and names[place] == type_:
            yield type_
            place += 1
        lowest = names[place] if place < len(names) else None


def _lease_parameters(claim: Claim, ids: Sequence[JobId], now: int) -> dict[str, object]:
    return {
        "ids": ids_text(ids),
        "worker": claim.worker.name,
        "boot": claim.worker.boot,
        "now": now,
        "lease_until": now + span_to_micros(claim.lease),
    }


def _lease(connection: SqliteConnection, claim: Claim, ids: Sequence[JobId], now: int) -> list[Job]:
    rows = connection.rows(statement("claim_jobs"), _lease_parameters(claim, ids, now))
    not_plain = [row[0] for row in rows if must_be_read_whole(row[-1])]
    full_rows = connection.rows(statement("jobs_by_id"), {"keys": ids_text(not_plain)}) if not_plain else ()
    full_jobs = {job.id: job for job in map(job_of, full_rows)}
    jobs = {job.id: job for job in leased_jobs(rows, claim, lambda row: full_jobs[row[0]])}
    return [jobs[job_id] for job_id in ids]


def _lease_early(connection: SqliteConnection, claim: Claim, now: int) -> list[Job]:
    """Lease jobs that become due within the look-ahead of a claim."""
    if claim.ids is not None:
        return []
    parameters = {**_filters(claim), "now": now, "until": now + span_to_micros(claim.ahead)}
    ids = [job_id for (job_id,) in connection.rows(statement("due_soon"), parameters)]
    if not ids:
        return []
    rows = connection.rows(statement("claim_jobs_early"), _lease_parameters(claim, ids, now))
    jobs = {job.id: job for job in map(job_of, rows)}
    return [jobs[job_id] for job_id in ids]


def renew(connection: SqliteConnection, renewals: Sequence[Renewal], now: int) -> list[Renewed | None]:
    """Extend the leases that still hold; None for each that does not."""
    return [_renew_one(connection, renewal, now) for renewal in renewals]


def _renew_one(connection: SqliteConnection, renewal: Renewal, now: int) -> Renewed | None:
    until = now + span_to_micros(renewal.lease)
    parameters = {"id": renewal.job_id, "fence": renewal.fence, "lease_until": until}
    rows = connection.rows(statement("renew_lease"), parameters)
    if not rows:
        return None
    if renewal.progress is not None or renewal.log_tail is not None:
        progress = {"id": renewal.job_id, "progress": renewal.progress, "log_tail": renewal.log_tail}
        connection.run(statement("save_progress"), progress)
    return Renewed(renewal.job_id, renewal.fence, from_micros(until), bool(rows[0][0]))


def ask_cancel(connection: SqliteConnection, leases: Sequence[tuple[JobId, int]], now: int) -> list[JobId]:
    """Request the cancellation of running jobs, and return those that run under the given fence."""
    return [
        job_id
        for job_id, fence in leases
        if connection.run(statement("request_cancel"), {"id": job_id, "fence": fence, "now": now})
    ]
