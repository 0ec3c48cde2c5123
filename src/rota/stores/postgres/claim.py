"""Claims and renewals of leases.

A claim reads each lane (queue and type) by itself, so that a million jobs of a type that this worker does not know cost
it nothing. With several lanes it first counts, without locks, how the most urgent jobs are spread over them, and then
takes from each lane its share: so no row is locked that is not taken.

To read several lanes is a tenth of the cost of claiming one job. If a notification has just announced one job and its
lane, the worker that it woke claims that job without reading the other lanes, if it has room for more.

Open claims (`handoff`) may have been answered by a submitter: such a job is returned without another statement.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from operator import itemgetter
from typing import Final

from asyncpg.exceptions import UniqueViolationError

from rota.core.errors import StoreUnavailable
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.lifecycle import State
from rota.core.time import from_micros, span_to_micros
from rota.stores.limit_memory import LimitMemory
from rota.stores.postgres import limits
from rota.stores.postgres.database import Database
from rota.stores.postgres.handoff import NOT_OPEN, OpenClaims, OpenTerms, lane_key
from rota.stores.postgres.lanes import KnownTypes, LaneStart
from rota.stores.postgres.limits import RepeatedError
from rota.stores.postgres.low_water import LowWaterMarks
from rota.stores.postgres.notify import Listener
from rota.stores.postgres.session import Session, numbers
from rota.stores.rows import Row, job_of, leased_jobs
from rota.stores.text_codec import encode_text
from rota.stores.unique_batches import unique_batches

#: The turn, then the id, in the order of the fragment claim_columns.
_BY_TURN: Final = itemgetter(14, 0)
#: The column that claim_lanes adds: whether the worker's previous claim was still open.
_WAS_OPEN: Final = 15


class Claims:
    """Leases jobs to workers."""

    def __init__(
        self,
        database: Database,
        listener: Listener,
        open_claims: OpenClaims,
        low_water: LowWaterMarks,
        memory: LimitMemory,
    ) -> None:
        self._database = database
        self._listener = listener
        self._open_claims = open_claims
        self._low_water = low_water
        self._memory = memory
        self._known_types = KnownTypes()

    async def claim(self, claim: Claim, now: int | None) -> Sequence[Job]:
        """Lease due jobs to a worker, most urgent first; or return what was handed over to it."""
        may_be_repeated = not claim.is_new
        if claim.ids is None:
            self._listener.listen_for_work()
            answer = self._open_claims.take(claim)
            if answer is not None:
                return answer.jobs(claim) or await self._leases_of(answer.claim_id)
            missed = await self._settle_former(claim, now)
            if missed:
                return missed
            may_be_repeated |= self._open_claims.may_have_missed_answer(claim)
        rows: Sequence[Row] = ()
        late: Sequence[Job] = ()
        try:
            rows, late = await self._rows(claim, now)
            if claim.ahead and not rows and claim.ids is None:
                ahead = await self._database.alone(claim_ahead, claim, now)
                if ahead:
                    return ahead
        except RepeatedError:
            may_be_repeated = True
        if rows or late or claim.claim_id is None or not may_be_repeated:
            return [*jobs_of(rows, claim), *late]
        if self._open_claims.is_last(claim):
            # Before the lookup: an answer that is just being given cannot be seen until it is committed.
            await self._database.alone(delete_open_claim, claim.claim_id)
        jobs = await self._leases_of(claim.claim_id)
        if jobs:
            # The notification of the same jobs may be on its way or here already, and must not return them once more.
            self._open_claims.leave(claim.worker.boot)
        return jobs

    async def _leases_of(self, claim_id: str) -> Sequence[Job]:
        return await self._database.read(leases_of, claim_id) or []

    async def _settle_former(self, claim: Claim, now: int | None) -> Sequence[Job]:
        """Return the jobs of former claims whose answers the worker did not get; mostly these were cancelled."""
        claim_ids = self._open_claims.unsettled(claim)
        late: list[Job] = []
        for claim_id in claim_ids:
            # A submitter that is just answering it has committed then, or will not.
            await self._database.alone(delete_open_claim, claim_id)
            late += await self._late(claim_id, claim, now)
        # Only now: a caller that is cancelled before that repeats its claim.
        self._open_claims.note_settled(claim.worker.boot, claim_ids)
        return late

    async def _late(self, claim_id: str, claim: Claim, now: int | None) -> Sequence[Job]:
        """Return the jobs that were handed over to the last claim of a worker, if their leases can be renewed.

        The worker counts leases from its new claim, and these began before.
        """
        jobs = await self._leases_of(claim_id)
        if not jobs:
            return ()
        renewals = [Renewal(job.id, job.fence, claim.lease) for job in jobs]
        renewed = await self._database.alone(renew, renewals, now)
        return [replace(job, lease_until=one.until) for job, one in zip(jobs, renewed, strict=True) if one is not None]

    async def _rows(self, claim: Claim, now: int | None) -> tuple[Sequence[Row], Sequence[Job]]:
        """Return the rows of a claim, and jobs that were handed over to the worker's last claim unnoticed."""
        if claim.ids is not None:
            return await self._database.alone(claim_by_id, claim, now), ()
        # Taken in any case: a worker that reads all lanes has seen the announced job, too.
        announced = self._listener.take_announced()
        lanes = self._known_types.named_lanes(claim)
        if lanes is None:
            lanes = await self._database.read(self._known_types.discover_lanes, claim)
        may_be_limited = self._memory.may_be_in_use()
        if may_be_limited and not self._memory.is_ordinary_first(claim):
            rows = await self._claim_limited(lanes, claim, now)
            if rows:
                return rows, ()
            may_be_limited = False
        lanes = self._low_water.starts(lanes)
        late: Sequence[Job] = ()
        rows = await self._claim_announced(announced, lanes, claim, now) if announced else ()
        if not rows:
            rows, late = await self._claim_from(lanes, claim, now)
        if rows:
            self._open_claims.leave(claim.worker.boot)
            self._low_water.note_claimed(*lowest_turns(rows))
        if may_be_limited and len(rows) < claim.limit and not late:
            rows = [*rows, *await self._claim_limited(lanes, claim, now, rows)]
        return rows, late

    async def _claim_limited(
        self, lanes: Sequence[LaneStart], claim: Claim, now: int | None, before: Sequence[Row] = ()
    ) -> Sequence[Row]:
        """Lease jobs that limits concern, if there are any."""
        if not self._memory.is_known_in_use:
            restrictions = await self._database.read(limits.conditions, now)
            self._memory.note_limits(restrictions.limited, has_keys=restrictions.has_keys)
            if not restrictions.is_limited:
                return ()
        keys = [(lane.queue, lane.type) for lane in lanes]
        try:
            rows = await self._database.write(
                limits.claim_limited,
                claim,
                keys,
                now,
                self._memory,
                before,
                may_be_open=not claim.is_new or self._open_claims.is_waiting(claim),
            )
        except StoreUnavailable:
            if before:
                # The worker gets what was leased already.
                return ()
            raise
        if rows:
            self._open_claims.leave(claim.worker.boot)
        return rows

    async def _claim_announced(
        self, announced: tuple[str, str], lanes: Sequence[LaneStart], claim: Claim, now: int | None
    ) -> Sequence[Row]:
        """Lease the one job that a notification announced, to a worker that it woke and that has room for more."""
        if claim.is_woken and claim.limit > 1 < len(lanes):
            for lane in lanes:
                if (lane.queue, lane.type) == announced:
                    return await self._database.alone(claim_one, claim, lane, now)
        return []

    async def _claim_from(
        self, lanes: Sequence[LaneStart], claim: Claim, now: int | None
    ) -> tuple[Sequence[Row], Sequence[Job]]:
        if not lanes:
            return [], ()
        # In a single lane the plain statement costs a seventh less. A claim that looks ahead is not left open, since
        # the same worker comes back for what it has left.
        terms = NOT_OPEN if len(lanes) == 1 or claim.ahead else self._open_claims.terms(claim)
        rows, is_answered = await self._database.alone(claim_lanes, claim, lanes, terms, now)
        late: Sequence[Job] = ()
        if terms.former is not None and terms.former != claim.claim_id:
            late = await self._late(terms.former, claim, now) if is_answered else ()
            self._open_claims.note_settled(claim.worker.boot, (terms.former,))
        if not were_overtaken(rows):
            return rows, late
        rows = []
        for lane in await self._database.read(busy_lanes, claim, lanes, now):
            # Other workers were faster in all lanes at once. What they left is further down, lane by lane.
            rows, _ = await self._database.alone(claim_lanes, claim, [lane], NOT_OPEN, now)
            if rows:
                break
        return rows, late


