"""New jobs, with their idempotency keys, tags and dependencies.

Plain jobs (they set nothing beyond what every job sets) have fast statements. What these leave aside, because an id is
taken or a queue is nearly full, takes the general way: `insert`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import Final

from asyncpg.exceptions import UniqueViolationError

from rota.core.bulk import UniformJobs
from rota.core.ids import LARGEST, JobId
from rota.core.job import AGING_MICROS, first_state
from rota.core.lifecycle import State
from rota.core.retry import DEFAULT_BACKOFF
from rota.core.settlement import Reason
from rota.core.submission import IdempotencyKey, NewJob
from rota.core.time import from_micros, span_to_micros, to_micros
from rota.ports.store import AllCreated, Inserted, Receipt
from rota.stores.full_keys import NO_FULL_KEYS, FullKeys
from rota.stores.handoff import LONGEST_WAIT, HandedOffJob, job_columns
from rota.stores.postgres.connection import MovedError
from rota.stores.postgres.dependencies import follow_failures, link, resolve, stop_jobs
from rota.stores.postgres.handoff import LONGEST_ANSWER, lane_key, text_of
from rota.stores.postgres.limits import full_keys
from rota.stores.postgres.notify import HANDED_OVER_CHANNEL, NO_NOTIFICATION, Notification
from rota.stores.postgres.session import numbers
from rota.stores.postgres.statements import IdRanges, StatementRunner
from rota.stores.postgres.unique_keys import lock_keys, repeated, take_key
from rota.stores.rows import Row, meta_text, micros

_job_id: Final = attrgetter("id")
#: Separates payloads: a control character, which JSON has to escape.
_SEPARATOR: Final = "\x1f"
_STATES: Final = {state.value: state for state in State}
Key = tuple[str, str]
#: How many more jobs may wait in each queue that has a maximal depth.
Room = dict[str, int]


async def insert_due(session: StatementRunner, job: NewJob, id_ranges: IdRanges, now: int | None) -> Inserted | None:
    """Store one plain job that is due at once; None if it was left aside. Arrays would cost more than the job."""
    name = "insert_due" + id_ranges(job.id, job.id)
    try:
        rows = await session.rows(
            name,
            now,
            AGING_MICROS,
            job.id,
            job.type,
            job.queue,
            job.priority,
            job.max_attempts,
            job.delivery._value_,
            job.payload,
        )
    except UniqueViolationError:
        # Its id is taken. There is nothing else in the transaction.
        return None
    return Inserted(job.id, Receipt.CREATED, State.PENDING, from_micros(rows[0][0])) if rows else None


async def insert_one(
    session: StatementRunner, job: NewJob, id_ranges: IdRanges, now: int | None, notification: Notification | None
) -> Inserted | None:
    """Store one plain job, with a notification if one is given; otherwise as `insert_due`."""
    name = "insert_one" + id_ranges(job.id, job.id)
    sent = NO_NOTIFICATION if notification is None else (notification.channel, notification.text)
    rows = await session.rows(name, now, AGING_MICROS, *_plain_row(job), *sent)
    if not rows:
        return None
    _, state, at, _ = rows[0]
    return Inserted(job.id, Receipt.CREATED, _STATES[state], from_micros(at))


async def insert_for_open_claim(
    session: StatementRunner, job: NewJob, id_ranges: IdRanges, now: int | None, notification: Notification
) -> tuple[Inserted, HandedOffJob | None] | None:
    """Store one plain job that is due at once, and lease it to an open claim if there is one.

    Otherwise as `insert_one`. Its submitter sees it as pending, as every job that is due.
    """
    handed_over = job_columns(job, LONGEST_ANSWER)
    rows = await session.rows(
        "insert_for_open_claim" + id_ranges(job.id, job.id),
        now,
        AGING_MICROS,
        job.id,
        job.type,
        job.queue,
        job.priority,
        job.max_attempts,
        job.delivery._value_,
        job.payload,
        notification.channel,
        notification.text,
        text_of(handed_over),
        span_to_micros(LONGEST_WAIT),
        HANDED_OVER_CHANNEL,
        lane_key(job.queue, job.type),
    )
    if not rows:
        return None
    claim_id, at, *_ = rows[0]
    inserted = Inserted(job.id, Receipt.CREATED, State.PENDING, from_micros(at))
    return inserted, None if claim_id is None else HandedOffJob(claim_id, at, handed_over)


async def insert_plain(
    session: StatementRunner, jobs: Sequence[NewJob], id_ranges: IdRanges, bound: int | None, now: int | None
) -> list[Inserted | None]:
    """Store plain jobs with one statement; None stands for one that was left aside.

    Its id is taken, or its queue is nearly full.
    """
    queues = list({job.queue for job in jobs})
    ordered = sorted(jobs, key=_job_id)
    columns = zip(*map(_plain_row, ordered), strict=True)
    name = "insert_plain" + id_ranges(ordered[0].id, ordered[-1].id)
    rows = await session.rows(name, now, AGING_MICROS, bound, queues, *map(list, columns))
    if not rows:
        return [None] * len(jobs)
    made: dict[JobId, str] = {job_id: state for job_id, state, _ in rows}
    # All rows of a statement have the same time.
    at = from_micros(rows[0][2])
    return [_created(job, made, at) for job in jobs]


async def insert_bulk(
    session: StatementRunner, jobs: UniformJobs, id_ranges: IdRanges, bound: int | None, now: int | None
) -> Sequence[Inserted | None]:
    """Store plain jobs that are due at once and differ in id and payload only: all of them, or none.

    The statement returns one row for all of them: a row for each costs more than an index on it.
    """
    model, ordered = jobs.model, jobs.sorted_by_id()
    payloads = _SEPARATOR.join(ordered.payloads)
    if not payloads or payloads.count(_SEPARATOR) != len(jobs) - 1:
        # A payload that is not JSON could be taken for several, or for none.
        return [None] * len(jobs)
    name = "insert_bulk" + id_ranges(ordered.ids[0], ordered.ids[-1])
    shared = model.type, model.queue, model.priority, model.max_attempts, model.delivery._value_
    try:
        rows = await session.rows(name, now, AGING_MICROS, bound, *shared, numbers(ordered.ids), payloads)
    except UniqueViolationError:
        # As in `insert_due`.
        rows = ()
    if not rows:
        return [None] * len(jobs)
    return AllCreated(jobs.ids, State.PENDING, from_micros(rows[0][0]))


def _plain_row(job: NewJob) -> Row:
    """Return the parameters of a plain job, in the order of insert_plain."""
    return (
        job.id,
        job.type,
        job.queue,
        job.priority,
        None if job.run_at is None else to_micros(job.run_at),
        job.max_attempts,
        job.delivery._value_,
        job.payload,
    )


async def insert(
    session: StatementRunner, jobs: Sequence[NewJob], bound: int | None, now: int, *, may_be_full: bool = True
) -> list[Inserted]:
    """Store new jobs and return a receipt for each, in order. With `may_be_full`, as the limits of their keys say."""
    room = await _room(session, jobs, bound)
    has_unique_keys = any(job.unique is not None for job in jobs)
    if has_unique_keys:
        await lock_keys(session, jobs)
    full = await full_keys(session, jobs, now) if may_be_full else NO_FULL_KEYS
    can_be_together = not has_unique_keys and full is NO_FULL_KEYS and _is_ample(room, jobs, now)
    answers = await _insert_together(session, jobs, now) if can_be_together else None
    if answers is None:
        # A key was taken for a job whose id is not free, or there is not room for all: one by one, each gets its
        # receipt.
        answers = [await _insert_or_repeat(session, job, room, full, now) for job in jobs]
        await _make_room(session, full, now)
    made = [job for job, answer in zip(jobs, answers, strict=True) if answer.receipt is Receipt.CREATED]
    failed = await link(session, [(job.id, job.after) for job in made if job.after], now)
    await follow_failures(session, (), failed, now, insert_made)
    return await _with_states(session, answers) if any(job.after for job in jobs) else answers


async def _room(session: StatementRunner, jobs: Sequence[NewJob], bound: int | None) -> Room:
    """Return how much room there is in queues with a maximal depth, and lock them until the transaction ends."""
    queues = sorted({job.queue for job in jobs})
    bounds: dict[str, int] = dict(await session.rows("queue_bounds", queues))
    limits = {queue: bounds.get(queue, bound) for queue in queues}
    bounded = {queue: limit for queue, limit in limits.items() if limit is not None}
    if bounded:
        await session.rows("lock_queues", list(bounded))
    depths = {queue: (await session.values("queue_depth", queue, limit))[0] for queue, limit in bounded.items()}
    return {queue: max(limit - depths[queue], 0) for queue, limit in bounded.items()}


def _is_ample(room: Room, jobs: Sequence[NewJob], now: int) -> bool:
    """Whether there is room for all of some jobs."""
    pending = Counter(job.queue for job in jobs if _first_state(job, now) is State.PENDING)
    return all(room.get(queue, count) >= count for queue, count in pending.items())


def _first_state(job: NewJob, now: int) -> State:
    moment = from_micros(now)
    return first_state(job.run_at or moment, moment, blocked=bool(job.after))


async def insert_made(session: StatementRunner, jobs: Sequence[NewJob], now: int) -> list[JobId]:
    """Store jobs that Rota itself makes, and return under which ids.

    No caller could get the error that an id is taken, so the next free one is used.
    """
    ids = [job.id for job in jobs]
    left = list(range(len(jobs)))
    while left:
        made = await _store(session, [replace(jobs[place], id=ids[place]) for place in left], now)
        left = [place for place in left if made.pop(ids[place], None) is None]
        for place in left:
            ids[place] = JobId(ids[place] + 1 if ids[place] < LARGEST else 1)
    named = list(zip(jobs, ids, strict=True))
    await _insert_tags(session, named)
    failed = await link(session, [(number, job.after) for job, number in named if job.after], now)
    await follow_failures(session, (), failed, now, insert_made)
    return ids


async def _insert_together(session: StatementRunner, jobs: Sequence[NewJob], now: int) -> list[Inserted] | None:
    """Store jobs as sets; None, and nothing done, if a key was taken for a job whose id is not free."""
    has_keys = any(job.idempotency for job in jobs)
    if has_keys:
        await session.execute("SAVEPOINT inserting")
    key_owners = await _take_keys(session, jobs, now)
    insertable = [job for job in jobs if job.idempotency is None or key_owners.get(_key(job.idempotency)) is job]
    made = await _store(session, insertable, now)
    if has_keys and not _have_own_ids(key_owners.values(), insertable, made):
        await session.execute("ROLLBACK TO SAVEPOINT inserting")
        return None
    at = from_micros(now)
    created = {id(job): _created(job, made, at) for job in insertable}
    answers = [created.get(id(job)) for job in jobs]
    await _insert_tags(
        session, [(job, job.id) for job, answer in zip(jobs, answers, strict=True) if answer is not None]
    )
    return await _with_earlier(session, jobs, answers)


def _have_own_ids(key_owners: Iterable[NewJob], insertable: Iterable[NewJob], made: Container[JobId]) -> bool:
    """Whether every job that was given a key has been stored under its own id."""
    counts = Counter(job.id for job in insertable)
    return all(job.id in made and counts[job.id] == 1 for job in key_owners)


async def _make_room(session: StatementRunner, full: FullKeys, now: int) -> None:
    """Cancel the jobs that make room for new ones, and the new ones for which there is none."""
    for reason, ids in ((Reason.REPLACED, full.replaced), (Reason.LIMIT_FULL, full.cancelled)):
        if ids:
            cancelled = await stop_jobs(session, ids, reason, now)
            await follow_failures(session, (), await resolve(session, cancelled, now), now, insert_made)


async def _insert_or_repeat(session: StatementRunner, job: NewJob, room: Room, full: FullKeys, now: int) -> Inserted:
    """Store a job, unless its idempotency key, a job of its unique key, or its full key answers the submission."""
    if job.unique is None:
        return await _insert_one(session, job, room, full, now)
    earlier = await _earlier(session, job, now)
    if earlier is not None:
        return earlier
    answer = await repeated(session, job, job.unique, now)
    if answer is not None:
        # If this submission is sent again because its answer was lost, it gets the same one and changes nothing.
        await _take_keys(session, [replace(job, id=answer.job_id)], now)
        return answer
    answer = await _insert_one(session, job, room, full, now)
    if answer.receipt is Receipt.CREATED:
        await take_key(session, job, job.unique, now)
    return answer


async def _insert_one(session: StatementRunner, job: NewJob, room: Room, full: FullKeys, now: int) -> Inserted:
    if (dropped := full.dropped(job)) is not None:
        return await _earlier(session, job, now) or dropped
    state = _first_state(job, now)
    is_bounded = state is State.PENDING and job.queue in room
    if is_bounded and not room[job.queue]:
        return await _earlier(session, job, now) or Inserted(job.id, Receipt.QUEUE_FULL, state)
    answers = await _insert_together(session, [job], now)
    if answers is None:
        return await _taken(session, job)
    (answer,) = answers
    if answer.receipt is not Receipt.CREATED:
        return answer
    if is_bounded:
        room[job.queue] -= 1
    return replace(answer, state=full.note_made(job)) if state is State.PENDING else answer


async def _earlier(session: StatementRunner, job: NewJob, now: int) -> Inserted | None:
    """Return the receipt of a submission whose key came before and still counts."""
    if job.idempotency is None:
        return None
    await session.execute("SAVEPOINT checking")
    if await _take_keys(session, [job], now):
        await session.execute("ROLLBACK TO SAVEPOINT checking")
        return None
    return (await _with_earlier(session, [job], [None]))[0]


async def _store(session: StatementRunner, jobs: Sequence[NewJob], now: int | None) -> dict[JobId, str]:
    """Store the jobs whose id is free, and return their ids and states."""
    if not jobs:
        return {}
    # In the order of their ids, against deadlocks.
    columns = zip(*(_row(job) for job in sorted(jobs, key=_job_id)), strict=True)
    return dict(await session.rows("insert_jobs", now, AGING_MICROS, *map(list, columns)))


def _row(job: NewJob) -> Row:
    """Return the parameters of a job, in the order of insert_jobs; what depends on the time is set by the server."""
    return (
        job.id,
        job.type,
        job.queue,
        job.priority,
        micros(job.run_at),
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
        len({dependency.on for dependency in job.after}) if job.after else 0,
        None if job.on_success is None else job.on_success.to_text(),
        None if job.on_failure is None else job.on_failure.to_text(),
        job.parent_id,
        job.schedule_id,
        micros(job.fire_time),
    )


async def _insert_tags(session: StatementRunner, jobs: Sequence[tuple[NewJob, JobId]]) -> None:
    tags = [(tag, number) for job, number in jobs for tag in job.tags]
    if tags:
        await session.run("insert_tags", [tag for tag, _ in tags], [number for _, number in tags])


def _key(key: IdempotencyKey) -> Key:
    return key.scope, key.key


async def _take_keys(session: StatementRunner, jobs: Sequence[NewJob], now: int) -> dict[Key, NewJob]:
    """Take the keys that are free, each for the first job that has it."""
    owners: dict[Key, NewJob] = {}
    for job in jobs:
        if job.idempotency is not None:
            owners.setdefault(_key(job.idempotency), job)
    if not owners:
        return {}
    # Sorted, against deadlocks.
    chosen = [(job, job.idempotency) for _, job in sorted(owners.items()) if job.idempotency is not None]
    won = await session.rows(
        "take_keys",
        now,
        [key.scope for _, key in chosen],
        [key.key for _, key in chosen],
        [key.request for _, key in chosen],
        [job.id for job, _ in chosen],
        [now + span_to_micros(key.keep) for _, key in chosen],
    )
    return {(scope, key): owners[scope, key] for scope, key in won}


def _created(job: NewJob, made: dict[JobId, str], at: datetime) -> Inserted | None:
    """Return the receipt of a job that was stored; of several with one id, the first."""
    state = made.pop(job.id, None)
    return None if state is None else Inserted(job.id, Receipt.CREATED, _STATES[state], at)


async def _with_earlier(
    session: StatementRunner, jobs: Sequence[NewJob], answers: Sequence[Inserted | None]
) -> list[Inserted]:
    """Add receipts of the jobs that were not stored: their key came before, or their id is taken."""
    left = [job for job, answer in zip(jobs, answers, strict=True) if answer is None]
    keys = sorted({_key(job.idempotency) for job in left if job.idempotency is not None})
    rows = await session.rows("find_keys", [scope for scope, _ in keys], [key for _, key in keys]) if keys else []
    earlier = {(scope, key): (request, job_id) for scope, key, request, job_id in rows}
    if len(earlier) < len(keys):
        raise MovedError("a key")
    ids = [_id_of(job, earlier) for job in left]
    states: dict[JobId, str] = dict(await session.rows("job_states", sorted(set(ids)))) if ids else {}
    if not states.keys() >= set(ids):
        raise MovedError("a job")
    rest = iter(
        Inserted(job_id, _receipt(job, earlier), _STATES[states[job_id]]) for job, job_id in zip(left, ids, strict=True)
    )
    return [next(rest) if answer is None else answer for answer in answers]


def _id_of(job: NewJob, earlier: Mapping[Key, tuple[bytes, JobId]]) -> JobId:
    return job.id if job.idempotency is None else earlier[_key(job.idempotency)][1]


def _receipt(job: NewJob, earlier: Mapping[Key, tuple[bytes, JobId]]) -> Receipt:
    if job.idempotency is None:
        return Receipt.ID_TAKEN
    request, _ = earlier[_key(job.idempotency)]
    return Receipt.REPLAYED if request == job.idempotency.request else Receipt.KEY_REUSED


async def _taken(session: StatementRunner, job: NewJob) -> Inserted:
    rows = await session.rows("job_states", [job.id])
    if not rows:
        raise MovedError("a job")
    return Inserted(job.id, Receipt.ID_TAKEN, _STATES[rows[0][1]])


async def _with_states(session: StatementRunner, answers: Sequence[Inserted]) -> list[Inserted]:
    """Return the receipts with the states after all dependencies were stored."""
    states: dict[JobId, str] = dict(await session.rows("job_states", sorted({answer.job_id for answer in answers})))
    # A job that found no room was not stored.
    return [replace(answer, state=_STATES[states.get(answer.job_id, answer.state)]) for answer in answers]
