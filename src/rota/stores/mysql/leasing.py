"""Handing out work: claims, renewals, and the wish that a running job should stop."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import AsyncIterator, Mapping, Sequence
from heapq import nsmallest
from typing import Any, Final

from rota.core.identity import JobId
from rota.core.instant import from_micros, span_to_micros
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.lifecycle import TIMED, State
from rota.stores.mysql import lanes
from rota.stores.mysql.clock import ServerClock
from rota.stores.mysql.driver import LONGEST_LIST, Again, Clash, Connection, lists
from rota.stores.mysql.flight import FEWEST_TO_CARRY
from rota.stores.mysql.floors import BEGINNING, Lane, Place, Trail
from rota.stores.mysql.lanes import Found
from rota.stores.mysql.places import Standing, leave, lock, own
from rota.stores.mysql.statements import statement
from rota.stores.rounds import rounds
from rota.stores.rows import Row, job_of, leased_jobs

#: Fewer jobs than this leave the line one by one.
SHORTEST_STRETCH: Final = 16
#: If more lanes than this have work, all that are wanted are looked at together, unless they are more than that.
FEW_LANES: Final = 3
MOST_LANES: Final = 128
#: Rather fail than wait for a lock.
_AT_ONCE: Final = "SET STATEMENT innodb_lock_wait_timeout = 0 FOR"


def is_plain(wanted: Claim) -> bool:
    """Whether a claim asks for what is due and for nothing else: not ahead, not by id, not for a former answer."""
    return not wanted.ahead and wanted.ids is None and (wanted.is_new or wanted.claim_id is None)


async def has_work(connection: Connection, clock: ServerClock, claims: Sequence[Claim]) -> bool:
    """Say whether there may be anything for plain claims, and learn the time with it."""
    queues = tuple(sorted({queue for wanted in claims for queue in wanted.queues}))
    types = tuple(sorted({type_ for wanted in claims for type_ in wanted.types or ()}))
    takes_all = any(wanted.types is None for wanted in claims)
    if not queues or not (types or takes_all):
        return False
    parameters = {"queues": queues, "takes_all": takes_all, "types": types or ("",)}
    return (await clock.ask(connection, statement("has_work"), parameters))[1] is not None


async def claim(connection: Connection, claims: Sequence[Claim], trail: Trail, now: int) -> list[list[Job]]:
    """Lease the most urgent jobs that may be claimed, to each in the order in which they came.

    Those who ask for the same share one look at the line: the first gets its head, the next what follows.
    """
    # It may be run again.
    trail.forget()
    answers: list[list[Job]] = [[] for _ in claims]
    repeated = await _recalled(connection, claims)
    together: dict[tuple[object, ...], list[int]] = {}
    first_of: dict[str, int] = {}
    for place, wanted in enumerate(claims):
        if wanted.claim_id is not None and wanted.claim_id in repeated:
            answers[place] = await _held(connection, repeated[wanted.claim_id])
        elif wanted.claim_id is None or first_of.setdefault(wanted.claim_id, place) == place:
            alone = place if wanted.ids is not None else None
            together.setdefault((wanted.queues, wanted.types, wanted.ahead, alone), []).append(place)
    for places in together.values():
        given = await _lease_together(connection, [claims[place] for place in places], trail, now)
        for place, jobs in zip(places, given, strict=True):
            answers[place] = jobs
    await _remember(connection, [(claims[place], answers[place]) for place in first_of.values()], now)
    # The same claim twice at once: both get the same.
    return [
        answers[first_of.get(wanted.claim_id, place)] if wanted.claim_id is not None else answers[place]
        for place, wanted in enumerate(claims)
    ]


async def _recalled(connection: Connection, claims: Sequence[Claim]) -> dict[str, list[tuple[JobId, int]]]:
    """Give what claims gave that came before; those that are new gave nothing."""
    names = sorted({wanted.claim_id for wanted in claims if wanted.claim_id is not None and not wanted.is_new})
    found: dict[str, list[tuple[JobId, int]]] = {}
    for some in lists(names):
        rows = await connection.rows(statement("recall_claim"), {"claim_ids": some})
        found.update((name, json.loads(leases)) for name, leases in rows)
    return found


async def _remember(connection: Connection, given: Sequence[tuple[Claim, Sequence[Job]]], now: int) -> None:
    """Keep what claims gave, so that they can be repeated. One that gave nothing is as if it had never come.

    If one that was said to be new has come before, this clashes, at the latest when the transaction ends.
    """
    rows = [(wanted.claim_id, now, _leases_text(jobs)) for wanted, jobs in given if jobs]
    if all(wanted.is_new for wanted, _ in given):
        for row in rows:
            connection.defer(statement("remember_claim"), row)
        return
    try:
        await connection.many(statement("remember_claim"), rows)
    except Clash as error:
        if any(wanted.is_new for wanted, _ in given):
            raise
        raise Again("the same claim was served at this moment") from error


def _leases_text(jobs: Sequence[Job]) -> str:
    """Write pairs of job and fence as JSON. The fence is nearly always the same, which takes a third of the time."""
    fences = {job.fence for job in jobs}
    if len(fences) > 1:
        return json.dumps([[job.id, job.fence] for job in jobs])
    (fence,) = fences
    return f"[[{f', {fence}], ['.join([str(job.id) for job in jobs])}, {fence}]]"


async def _lease_together(connection: Connection, claims: Sequence[Claim], trail: Trail, now: int) -> list[list[Job]]:
    """Lease jobs to those who ask for the same."""
    first = claims[0]
    limit = sum(wanted.limit for wanted in claims)
    rows: dict[JobId, Row] = {}
    if first.ids is not None:
        ids = await _handed_over(connection, first, first.ids, now)
    else:
        ids, rows = await _most_urgent(connection, first, limit, trail, now)
    is_ahead = False
    if first.ahead and not ids and first.ids is None:
        ids = await _soon(connection, first, limit, now)
        is_ahead = True
    shares: list[list[JobId]] = []
    start = 0
    for wanted in claims:
        shares.append(ids[start : start + wanted.limit])
        start += wanted.limit
        if shares[-1]:
            _lease(connection, wanted, shares[-1], rows, now)
    if is_ahead:
        # Each starts at a time of its own.
        jobs = await _jobs(connection, ids)
        return [[jobs[job_id] for job_id in share] for share in shares]
    return await _leased(connection, claims, shares, rows)


async def _leased(
    connection: Connection, claims: Sequence[Claim], shares: Sequence[Sequence[JobId]], rows: dict[JobId, Row]
) -> list[list[Job]]:
    """Give the jobs that were just leased to each claim, and read those that were not read when they were taken."""
    for some in lists([job_id for share in shares for job_id in share if job_id not in rows]):
        rows.update((row[0], row) for row in await connection.rows(statement("leased"), {"ids": some}))
    ours = (rows[job_id] for share in shares for job_id in share)
    elaborated = await _jobs(connection, [row[0] for row in ours if row[13] is not None])
    return [
        leased_jobs([rows[job_id] for job_id in share], wanted, lambda row: elaborated[row[0]])
        for wanted, share in zip(claims, shares, strict=True)
    ]


async def _held(connection: Connection, leases: Sequence[tuple[JobId, int]]) -> list[Job]:
    """Give the jobs of an earlier claim that still run under the fences it gave."""
    fences = dict(leases)
    jobs = await _jobs(connection, list(fences))
    ordered = (jobs[job_id] for job_id in fences if job_id in jobs)
    return [job for job in ordered if job.lease_until is not None and job.fence == fences[job.id]]


async def _jobs(connection: Connection, ids: Sequence[JobId]) -> dict[JobId, Job]:
    jobs: dict[JobId, Job] = {}
    for some in lists(ids):
        jobs.update((row[0], job_of(row)) for row in await connection.rows(statement("get"), {"ids": some}))
    return jobs


async def _handed_over(connection: Connection, wanted: Claim, ids: Sequence[JobId], now: int) -> list[JobId]:
    """Take those of some jobs that may be claimed, the earliest turns first. Others may be after the same."""
    paused = await paused_queues(connection, now)
    queues = set(wanted.queues) - paused
    types = None if wanted.types is None else set(wanted.types)
    found = (await lock(connection, list(dict.fromkeys(ids)), "lock_free_jobs")).values()
    suiting = [
        one
        for one in found
        if one.state in {State.PENDING, State.QUEUED}
        and one.run_at <= now
        and (one.expires_at is None or one.expires_at > now)
        and one.queue in queues
        and (types is None or one.type in types)
    ]
    chosen = nsmallest(wanted.limit, suiting, key=lambda one: (one.turn, one.id))
    pending = [one for one in chosen if one.state is State.PENDING]
    owned = await own(connection, pending)
    taken = [one for one in chosen if one.state is State.QUEUED or one.id in owned]
    _leave_lines(connection, taken)
    return [one.id for one in taken]


async def _soon(connection: Connection, wanted: Claim, limit: int, now: int) -> list[JobId]:
    """Take jobs whose time comes within the span that a claim looks ahead. Others may be after the same.

    They are written as pending on the way: whatever runs has come from there or from a broker.
    """
    paused = await paused_queues(connection, now)
    queues = tuple(queue for queue in dict.fromkeys(wanted.queues) if queue not in paused)
    if not queues or wanted.types == ():
        return []
    until = now + span_to_micros(wanted.ahead)
    parameters = {
        "now": now,
        "until": until,
        "queues": queues,
        "takes_all": wanted.types is None,
        "types": wanted.types or ("",),
        "limit": limit,
    }
    ids = [job_id for (job_id,) in await connection.rows(statement("soon"), parameters)]
    if not ids:
        return []
    found = (await lock(connection, ids, "lock_free_jobs")).values()
    taken = [one for one in found if one.state in TIMED and now < one.run_at <= until]
    for some in lists([one.id for one in taken]):
        connection.defer(statement("promote"), {"ids": some, "now": now})
    leave(connection, "scheduled", [(one.run_at, one.id) for one in taken])
    return [one.id for one in sorted(taken, key=lambda one: (one.run_at, -one.priority, one.id))]


def _leave_lines(connection: Connection, taken: Sequence[Standing]) -> None:
    pending = [one.ready_key for one in taken if one.state is State.PENDING]
    queued = [one.id for one in taken if one.state is State.QUEUED]
    leave(connection, "ready", pending)
    leave(connection, "held", queued)


async def paused_queues(connection: Connection, now: int) -> set[str]:
    """Say which queues are paused."""
    return {name for (name,) in await connection.rows(statement("paused_queues"), {"now": now})}


async def _most_urgent(
    connection: Connection, wanted: Claim, limit: int, trail: Trail, now: int
) -> tuple[list[JobId], dict[JobId, Row]]:
    """Take the earliest turns of all lanes asked for, in their order, and give what a claim tells of most of them.

    We look behind the floors, and from the beginning if that is not enough. Each lane is looked at by itself. So a
    million jobs of a type that this worker does not know cost it one step over their lane.
    """
    read: dict[JobId, Row] = {}
    floors = trail.start
    taken, ahead = await _take_earliest(connection, floors, list(trail.ahead), limit, now, read)
    if len(taken) < limit:
        floors = await _lanes(connection, wanted, now)
        more, ahead = await _take_earliest(connection, floors, [], limit - len(taken), now, read)
        taken += more
        trail.is_whole = True
    taken.sort()
    if len(taken) == limit:
        # The last of each lane remains.
        trail.stop = {**floors, **{lane: place for place, lane in taken}}
        trail.left = ahead
    return [job_id for (_, job_id), _ in taken], read


async def _take_earliest(
    connection: Connection, floors: Mapping[Lane, Place], ahead: Found, limit: int, now: int, read: dict[JobId, Row]
) -> tuple[Found, Found]:
    """Take the earliest turns of some lanes, and read them. Give those, and what is known to come behind them.

    A single lane is read in one stretch.
    """
    if len(floors) > 1:
        taken, left = await lanes.take(connection, floors, ahead, limit, now)
        read.update((row[0], row) for row in await lanes.read(connection, taken, now))
        lanes.leave(connection, taken)
        return taken, left
    for lane, floor in floors.items():
        places = await _hold(connection, lane, limit, now, floor)
        if places:
            found = await _read_stretch(connection, lane, places, now)
            read.update((row[0], row) for row in found)
            _leave_ready(connection, lane, places, is_whole=len(found) == len(places))
            return [(place, lane) for place in places], []
    return [], []


async def take(connection: Connection, lane: Lane, limit: int, now: int) -> Sequence[Place]:
    """Take up to so many jobs of a lane that nobody else is taking."""
    places = await _hold(connection, lane, limit, now, BEGINNING)
    if len(places) >= SHORTEST_STRETCH:
        ((count,),) = await connection.rows(statement("count_ready"), _stretch(lane, places))
        _leave_ready(connection, lane, places, is_whole=count == len(places))
    elif places:
        _leave_ready(connection, lane, places, is_whole=False)
    return places


async def _hold(connection: Connection, lane: Lane, limit: int, now: int, floor: Place) -> Sequence[Place]:
    """Keep the next jobs of a lane that nobody else is taking, from others."""
    return await connection.look(statement("take_pending"), {**_behind(lane, floor), "now": now, "limit": limit})


def _behind(lane: Lane, floor: Place) -> dict[str, Any]:
    return {"queue": lane[0], "type": lane[1], "after_turn": floor[0], "after_id": floor[1]}


def _stretch(lane: Lane, places: Sequence[Place]) -> dict[str, Any]:
    bounds = zip(("first_turn", "first_id", "last_turn", "last_id"), (*places[0], *places[-1]), strict=True)
    return {"queue": lane[0], "type": lane[1], **dict(bounds)}


async def _read_stretch(connection: Connection, lane: Lane, places: Sequence[Place], now: int) -> Sequence[Row]:
    """Read all jobs from the first to the last of some that we keep, those between them that others take included.

    With too many of those not all; then the rest of ours is read later.
    """
    parameters = {**_stretch(lane, places), "now": now, "limit": 2 * len(places)}
    return await connection.look(statement("leased_stretch"), parameters)


def _leave_ready(connection: Connection, lane: Lane, places: Sequence[Place], *, is_whole: bool) -> None:
    """Let jobs that we keep stand in line no longer.

    If there were no others between them, they are one stretch of the line, which goes at half the cost. The last of
    them goes by itself, since where a stretch ends is looked at. So is all that lies in it, also what a caller has put
    there in a transaction that is still open, perhaps for long: rather than wait for that we begin again, and name them
    one by one. So does MySQL always, which cannot be told not to wait.
    """
    left = places
    if is_whole and len(places) >= SHORTEST_STRETCH and connection.is_mariadb and not connection.has_yielded:
        left = places[-1:]
        for start in range(0, len(places) - 1, LONGEST_LIST):
            # Up to the first of the next.
            some = places[start : start + LONGEST_LIST + 1]
            ids = tuple(job_id for _, job_id in some[:-1])
            connection.defer(f"{_AT_ONCE} {statement('leave_ready_range')}", {**_stretch(lane, some), "ids": ids})
    if len(left) == 1:
        connection.defer(statement("leave_ready_one"), _stretch(lane, left))
    else:
        leave(connection, "ready", [(*lane, turn, job_id) for turn, job_id in left])


async def _lanes(connection: Connection, wanted: Claim, now: int) -> dict[Lane, Place]:
    """Give the lanes that a claim looks at, and a place in each that is ahead of all that stand there.

    Those that have pending jobs are found one by one, and with them the last place ahead of their first: who takes jobs
    from there need not step over the dead at the beginning, and try to lock them, a second time. If there are several,
    and those that are wanted are not too many, these are looked at together, whether they have jobs or not.
    """
    found: dict[Lane, Place] = {}
    queues = list(dict.fromkeys(wanted.queues))
    are_few = wanted.types is not None and len(queues) * len(wanted.types) <= MOST_LANES
    for queue in queues:
        async for type_, turn, job_id in _types_with_work(connection, queue, wanted.types, now):
            found[queue, type_] = (turn, JobId(job_id - 1))
            if are_few and len(found) > FEW_LANES:
                paused = await paused_queues(connection, now)
                open_queues = [queue for queue in queues if queue not in paused]
                all_lanes = [(queue, type_) for queue in open_queues for type_ in wanted.types or ()]
                return {**dict.fromkeys(all_lanes, BEGINNING), **found}
    return found


async def _types_with_work(
    connection: Connection, queue: str, wanted: tuple[str, ...] | None, now: int
) -> AsyncIterator[Row]:
    """Leap through the types that have pending jobs in a queue and those that are wanted, whichever is ahead.

    With each comes the turn and the id of the first of its jobs.
    """
    sought = None if wanted is None else sorted(set(wanted))
    floor = "" if sought is None else sought[0] if sought else None
    while floor is not None:
        found = await connection.rows(statement("next_type"), {"queue": queue, "floor": floor, "now": now})
        if not found:
            return
        type_ = found[0][0]
        if sought is None:
            yield found[0]
            floor = type_ + "\0"
            continue
        place = bisect_left(sought, type_)
        if place < len(sought) and sought[place] == type_:
            yield found[0]
            place += 1
        floor = sought[place] if place < len(sought) else None


def _lease(connection: Connection, wanted: Claim, ids: Sequence[JobId], rows: Mapping[JobId, Row], now: int) -> None:
    """Lease jobs to a worker. Of those that were read, and are plain, all is known that goes into a lease."""
    parameters = {
        "worker": wanted.worker.name,
        "boot": wanted.worker.boot,
        "now": now,
        "lease_until": now + span_to_micros(wanted.lease),
    }
    fences = {job_id: rows[job_id][7] for job_id in ids if job_id in rows and rows[job_id][13] is None}
    if len(fences) >= FEWEST_TO_CARRY:
        if connection.can_fly:
            common = (parameters["worker"], parameters["boot"], parameters["lease_until"], now, now)
            connection.carry(statement("carry_leases"), (list(fences), list(fences.values())), common)
        else:
            connection.defer(statement("share_lease"), parameters)
            connection.defer_rows(statement("claim_alike"), list(fences.items()))
        ids = [job_id for job_id in ids if job_id not in fences]
    for some in lists(ids):
        connection.defer(statement("claim"), {**parameters, "ids": some})


async def renew(connection: Connection, renewals: Sequence[Renewal], now: int) -> list[Renewed | None]:
    """Extend the leases that still hold; None stands for one that does not."""
    answers: list[Renewed | None] = [None] * len(renewals)
    for places in rounds(renewals, lambda renewal: renewal.job_id):
        some = [renewals[place] for place in places]
        for place, answer in zip(places, await _renew_round(connection, some, now), strict=True):
            answers[place] = answer
    return answers


async def _renew_round(connection: Connection, renewals: Sequence[Renewal], now: int) -> list[Renewed | None]:
    leases: dict[JobId, Row] = {}
    for some in lists(sorted(renewal.job_id for renewal in renewals)):
        leases.update((row[0], row) for row in await connection.rows(statement("hold_leases"), {"ids": some}))
    answers: list[Renewed | None] = []
    by_end: dict[int, list[JobId]] = {}
    notes: list[Row] = []
    for renewal in renewals:
        lease = leases.get(renewal.job_id)
        if lease is None or lease[1] != renewal.fence:
            answers.append(None)
            continue
        until = now + span_to_micros(renewal.lease)
        by_end.setdefault(until, []).append(renewal.job_id)
        answers.append(Renewed(renewal.job_id, renewal.fence, from_micros(until), lease[2] is not None))
        if renewal.progress is not None or renewal.log_tail is not None:
            notes.append((lease[0], lease[1], *lease[3:6], renewal.progress, renewal.log_tail))
    for until, ids in by_end.items():
        for some in lists(ids):
            connection.defer(statement("renew"), {"ids": some, "lease_until": until})
    if notes:
        await connection.many(statement("note_attempt"), notes)
    return answers


async def ask_cancel(connection: Connection, leases: Sequence[tuple[JobId, int]], now: int) -> list[JobId]:
    """Mark running jobs as to be cancelled, and give those that were."""
    marked = []
    for job_id, fence in leases:
        if await connection.run(statement("ask_cancel"), {"id": job_id, "fence": fence, "now": now}):
            marked.append(job_id)
    return marked


async def lost(connection: Connection, limit: int, now: int) -> list[Job]:
    """Give running jobs whose lease has run out."""
    return [job_of(row) for row in await connection.rows(statement("lost"), {"now": now, "limit": limit})]


async def expired(connection: Connection, limit: int, now: int) -> list[Job]:
    """Give waiting jobs that are too late to start."""
    return [job_of(row) for row in await connection.rows(statement("expired"), {"now": now, "limit": limit})]