async def claim_lanes(
    session: Session, claim: Claim, lanes: Sequence[LaneStart], terms: OpenTerms, now: int | None
) -> tuple[list[Row], bool]:
    """Lease the most urgent jobs of some lanes, or leave the claim open.

    Also returns whether a submitter has answered the worker's former claim.
    """
    if len(lanes) == 1 and terms == NOT_OPEN:
        return _by_turn(await _lease(session, "claim_lane", claim, now, *lanes[0], claim.limit)), False
    *columns, keys = _columns(tuple(lanes))
    rows = _by_turn(await _lease(session, "claim_lanes", claim, now, *columns, claim.limit, terms=(keys, *terms)))
    return rows, bool(rows) and not rows[0][_WAS_OPEN]


async def claim_one(session: Session, claim: Claim, lane: LaneStart, now: int | None) -> list[Row]:
    """Lease the most urgent job of a lane."""
    return _by_turn(await _lease(session, "claim_lane", claim, now, *lane, 1))


# Few: there may be thousands of lanes in each.
@lru_cache(maxsize=8)
def _columns(lanes: tuple[LaneStart, ...]) -> tuple[list[str], list[str], str, list[str]]:
    """Return lanes as columns of parameters, and the keys of open claims. A worker uses the same all the time."""
    queues, types = [lane.queue for lane in lanes], [lane.type for lane in lanes]
    return queues, types, numbers(lane.turn for lane in lanes), list(map(lane_key, queues, types))


