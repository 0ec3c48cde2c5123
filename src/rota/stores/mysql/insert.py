"""Inserting jobs, with their idempotency keys, tags and dependencies.

Two ways. The fast one is optimistic: a plain job, or a bulk of jobs that differ only in id and payload, is sent
together with the query whether its queue is bounded, and a bulk is compared while the server stores its first rows. If
the queue is bounded, the jobs are not equal after all, or an id is taken, everything is rolled back and inserted the
checked way. Nothing is committed before all answers have been read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from rota.core.bulk import as_uniform
from rota.core.ids import LARGEST, JobId
from rota.core.job import first_state
from rota.core.lifecycle import FINISHED, State
from rota.core.settlement import Reason
from rota.core.submission import IdempotencyKey, NewJob
from rota.core.time import from_micros, span_to_micros
from rota.ports.store import AllCreated, Inserted, Receipt
from rota.stores.full_keys import NO_FULL_KEYS, FullKeys
from rota.stores.mysql.dependencies import follow_failures, link_dependencies, resolve_dependents, stop_jobs
from rota.stores.mysql.driver import Runner, chunks
from rota.stores.mysql.errors import ConstraintViolated, RetryTransaction
from rota.stores.mysql.limits import full_keys
from rota.stores.mysql.multi_row import MAX_BATCH_CHARACTERS
from rota.stores.mysql.pipeline import RowBatch
from rota.stores.mysql.queues import QueueRoom, is_probably_unbounded, is_unbounded, lock_bounded_queues
from rota.stores.mysql.state_tables import Placement, insert_rows, move_rows
from rota.stores.mysql.statements import statement
from rota.stores.mysql.unique_keys import UniqueKeys
from rota.stores.rows import Row, are_plain, is_plain, new_job_row, plain_job_row

#: Fewer jobs than this are not worth session variables for their common columns.
MIN_SHARED_JOBS: Final = 8
#: Jobs of a bulk that are sent before the next are compared: the server is busy with them meanwhile.
FIRST_BATCH: Final = 100
#: Jobs of each later batch: with all at once, the server would wait until they are encoded and sent.
NEXT_BATCHES: Final = 300
#: A longer payload is sent as a prepared statement, and not as text, which would have to be escaped.
MAX_INLINE_PAYLOAD: Final = 10_000
#: Bound once: looking up a member of an enumeration costs as much as a call, for every job.
_CREATED, _PENDING, _SCHEDULED = Receipt.CREATED, State.PENDING, State.SCHEDULED
_PENDING_TEXT: Final = State.PENDING.value
#: Scope and key of an idempotency key.
_KeyName = tuple[str, str]


async def insert(
    connection: Runner,
    jobs: Sequence[NewJob],
    bound: int | None,
    now: int,
    *,
    optimistic: bool = False,
    may_be_full: bool = True,
) -> Sequence[Inserted]:
    """Insert jobs and answer each, in order. If optimistic, only idempotency keys that are seen are locked.

    With `may_be_full`, jobs are answered as the limits of their keys say.
    """
    inserted = await _try_fast_insert(connection, jobs, bound, now)
    if inserted is not None:
        return inserted
    # A list, because it is iterated many times.
    jobs = list(jobs)
    room = await lock_bounded_queues(connection, jobs, bound)
    has_room = all(left >= len(jobs) for left in room.values())
    full = await full_keys(connection, jobs, now) if may_be_full else NO_FULL_KEYS
    if (
        has_room
        and full is NO_FULL_KEYS
        and not any(job.idempotency or job.unique or job.tags or job.after for job in jobs)
    ):
        try:
            return await _insert_all(connection, jobs, now)
        except ConstraintViolated:
            # An id is taken. Some rows may be stored, so roll back and check each job.
            await connection.rollback()
            connection.has_made_work = False
            room = await lock_bounded_queues(connection, jobs, bound)
    keys = await _lock_keys(connection, jobs, optimistic=optimistic)
    return await _insert_checked(connection, jobs, keys, room, full, now)


async def insert_system_jobs(connection: Runner, jobs: Sequence[NewJob], now: int) -> list[JobId]:
    """Insert jobs that Rota itself makes, and return their ids: if an id is taken, the next free one is used."""
    if not jobs:
        return []
    ids: list[JobId] = []
    taken: set[JobId] = set(await _states(connection, [job.id for job in jobs]))
    for job in jobs:
        number = job.id
        while number in taken or (number != job.id and await _states(connection, [number])):
            taken.add(number)
            number = JobId(number + 1 if number < LARGEST else 1)
        taken.add(number)
        ids.append(number)
    made = [job if number == job.id else replace(job, id=number) for job, number in zip(jobs, ids, strict=True)]
    try:
        await _insert_all(connection, made, now)
    except ConstraintViolated as error:
        raise RetryTransaction("another process took the id at the same time") from error
    failed = await link_dependencies(connection, [(job.id, job.after) for job in made if job.after], now)
    await follow_failures(connection, (), failed, now, insert_system_jobs)
    return ids


# The fast way


class _NotEqual(Exception):
    """The jobs of a bulk differ in more than id and payload."""


async def _try_fast_insert(
    connection: Runner, jobs: Sequence[NewJob], bound: int | None, now: int
) -> Sequence[Inserted] | None:
    """Insert a plain job, or a bulk of equal ones. None if that is not possible; then nothing is inserted."""
    try:
        if len(jobs) == 1:
            return await _insert_one(connection, jobs[0], bound, now)
        if len(jobs) >= MIN_SHARED_JOBS and connection.can_pipeline:
            return await _insert_equal(connection, jobs, bound, now)
    except (ConstraintViolated, _NotEqual):
        await connection.rollback()
    return None


async def _insert_one(connection: Runner, job: NewJob, bound: int | None, now: int) -> list[Inserted] | None:
    """Insert a plain job, and read in the same packet whether its queue is bounded."""
    if not is_plain(job) or len(job.payload) > MAX_INLINE_PAYLOAD:
        return None
    if not is_probably_unbounded(connection, job.queue, bound):
        return None
    job_id, type_, queue, _, state, turn, run_at, *_ = row = plain_job_row(job, now)
    is_due = state == _PENDING_TEXT
    connection.defer(statement("insert_plain_jobs"), row)
    if is_due:
        connection.defer(statement("insert_ready"), (queue, type_, "", turn, job_id, run_at, None))
    else:
        connection.defer(statement("insert_scheduled"), (run_at, job_id, state, queue, type_))
    if not is_unbounded(connection, queue, await connection.rows(statement("queue_bounds"))):
        await connection.rollback()
        return None
    connection.has_made_work = True
    return [Inserted(job_id, _CREATED, _PENDING if is_due else _SCHEDULED, from_micros(now))]


async def _insert_equal(
    connection: Runner, jobs: Sequence[NewJob], bound: int | None, now: int
) -> Sequence[Inserted] | None:
    """Insert pending jobs that differ only in id and payload, pipelined."""
    shared = _shared_columns(jobs, now)
    if shared is None:
        return None
    queue = jobs[0].queue
    reads_bounds = is_probably_unbounded(connection, queue, bound)
    if not reads_bounds:
        room = await lock_bounded_queues(connection, jobs[:1], bound)
        if any(left < len(jobs) for left in room.values()):
            return None
    connection.defer(statement("set_job_variables"), shared)
    ids: list[JobId] = []
    bounds = await connection.pipeline(statement("queue_bounds") if reads_bounds else None, _row_batches(jobs, ids))
    if reads_bounds and not is_unbounded(connection, queue, bounds):
        await connection.rollback()
        return None
    connection.has_made_work = True
    return AllCreated(ids, _PENDING, from_micros(now))


def _shared_columns(jobs: Sequence[NewJob], now: int) -> dict[str, Any] | None:
    """Return the columns of the first job except id and payload; None if it is not plain, due and like the last."""
    # Comparing with the last finds most bulks that are not equal before anything is sent.
    first, last = jobs[0], jobs[-1]
    if not is_plain(first) or as_uniform((first, last)) is None:
        return None
    _, type_, queue, priority, state, turn, run_at, _, _, max_attempts, delivery, _ = plain_job_row(first, now)
    if state != _PENDING_TEXT:
        return None
    return {
        "type": type_,
        "queue": queue,
        "priority": priority,
        "turn": turn,
        "run_at": run_at,
        "now": now,
        "max_attempts": max_attempts,
        "delivery": delivery,
    }


def _row_batches(jobs: Sequence[NewJob], ids: list[JobId]) -> Iterator[RowBatch]:
    """Yield the jobs in batches, and add their ids, while the server stores the batch before."""
    first = jobs[0]
    for batch in _batches(jobs):
        alike = as_uniform(batch)
        if alike is None or not alike.matches(first) or max(map(len, alike.payloads)) > MAX_BATCH_CHARACTERS:
            raise _NotEqual
        yield statement("insert_job_shared"), alike.ids, alike.payloads
        ids += alike.ids
    yield statement("insert_ready_shared"), ids, None


def _batches(jobs: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
    yield jobs[:FIRST_BATCH]
    for start in range(FIRST_BATCH, len(jobs), NEXT_BATCHES):
        yield jobs[start : start + NEXT_BATCHES]


# The checked way


async def _insert_checked(
    connection: Runner, jobs: Sequence[NewJob], keys: Sequence[Row], room: QueueRoom, full: FullKeys, now: int
) -> list[Inserted]:
    """Answer each job by its idempotency key, the room of its queue and its id, and insert those that are new."""
    valid = await _valid_keys(connection, keys, now)
    unique = await UniqueKeys.read(connection, jobs, keys, now)
    taken = await _states(connection, [job.id for job in jobs])
    answers: list[Inserted] = []
    made: list[NewJob] = []
    owners: list[tuple[NewJob, JobId]] = []
    moment = from_micros(now)
    for job in jobs:
        name = _key_name(job.idempotency)
        earlier = None if name is None else valid.get(name)
        if earlier is not None and job.idempotency is not None:
            receipt = Receipt.REPLAYED if earlier[0] == job.idempotency.request else Receipt.KEY_REUSED
            answers.append(Inserted(earlier[1], receipt, earlier[2]))
            continue
        repeated = None if job.unique is None else await unique.repeated(job, job.unique, made)
        if repeated is not None:
            answers.append(repeated)
            # If this submission is sent again because its answer was lost, it gets the same one and changes nothing.
            owners.append((replace(job, unique=None), repeated.job_id))
        elif (refusal := _refusal(job, room, full, taken, now)) is not None:
            answers.append(refusal)
            continue
        else:
            state = _state_of(job, now)
            if state is State.PENDING and job.queue in room:
                room[job.queue] -= 1
            then = full.note_made(job) if state is State.PENDING else state
            answers.append(Inserted(job.id, Receipt.CREATED, then, moment))
            if job.unique is not None:
                unique.take(job, job.unique, state, len(made))
            made.append(job)
            owners.append((job, job.id))
            taken[job.id] = state
        if name is not None and job.idempotency is not None:
            valid[name] = (job.idempotency.request, answers[-1].job_id, answers[-1].state)
    try:
        await _write_keys(connection, owners, {(row[0], row[1]) for row in keys}, now)
        await _insert_all(connection, made, now)
    except ConstraintViolated as error:
        raise RetryTransaction("another process took the key or the id at the same time") from error
    await _make_room(connection, full, now)
    return await _link_and_answer(connection, jobs, answers, now) if any(job.after for job in made) else answers


async def _make_room(connection: Runner, full: FullKeys, now: int) -> None:
    """Cancel the jobs that make room for new ones, and the new ones for which there is none."""
    for reason, ids in ((Reason.REPLACED, full.replaced), (Reason.LIMIT_FULL, full.cancelled)):
        if ids:
            failed = await resolve_dependents(connection, await stop_jobs(connection, ids, reason, now), now)
            await follow_failures(connection, (), failed, now, insert_system_jobs)


async def _link_and_answer(
    connection: Runner, jobs: Sequence[NewJob], answers: list[Inserted], now: int
) -> list[Inserted]:
    """Store dependencies once all jobs are stored, since they may wait for each other in any order."""
    made = [job for job, answer in zip(jobs, answers, strict=True) if answer.receipt is Receipt.CREATED]
    failed = await link_dependencies(connection, [(job.id, job.after) for job in made if job.after], now)
    await follow_failures(connection, (), failed, now, insert_system_jobs)
    states = await _states(connection, [answer.job_id for answer in answers])
    return [replace(answer, state=states.get(answer.job_id, answer.state)) for answer in answers]


def _refusal(job: NewJob, room: QueueRoom, full: FullKeys, taken: Mapping[JobId, State], now: int) -> Inserted | None:
    """Return the answer to a submission that makes no job: its key or its queue is full, or its id is taken."""
    if (dropped := full.dropped(job)) is not None:
        return dropped
    if _is_full(job, room, now):
        return Inserted(job.id, Receipt.QUEUE_FULL, State.PENDING)
    return Inserted(job.id, Receipt.ID_TAKEN, taken[job.id]) if job.id in taken else None


def _is_full(job: NewJob, room: QueueRoom, now: int) -> bool:
    return room.get(job.queue) == 0 and _state_of(job, now) is State.PENDING


def _state_of(job: NewJob, now: int) -> State:
    moment = from_micros(now)
    return first_state(job.run_at or moment, moment, blocked=bool(job.after))


async def _insert_all(connection: Runner, jobs: Sequence[NewJob], now: int) -> list[Inserted]:
    """Insert jobs whose ids are free, with their state rows and tags."""
    if are_plain(jobs):
        return await _insert_plain(connection, jobs, now)
    moment = from_micros(now)
    rows: list[Row] = []
    placements: list[Placement] = []
    answers: list[Inserted] = []
    for job in jobs:
        run_at = job.run_at or moment
        state = first_state(run_at, moment, blocked=bool(job.after))
        row = new_job_row(job, state, run_at, now)
        rows.append(row)
        placement = Placement(job.id, state, job.queue, job.type, job.priority, row[5], row[6], row[10])
        placements.append(replace(placement, concurrency_key=job.concurrency_key) if job.concurrency_key else placement)
        answers.append(Inserted(job.id, Receipt.CREATED, state, moment))
    await connection.many(statement("insert_jobs"), rows)
    await move_rows(connection, (), placements)
    tags = [(tag, job.id) for job in jobs for tag in dict.fromkeys(job.tags)]
    if tags:
        await connection.many(statement("insert_tag"), tags)
    await insert_rows(connection, {"fired": [(job.schedule_id, job.id) for job in jobs if job.schedule_id is not None]})
    return answers


async def _insert_plain(connection: Runner, jobs: Sequence[NewJob], now: int) -> list[Inserted]:
    """Insert jobs that set only what every job sets: nearly all of them."""
    rows = [plain_job_row(job, now) for job in jobs]
    await connection.many(statement("insert_plain_jobs"), rows)
    ready: list[Row] = []
    scheduled: list[Row] = []
    answers: list[Inserted] = []
    moment = from_micros(now)
    for job_id, type_, queue, _, state, turn, run_at, *_ in rows:
        if state == _PENDING_TEXT:
            ready.append((queue, type_, "", turn, job_id, run_at, None))
            answers.append(Inserted(job_id, _CREATED, _PENDING, moment))
        else:
            scheduled.append((run_at, job_id, state, queue, type_))
            answers.append(Inserted(job_id, _CREATED, _SCHEDULED, moment))
    await insert_rows(connection, {"ready": ready, "scheduled": scheduled})
    return answers


# Idempotency keys and ids


def _key_name(key: IdempotencyKey | None) -> _KeyName | None:
    return None if key is None else (key.scope, key.key)


def _key_names(job: NewJob) -> Iterator[_KeyName]:
    """Yield the keys of a submission: its idempotency key, and that of a unique, throttled or debounced job."""
    if job.idempotency is not None:
        yield job.idempotency.scope, job.idempotency.key
    if job.unique is not None:
        yield job.unique.name_for(job.type, job.queue)


async def _lock_keys(connection: Runner, jobs: Sequence[NewJob], *, optimistic: bool) -> list[Row]:
    """Lock and return the idempotency keys of these jobs that exist."""
    names = sorted({name for job in jobs for name in _key_names(job)})
    if optimistic:
        names = [(row[0], row[1]) for row in await _keys(connection, names, "existing_keys")]
    return await _keys(connection, names, "lock_keys")


async def _keys(connection: Runner, names: Sequence[_KeyName], how: str) -> list[Row]:
    rows: list[Row] = []
    for chunk in chunks(names):
        rows += await connection.rows(statement(how), {"keys": chunk})
    return rows


async def _valid_keys(connection: Runner, keys: Sequence[Row], now: int) -> dict[_KeyName, tuple[bytes, JobId, State]]:
    """Of existing keys, return those that still count: not past their time, or of an unfinished job."""
    states = await _states(connection, [row[3] for row in keys])
    # A locked key is read as it is now, but a caller's transaction may read an older snapshot without the key's job.
    unseen = [row[3] for row in keys if row[3] not in states]
    states |= await _states(connection, unseen, "lock_job_states")
    return {
        (scope, key): (request, job_id, states[job_id])
        for scope, key, request, job_id, expires_at in keys
        if job_id in states and (expires_at > now or states[job_id] not in FINISHED)
    }


async def _write_keys(
    connection: Runner, owners: Sequence[tuple[NewJob, JobId]], existing: set[_KeyName], now: int
) -> None:
    """Insert the keys of submissions, each with its job, and replace existing ones that another job had.

    A key that did not exist a moment ago and exists now violates a constraint: another process was faster.
    """
    keyed: dict[_KeyName, Row] = {}
    for job, job_id in owners:
        if (key := job.idempotency) is not None:
            keyed[key.scope, key.key] = (key.request, job_id, now + span_to_micros(key.keep))
        if job.unique is not None:
            keyed[job.unique.name_for(job.type, job.queue)] = (b"", job_id, now + span_to_micros(job.unique.keep))
    inserted = [(*name, *columns) for name, columns in sorted(keyed.items()) if name not in existing]
    replaced = [(*columns, *name) for name, columns in sorted(keyed.items()) if name in existing]
    if inserted:
        await connection.many(statement("insert_key"), inserted)
    if replaced:
        await connection.update_each(statement("replace_key"), replaced)


async def existing_jobs(connection: Runner, ids: Sequence[JobId]) -> set[JobId]:
    """Return the ids that exist, also where a caller's transaction reads an older snapshot."""
    seen = await _states(connection, ids)
    unseen = await _states(connection, [job_id for job_id in ids if job_id not in seen], "lock_job_states")
    return {*seen, *unseen}


async def _states(connection: Runner, ids: Sequence[JobId], how: str = "job_states") -> dict[JobId, State]:
    states: dict[JobId, State] = {}
    for chunk in chunks(ids):
        states.update((job_id, State(state)) for job_id, state in await connection.rows(statement(how), {"ids": chunk}))
    return states
