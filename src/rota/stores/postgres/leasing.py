"""Handing out work: claims, renewals, and the wish that a running job should stop.

A claim looks at each lane (queue and type) by itself, so that a million jobs of a type that this worker does not know
cost it nothing. With several lanes it first looks, holding nothing, how the most urgent jobs are spread over them, and
then takes from each lane its share: so no row is held that is not taken, and nobody else goes hungry meanwhile.

To look at several lanes is a tenth of what a claim of one job takes. Where a notice has just told of one job and its
lane, whoever had found nothing in any of them and was woken by that gets the one without a look at the others, if it
has room for more.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache, partial
from operator import itemgetter
from typing import Final

from asyncpg.exceptions import UniqueViolationError

from rota.core.identity import JobId
from rota.core.instant import from_micros, span_to_micros
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.lifecycle import State
from rota.stores.postgres.lanes import Lane
from rota.stores.postgres.numbers import numbers
from rota.stores.postgres.open_claims import GOES_AWAY, Stay, lane_key
from rota.stores.postgres.session import Session
from rota.stores.rounds import rounds
from rota.stores.rows import Row, job_of, leased_jobs
from rota.stores.texts import writable

#: The turn, then the id, in the order of claim_columns.sql.
_BY_TURN: Final = itemgetter(14, 0)
#: What claim_lanes.sql adds to that.
_WAS_OPEN: Final = 15


class RepeatedError(Exception):
    """A claim of this name came before, and nothing was leased."""


async def claim(
    session: Session, wanted: Claim, lanes: Sequence[Lane], stay: Stay, now: int | None
) -> tuple[list[Row], bool]:
    """Lease the most urgent jobs of some lanes, or stay; and say whether somebody has answered the last that stayed."""
    if len(lanes) == 1 and stay == GOES_AWAY:
        return await _lease(session, "claim", wanted, now, *lanes[0], wanted.limit), False
    *columns, keys = _columns(tuple(lanes))
    rows = await _lease(session, "claim_lanes", wanted, now, *columns, wanted.limit, stay=(keys, *stay))
    return rows, bool(rows) and not rows[0][_WAS_OPEN]


async def claim_one(session: Session, wanted: Claim, lane: Lane, now: int | None) -> list[Row]:
    """Lease the most urgent job of a lane."""
    return await _lease(session, "claim", wanted, now, *lane, 1)


# Few: there may be thousands of lanes in each.
@lru_cache(maxsize=8)
def _columns(lanes: tuple[Lane, ...]) -> tuple[list[str], list[str], str, list[str]]:
    """Write lanes as a statement takes them, and as those who stay are found. A worker is in the same all the time."""
    queues, types = [lane.queue for lane in lanes], [lane.type for lane in lanes]
    return queues, types, numbers(lane.floor for lane in lanes), list(map(lane_key, queues, types))


async def claim_handed_over(session: Session, wanted: Claim, now: int | None) -> list[Row]:
    """Lease those jobs that a broker handed over and that may be claimed."""
    types = None if wanted.types is None else list(wanted.types)
    return await _lease(
        session,
        "claim_handed_over",
        wanted,
        now,
        numbers(sorted(wanted.ids or ())),
        list(wanted.queues),
        types,
        wanted.limit,
    )


async def claim_ahead(session: Session, wanted: Claim, now: int | None) -> list[Job]:
    """Lease jobs whose time comes within the span that a claim looks ahead."""
    types = None if wanted.types is None else list(wanted.types)
    rows = await _leased(
        session, "claim_ahead", wanted, now, span_to_micros(wanted.ahead), list(wanted.queues), types, wanted.limit
    )
    return sorted(map(job_of, rows), key=lambda job: (job.run_at, -job.priority, job.id))


async def _lease(
    session: Session, name: str, wanted: Claim, now: int | None, *chosen: object, stay: Sequence[object] = ()
) -> list[Row]:
    rows = await _leased(session, name, wanted, now, *chosen, stay=stay)
    # An update gives its rows in no order.
    return sorted(rows, key=_BY_TURN) if len(rows) > 1 else list(rows)


async def _leased(
    session: Session, name: str, wanted: Claim, now: int | None, *chosen: object, stay: Sequence[object] = ()
) -> Sequence[Row]:
    lease, worker = span_to_micros(wanted.lease), wanted.worker
    try:
        return await session.rows(name, now, *chosen, worker.name, worker.boot, lease, wanted.claim_id, *stay)
    except UniqueViolationError as error:
        raise RepeatedError from error


def were_overtaken(rows: Sequence[Row]) -> bool:
    """Whether there was something to claim in several lanes and others had all of it."""
    return bool(rows) and rows[0][0] is None


def places_of(rows: Sequence[Row]) -> tuple[dict[tuple[str, str], int], int]:
    """Give the lowest turn that a claim gave of each queue and type, and the time it was given."""
    # In the order of claim_columns.sql, the lowest turn first.
    return {(row[3], row[1]): row[14] for row in reversed(rows)}, rows[0][12]


def jobs_of(rows: Sequence[Row], wanted: Claim) -> list[Job]:
    """Read what a claim gave."""
    return leased_jobs(rows, wanted, partial(_elaborate, wanted))


def _elaborate(wanted: Claim, row: Row) -> Job:
    """Read a job that was leased and sets more, in the order of claim_columns.sql."""
    (
        job_id, type_, payload, queue, priority, run_at, created_at, fence, attempts, crashes, max_attempts, delivery,
        started_at, more, *_,
    ) = row  # fmt: skip
    (
        backoff, timeout, expires_at, cancel_requested_at, result, error, reason, idempotency_key, concurrency_key,
        tags, meta, blockers, on_success, on_failure, parent_id, schedule_id, fire_time,
    ) = more  # fmt: skip
    until = started_at + span_to_micros(wanted.lease)
    return job_of((
        job_id, type_, payload, queue, priority, State.RUNNING.value, run_at, created_at, started_at, fence, attempts,
        crashes, max_attempts, backoff, delivery, timeout, expires_at, wanted.worker.name, wanted.worker.boot, until,
        started_at, None, cancel_requested_at, result, error, reason, idempotency_key, concurrency_key, tags, meta,
        blockers, on_success, on_failure, parent_id, schedule_id, fire_time,
    ))  # fmt: skip


async def busy(session: Session, wanted: Claim, lanes: Sequence[Lane], now: int | None) -> list[Lane]:
    """Say in which lanes the most urgent jobs stand."""
    found = {
        (queue, type_)
        for queue, type_ in await session.rows("busy_lanes", now, *_columns(tuple(lanes))[:3], wanted.limit)
    }
    return [lane for lane in lanes if (lane.queue, lane.type) in found]


async def recall(session: Session, claim_id: str) -> list[Job] | None:
    """Give the jobs of an earlier claim that still run under the fences it gave; None if there was none."""
    leases = await session.values("recall_claim", claim_id)
    if not leases:
        return None
    fences: dict[JobId, int] = dict(json.loads(leases[0]))
    jobs = {job.id: job for job in map(job_of, await session.rows("get", list(fences)))}
    ordered = (jobs[job_id] for job_id in fences if job_id in jobs)
    return [job for job in ordered if job.lease_until is not None and job.fence == fences[job.id]]


async def take_away(session: Session, claim_id: str) -> None:
    """Take an open claim away, and wait for whoever is just answering it: then what it gave can be recalled."""
    await session.run("take_open_claim", claim_id)


def is_quiet(renewal: Renewal) -> bool:
    """Whether a renewal has nothing to show."""
    return renewal.progress is None and renewal.log_tail is None


async def renew(session: Session, renewals: Sequence[Renewal], now: int | None) -> list[Renewed | None]:
    """Extend the leases that still hold; None stands for one that does not."""
    answers: list[Renewed | None] = [None] * len(renewals)
    for places in rounds(renewals, key=lambda renewal: renewal.job_id):
        held = await _renew_different(session, [renewals[place] for place in places], now)
        for place in places:
            answers[place] = held.get(renewals[place].job_id)
    return answers


async def _renew_different(session: Session, renewals: Sequence[Renewal], now: int | None) -> dict[JobId, Renewed]:
    ordered = sorted(renewals, key=lambda renewal: renewal.job_id)
    rows = await session.rows(
        "renew",
        now,
        numbers(one.job_id for one in ordered),
        numbers(one.fence for one in ordered),
        numbers(span_to_micros(one.lease) for one in ordered),
    )
    fences = {one.job_id: one.fence for one in renewals}
    held = {job_id: Renewed(job_id, fences[job_id], from_micros(until), cancel) for job_id, until, cancel in rows}
    notes = [one for one in ordered if one.job_id in held and not is_quiet(one)]
    if notes:
        await session.run(
            "note_attempts",
            [one.job_id for one in notes],
            [writable(one.progress) for one in notes],
            [writable(one.log_tail) for one in notes],
        )
    return held


async def ask_cancel(session: Session, leases: Sequence[tuple[JobId, int]], now: int) -> list[JobId]:
    """Mark running jobs as to be cancelled, and give those that were."""
    wanted = sorted(leases)
    rows = await session.rows("ask_cancel", now, [job_id for job_id, _ in wanted], [fence for _, fence in wanted])
    marked = {(job_id, fence) for job_id, fence in rows}
    return [lease[0] for lease in leases if lease in marked]


async def lost(session: Session, limit: int, start: int, now: int) -> list[Job]:
    """Give running jobs whose lease has run out."""
    return [job_of(row) for row in await session.rows("lost", now, limit, start)]


async def expired(session: Session, limit: int, now: int) -> list[Job]:
    """Give waiting jobs that are too late to start."""
    return [job_of(row) for row in await session.rows("expired", now, limit)]
