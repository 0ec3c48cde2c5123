"""Claims, lease renewals, requests to cancel, and lapsed leases.

A claim takes jobs out of their state table (see `lanes` for pending jobs) and inserts their leases, in one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import nsmallest

from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.lifecycle import TIMED, State
from rota.core.time import from_micros, span_to_micros
from rota.stores.limit_memory import LimitMemory
from rota.stores.limited_lanes import is_limited
from rota.stores.mysql.clock import ServerClock
from rota.stores.mysql.driver import MysqlConnection, chunks
from rota.stores.mysql.errors import ConstraintViolated, RetryTransaction
from rota.stores.mysql.lanes import take_most_urgent
from rota.stores.mysql.limits import conditions, take_limited
from rota.stores.mysql.low_water import ClaimScan
from rota.stores.mysql.pipeline import MIN_BULK_ROWS
from rota.stores.mysql.queues import paused_queues
from rota.stores.mysql.state_tables import delete_rows, lock_jobs, lock_ready
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row, job_of, leased_jobs, must_be_read_whole
from rota.stores.unique_batches import unique_batches


def is_plain(request: Claim) -> bool:
    """Whether a claim takes due jobs only: not ahead of time, not by id, not the answer of an earlier claim."""
    return not request.ahead and request.ids is None and (request.is_new or request.claim_id is None)


async def has_work(connection: MysqlConnection, clock: ServerClock, claims: Sequence[Claim]) -> bool:
    """Return whether there may be jobs for plain claims; reads the server time with it."""
    queues = tuple(sorted({queue for request in claims for queue in request.queues}))
    types = tuple(sorted({type_ for request in claims for type_ in request.types or ()}))
    takes_all = any(request.types is None for request in claims)
    if not queues or not (types or takes_all):
        return False
    parameters = {"queues": queues, "takes_all": takes_all, "types": types or ("",)}
    return (await clock.query(connection, statement("has_work"), parameters))[1] is not None


async def claim(
    connection: MysqlConnection, claims: Sequence[Claim], scan: ClaimScan, memory: LimitMemory, now: int
) -> list[list[Job]]:
    """Lease the most urgent jobs to each claim, in the order in which the claims came.

    Equal claims share one scan: the first gets the first jobs, the next one those that follow.
    """
    # The transaction may be run again.
    scan.reset()
    answers: list[list[Job]] = [[] for _ in claims]
    repeated = await _named_claims(connection, claims)
    equal: dict[tuple[object, ...], list[int]] = {}
    first_of: dict[str, int] = {}
    for index, request in enumerate(claims):
        if request.claim_id is not None and request.claim_id in repeated:
            answers[index] = await _still_leased(connection, repeated[request.claim_id])
        elif request.claim_id is None or first_of.setdefault(request.claim_id, index) == index:
            alone = index if request.ids is not None else None
            equal.setdefault((request.queues, request.types, request.ahead, alone), []).append(index)
    for indexes in equal.values():
        leased = await _lease_equal_claims(connection, [claims[index] for index in indexes], scan, memory, now)
        for index, jobs in zip(indexes, leased, strict=True):
            answers[index] = jobs
    await _store_named_claims(connection, [(claims[index], answers[index]) for index in first_of.values()], now)
    # A claim that came twice at once gets the same answer twice.
    return [
        answers[first_of.get(request.claim_id, index)] if request.claim_id is not None else answers[index]
        for index, request in enumerate(claims)
    ]


async def _named_claims(connection: MysqlConnection, claims: Sequence[Claim]) -> dict[str, list[tuple[JobId, int]]]:
    """Return what earlier claims of the same names got; claims that are said to be new are not looked up."""
    names = sorted({request.claim_id for request in claims if request.claim_id is not None and not request.is_new})
    leases_of: dict[str, list[tuple[JobId, int]]] = {}
    for chunk in chunks(names):
        rows = await connection.rows(statement("named_claims"), {"claim_ids": chunk})
        leases_of.update((name, json.loads(leases)) for name, leases in rows)
    return leases_of


async def _store_named_claims(
    connection: MysqlConnection, answers: Sequence[tuple[Claim, Sequence[Job]]], now: int
) -> None:
    """Store the answers of named claims for repeated requests. A claim that got nothing is not stored.

    If a claim that was said to be new has come before, a constraint is violated, at the latest by the commit.
    """
    rows = [(request.claim_id, now, _leases_text(jobs)) for request, jobs in answers if jobs]
    if all(request.is_new for request, _ in answers):
        for row in rows:
            connection.defer(statement("insert_named_claim"), row)
        return
    try:
        await connection.many(statement("insert_named_claim"), rows)
    except ConstraintViolated as error:
        if any(request.is_new for request, _ in answers):
            raise
        raise RetryTransaction("the same named claim was answered at the same time") from error


def _leases_text(jobs: Sequence[Job]) -> str:
    """Return pairs of job and fence as JSON. Nearly always all fences are equal, which takes a third of the time."""
    fences = {job.fence for job in jobs}
    if len(fences) > 1:
        return json.dumps([[job.id, job.fence] for job in jobs])
    (fence,) = fences
    return f"[[{f', {fence}], ['.join([str(job.id) for job in jobs])}, {fence}]]"


async def _lease_equal_claims(
    connection: MysqlConnection, claims: Sequence[Claim], scan: ClaimScan, memory: LimitMemory, now: int
) -> list[list[Job]]:
    first = claims[0]
    limit = sum(request.limit for request in claims)
    rows: dict[JobId, Row] = {}
    if first.ids is not None:
        ids = await _take_by_id(connection, first, first.ids, now)
    else:
        ids, rows = await _take_due(connection, replace(first, limit=limit), scan, memory, now)
    is_ahead = False
    if first.ahead and not ids and first.ids is None:
        ids = await _take_due_soon(connection, first, limit, now)
        is_ahead = True
    shares: list[list[JobId]] = []
    start = 0
    for request in claims:
        shares.append(ids[start : start + request.limit])
        start += request.limit
        if shares[-1]:
            _insert_leases(connection, request, shares[-1], rows, now)
    if len(ids) < limit and len(claims) > 1:
        idle = [request for request, share in zip(claims, shares, strict=True) if not share]
        memory.share_pause(first, idle, has_jobs=bool(ids))
    if is_ahead:
        # Each job starts at a time of its own.
        jobs = await _jobs(connection, ids)
        return [[jobs[job_id] for job_id in share] for share in shares]
    return await _leased(connection, claims, shares, rows)


async def _take_due(
    connection: MysqlConnection, claim: Claim, scan: ClaimScan, memory: LimitMemory, now: int
) -> tuple[list[JobId], dict[JobId, Row]]:
    """Take due jobs of lanes without limits, and of limited lanes and keys as many as their limits allow.

    The two parts take turns in being read first, so that neither can keep the other from starting.
    """
    looks_for_limits = memory.may_be_in_use()
    ids: list[JobId] = []
    rows: dict[JobId, Row] = {}
    if looks_for_limits and not memory.is_ordinary_first(claim):
        ids, rows = await _take_limited(connection, claim, memory, now)
        looks_for_limits = False
    if len(ids) < claim.limit and not (ids and memory.is_all_limited(claim)):
        more, more_rows = await take_most_urgent(connection, claim, claim.limit - len(ids), scan, now)
        ids, rows = ids + more, rows | more_rows
    if len(ids) < claim.limit and (looks_for_limits or not ids):
        rest = replace(claim, limit=claim.limit - len(ids))
        more, more_rows = await _take_limited(connection, rest, memory, now)
        ids, rows = ids + more, rows | more_rows
    return ids, rows


async def _take_limited(
    connection: MysqlConnection, claim: Claim, memory: LimitMemory, now: int
) -> tuple[list[JobId], dict[JobId, Row]]:
    """Take jobs that limits concern, if there are any; return them and the columns that the claim returns of each."""
    restrictions = await conditions(connection, now)
    memory.note_limits(restrictions.limited, has_keys=restrictions.has_keys)
    return await take_limited(connection, claim, restrictions, memory) if restrictions.is_limited else ([], {})


async def _leased(
    connection: MysqlConnection, claims: Sequence[Claim], shares: Sequence[Sequence[JobId]], rows: dict[JobId, Row]
) -> list[list[Job]]:
    """Return the jobs leased to each claim; those whose rows were not read with the scan are read now."""
    for chunk in chunks([job_id for share in shares for job_id in share if job_id not in rows]):
        rows.update((row[0], row) for row in await connection.rows(statement("read_leased"), {"ids": chunk}))
    leased = (rows[job_id] for share in shares for job_id in share)
    whole = await _jobs(connection, [row[0] for row in leased if must_be_read_whole(row[13])])
    return [
        leased_jobs([rows[job_id] for job_id in share], request, lambda row: whole[row[0]])
        for request, share in zip(claims, shares, strict=True)
    ]


async def _still_leased(connection: MysqlConnection, leases: Sequence[tuple[JobId, int]]) -> list[Job]:
    """Return the jobs of an earlier claim that still run under the fences of that claim."""
    fences = dict(leases)
    jobs = await _jobs(connection, list(fences))
    ordered = (jobs[job_id] for job_id in fences if job_id in jobs)
    return [job for job in ordered if job.lease_until is not None and job.fence == fences[job.id]]


async def _jobs(connection: MysqlConnection, ids: Sequence[JobId]) -> dict[JobId, Job]:
    jobs: dict[JobId, Job] = {}
    for chunk in chunks(ids):
        jobs.update((row[0], job_of(row)) for row in await connection.rows(statement("jobs_by_id"), {"keys": chunk}))
    return jobs


async def _take_by_id(connection: MysqlConnection, request: Claim, ids: Sequence[JobId], now: int) -> list[JobId]:
    """Take those of some jobs that may be claimed, earliest turns first. Jobs that others have locked are skipped."""
    restrictions = await conditions(connection, now)
    queues = set(request.queues).difference(restrictions.paused)
    types = None if request.types is None else set(request.types)
    unlocked = (await lock_jobs(connection, list(dict.fromkeys(ids)), "lock_jobs_skip_locked")).values()
    claimable = [
        one
        for one in unlocked
        if one.state in {State.PENDING, State.QUEUED}
        and one.run_at <= now
        and (one.expires_at is None or one.expires_at > now)
        and one.queue in queues
        and (types is None or one.type in types)
        and one.concurrency_key is None
        and not is_limited((one.queue, one.type), restrictions.limited)
    ]
    chosen = nsmallest(request.limit, claimable, key=lambda one: (one.turn, one.id))
    locked = await lock_ready(connection, [one for one in chosen if one.state is State.PENDING])
    pending = [one.ready_key for one in chosen if one.id in locked]
    queued = [one.id for one in chosen if one.state is State.QUEUED]
    delete_rows(connection, "ready", pending)
    delete_rows(connection, "held", queued)
    return [one.id for one in chosen if one.state is State.QUEUED or one.id in locked]


async def _take_due_soon(connection: MysqlConnection, request: Claim, limit: int, now: int) -> list[JobId]:
    """Take jobs that become due within the look-ahead of a claim. Jobs that others have locked are skipped.

    They are written as pending, because a running job has always been pending or queued before.
    """
    paused = await paused_queues(connection, now)
    queues = tuple(queue for queue in dict.fromkeys(request.queues) if queue not in paused)
    if not queues or request.types == ():
        return []
    until = now + span_to_micros(request.ahead)
    parameters = {
        "now": now,
        "until": until,
        "queues": queues,
        "takes_all": request.types is None,
        "types": request.types or ("",),
        "limit": limit,
    }
    ids = [job_id for (job_id,) in await connection.rows(statement("due_soon"), parameters)]
    if not ids:
        return []
    unlocked = (await lock_jobs(connection, ids, "lock_jobs_skip_locked")).values()
    taken = [one for one in unlocked if one.state in TIMED and now < one.run_at <= until]
    for chunk in chunks([one.id for one in taken]):
        connection.defer(statement("set_pending"), {"ids": chunk, "now": now})
    delete_rows(connection, "scheduled", [(one.run_at, one.id) for one in taken])
    return [one.id for one in sorted(taken, key=lambda one: (one.run_at, -one.priority, one.id))]


def _insert_leases(
    connection: MysqlConnection, request: Claim, ids: Sequence[JobId], rows: Mapping[JobId, Row], now: int
) -> None:
    """Lease jobs to a worker. Jobs that were read, and set no optional fields, are inserted without reading them."""
    parameters = {
        "worker": request.worker.name,
        "boot": request.worker.boot,
        "now": now,
        "lease_until": now + span_to_micros(request.lease),
    }
    fences = {job_id: rows[job_id][7] for job_id in ids if job_id in rows and rows[job_id][13] is None}
    if len(fences) >= MIN_BULK_ROWS:
        if connection.can_pipeline:
            common = (parameters["worker"], parameters["boot"], parameters["lease_until"], now, now)
            connection.insert_bulk(statement("insert_leases_bulk"), (list(fences), list(fences.values())), common)
        else:
            connection.defer(statement("set_lease_variables"), parameters)
            connection.defer_rows(statement("insert_lease_shared"), list(fences.items()))
        ids = [job_id for job_id in ids if job_id not in fences]
    for chunk in chunks(ids):
        connection.defer(statement("insert_leases"), {**parameters, "ids": chunk})


async def renew(connection: MysqlConnection, renewals: Sequence[Renewal], now: int) -> list[Renewed | None]:
    """Extend the leases whose fence still holds; None stands for one that does not."""
    answers: list[Renewed | None] = [None] * len(renewals)
    for indexes in unique_batches(renewals, lambda renewal: renewal.job_id):
        batch = [renewals[index] for index in indexes]
        for index, answer in zip(indexes, await _renew_batch(connection, batch, now), strict=True):
            answers[index] = answer
    return answers


async def _renew_batch(connection: MysqlConnection, renewals: Sequence[Renewal], now: int) -> list[Renewed | None]:
    leases: dict[JobId, Row] = {}
    for chunk in chunks(sorted(renewal.job_id for renewal in renewals)):
        leases.update((row[0], row) for row in await connection.rows(statement("lock_leases"), {"ids": chunk}))
    answers: list[Renewed | None] = []
    by_end: dict[int, list[JobId]] = {}
    progress: list[Row] = []
    for renewal in renewals:
        lease = leases.get(renewal.job_id)
        if lease is None or lease[1] != renewal.fence:
            answers.append(None)
            continue
        until = now + span_to_micros(renewal.lease)
        by_end.setdefault(until, []).append(renewal.job_id)
        answers.append(Renewed(renewal.job_id, renewal.fence, from_micros(until), lease[2] is not None))
        if renewal.progress is not None or renewal.log_tail is not None:
            progress.append((lease[0], lease[1], *lease[3:6], renewal.progress, renewal.log_tail))
    for until, ids in by_end.items():
        for chunk in chunks(ids):
            connection.defer(statement("renew_leases"), {"ids": chunk, "lease_until": until})
    if progress:
        await connection.many(statement("record_progress"), progress)
    return answers


async def request_cancel(connection: MysqlConnection, leases: Sequence[tuple[JobId, int]], now: int) -> list[JobId]:
    """Ask running jobs to stop, and return those whose fence still held."""
    marked = []
    for job_id, fence in leases:
        if await connection.run(statement("request_cancel"), {"id": job_id, "fence": fence, "now": now}):
            marked.append(job_id)
    return marked


async def lapsed(connection: MysqlConnection, limit: int, now: int) -> list[Job]:
    """Return running jobs whose lease has lapsed."""
    return [job_of(row) for row in await connection.rows(statement("lapsed_leases"), {"now": now, "limit": limit})]