async def claim_by_id(session: Session, claim: Claim, now: int | None) -> list[Row]:
    """Lease those jobs handed over by a broker that may be claimed."""
    types = None if claim.types is None else list(claim.types)
    ids = numbers(sorted(claim.ids or ()))
    return _by_turn(await _lease(session, "claim_by_id", claim, now, ids, list(claim.queues), types, claim.limit))


async def claim_ahead(session: Session, claim: Claim, now: int | None) -> list[Job]:
    """Lease jobs whose time comes within the span that a claim looks ahead."""
    types = None if claim.types is None else list(claim.types)
    rows = await _lease(
        session, "claim_ahead", claim, now, span_to_micros(claim.ahead), list(claim.queues), types, claim.limit
    )
    return sorted(map(job_of, rows), key=lambda job: (job.run_at, -job.priority, job.id))


async def _lease(
    session: Session, name: str, claim: Claim, now: int | None, *chosen: object, terms: Sequence[object] = ()
) -> Sequence[Row]:
    lease, worker = span_to_micros(claim.lease), claim.worker
    try:
        return await session.rows(name, now, *chosen, worker.name, worker.boot, lease, claim.claim_id, *terms)
    except UniqueViolationError as error:
        raise RepeatedError from error


def _by_turn(rows: Sequence[Row]) -> list[Row]:
    """Sort the rows of a claim: an update returns its rows in no order."""
    return sorted(rows, key=_BY_TURN) if len(rows) > 1 else list(rows)


def were_overtaken(rows: Sequence[Row]) -> bool:
    """Whether there was something to claim in several lanes and other workers took all of it."""
    return bool(rows) and rows[0][0] is None


def lowest_turns(rows: Sequence[Row]) -> tuple[dict[tuple[str, str], int], int]:
    """Return the lowest turn that a claim took of each queue and type, and the time of the claim."""
    # In the order of the fragment claim_columns, the lowest turn first.
    return {(row[3], row[1]): row[14] for row in reversed(rows)}, rows[0][12]


def jobs_of(rows: Sequence[Row], claim: Claim) -> list[Job]:
    """Return the jobs of a claim's rows."""
    if rows and rows[0][13] is not None:
        # Within limits, most jobs have a key and no other optional field.
        rows = [(*row[:13], row[13][0]) if row[13] is not None and len(row[13]) == 1 else row for row in rows]
    return leased_jobs(rows, claim, partial(_full_job, claim))


def _full_job(claim: Claim, row: Row) -> Job:
    """Build a leased job that has optional fields, from a row in the order of the fragment claim_columns."""
    (
        job_id, type_, payload, queue, priority, run_at, created_at, fence, attempts, crashes, max_attempts, delivery,
        started_at, more, *_,
    ) = row  # fmt: skip
    if len(more) == 1:
        return leased_jobs([(*row[:13], more[0])], claim, job_of)[0]
    (
        backoff, timeout, expires_at, cancel_requested_at, result, error, reason, idempotency_key, concurrency_key,
        tags, meta, blockers, on_success, on_failure, parent_id, schedule_id, fire_time,
    ) = more  # fmt: skip
    until = started_at + span_to_micros(claim.lease)
    return job_of((
        job_id, type_, payload, queue, priority, State.RUNNING.value, run_at, created_at, started_at, fence, attempts,
        crashes, max_attempts, backoff, delivery, timeout, expires_at, claim.worker.name, claim.worker.boot, until,
        started_at, None, cancel_requested_at, result, error, reason, idempotency_key, concurrency_key, tags, meta,
        blockers, on_success, on_failure, parent_id, schedule_id, fire_time,
    ))  # fmt: skip


async def busy_lanes(session: Session, claim: Claim, lanes: Sequence[LaneStart], now: int | None) -> list[LaneStart]:
    """Return the lanes that hold the most urgent jobs."""
    rows = await session.rows("busy_lanes", now, *_columns(tuple(lanes))[:3], claim.limit)
    busy = {(queue, type_) for queue, type_ in rows}
    return [lane for lane in lanes if (lane.queue, lane.type) in busy]


async def leases_of(session: Session, claim_id: str) -> list[Job] | None:
    """Return the jobs of an earlier claim that still run under its fences; None if there was no such claim."""
    leases = await session.values("leases_of_claim", claim_id)
    if not leases:
        return None
    fences: dict[JobId, int] = dict(json.loads(leases[0]))
    jobs = {job.id: job for job in map(job_of, await session.rows("jobs_by_id", list(fences)))}
    ordered = (jobs[job_id] for job_id in fences if job_id in jobs)
    return [job for job in ordered if job.lease_until is not None and job.fence == fences[job.id]]


async def delete_open_claim(session: Session, claim_id: str) -> None:
    """Delete an open claim, and wait for a submitter that is just answering it: then its leases can be looked up."""
    await session.run("delete_open_claim", claim_id)


def is_quiet(renewal: Renewal) -> bool:
    """Whether a renewal brings neither progress nor log."""
    return renewal.progress is None and renewal.log_tail is None


async def renew(session: Session, renewals: Sequence[Renewal], now: int | None) -> list[Renewed | None]:
    """Extend the leases that still hold; None stands for one that does not."""
    answers: list[Renewed | None] = [None] * len(renewals)
    for places in unique_batches(renewals, key=lambda renewal: renewal.job_id):
        held = await _renew_different(session, [renewals[place] for place in places], now)
        for place in places:
            answers[place] = held.get(renewals[place].job_id)
    return answers


async def _renew_different(session: Session, renewals: Sequence[Renewal], now: int | None) -> dict[JobId, Renewed]:
    ordered = sorted(renewals, key=lambda renewal: renewal.job_id)
    rows = await session.rows(
        "renew_leases",
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
            "save_progress",
            [one.job_id for one in notes],
            [encode_text(one.progress) for one in notes],
            [encode_text(one.log_tail) for one in notes],
        )
    return held
