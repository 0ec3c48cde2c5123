"""Insert: storing new jobs with their idempotency keys, tags and dependencies."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from rota.core.bulk import UniformJobs, as_uniform, representatives
from rota.core.dependencies import reads_parent
from rota.core.ids import LARGEST, JobId
from rota.core.job import first_state
from rota.core.ledger import LedgerEntry
from rota.core.lifecycle import State
from rota.core.settlement import Reason
from rota.core.submission import IdempotencyKey, NewJob
from rota.core.time import from_micros, span_to_micros
from rota.ports.store import CALL_POSITION, AllCreated, Inserted, Receipt
from rota.stores.full_keys import NO_FULL_KEYS, FullKeys
from rota.stores.rows import Row, are_plain, ids_text, is_plain, new_job_row, plain_job_row
from rota.stores.sqlite.dependencies import follow_failures, link, release, stop_jobs
from rota.stores.sqlite.driver import MAX_ROWS_PER_STATEMENT, ConstraintViolated, SqliteConnection, run_for_rows
from rota.stores.sqlite.limits import full_keys
from rota.stores.sqlite.session import record
from rota.stores.sqlite.statements import statement
from rota.stores.sqlite.unique_keys import repeated, take_key
from rota.stores.statements import for_rows

_STATES: Final = {state.value: state for state in State}
#: How many more jobs may wait in each queue that has a limit.
FreePlaces = dict[str, int]


def insert(
    connection: SqliteConnection, jobs: Sequence[NewJob], bound: int | None, now: int, *, may_be_full: bool = True
) -> Sequence[Inserted]:
    """Store new jobs and return one receipt for each, in order. With `may_be_full`, as the limits of their keys say."""
    alike = as_uniform(jobs)
    kinds = representatives(jobs if alike is None else alike)
    free = _free_places(connection, kinds, bound)
    if len(jobs) > 1 and all(left >= len(jobs) for left in free.values()) and are_plain(kinds):
        plain = _insert_plain(connection, jobs, alike, now)
        if plain is not None:
            return plain
    full = full_keys(connection, jobs, now) if may_be_full else NO_FULL_KEYS
    receipts = [_insert_one(connection, job, free, full, now) for job in jobs]
    _make_room(connection, full, now)
    return _linked(connection, jobs, receipts, now) if any(job.after for job in jobs) else receipts


def insert_recorded(
    connection: SqliteConnection, jobs: Sequence[NewJob], bound: int | None, entry: LedgerEntry, now: int
) -> Sequence[Inserted]:
    """Store new jobs as `insert` does, with an audit entry if any was created."""
    receipts = insert(connection, jobs, bound, now)
    if any(receipt.receipt is Receipt.CREATED for receipt in receipts):
        record(connection, [entry], now)
    return receipts


def insert_at_once(
    connection: SqliteConnection, jobs: Sequence[NewJob], bound: int | None, now: int
) -> Sequence[Inserted] | None:
    """Store plain jobs by a single statement; None, and nothing done, where `insert` is needed."""
    if bound is not None or not 0 < len(jobs) <= MAX_ROWS_PER_STATEMENT:
        return None
    if len(jobs) == 1:
        return _put_one(connection, jobs[0], now) if is_plain(jobs[0]) else None
    # Of jobs that are alike, all are plain if one is.
    alike = as_uniform(jobs)
    if not are_plain(representatives(jobs if alike is None else alike)):
        return None
    try:
        if alike is not None:
            return _put_alike(connection, alike, now, at_once=True)
        return _put_plain(connection, jobs, now, at_once=True)
    except ConstraintViolated:
        return None


def _put_one(connection: SqliteConnection, job: NewJob, now: int) -> list[Inserted] | None:
    row = plain_job_row(job, now)
    try:
        if not connection.run(statement("insert_plain_job_at_once"), row):
            return None
    except ConstraintViolated:
        return None
    state = _STATES[row[4]]
    if state is State.PENDING:
        connection.has_made_work = True
    if job.run_at is not None:
        connection.has_set_times = True
    return [Inserted(job.id, Receipt.CREATED, state, from_micros(now))]


def insert_made(connection: SqliteConnection, job: NewJob, now: int) -> JobId:
    """Store a job made by the system itself and return its id: the next free one, since no submitter can be refused."""
    number = job.id
    while connection.rows(statement("job_state"), (number,)):
        number = JobId(number + 1 if number < LARGEST else 1)
    _store(connection, job, number, now)
    if reads_parent(job):
        connection.run(statement("note_reader"), (job.parent_id, number, CALL_POSITION))
    follow_failures(connection, (), link(connection, [(number, job.after)], now), now, insert_made)
    return number


def _free_places(connection: SqliteConnection, jobs: Sequence[NewJob], bound: int | None) -> FreePlaces:
    bounds: dict[str, int] = dict(connection.rows(statement("bounded_queues")))
    if not bounds and bound is None:
        return {}
    free = {}
    for queue in {job.queue for job in jobs}:
        limit = bounds.get(queue, bound)
        if limit is not None:
            ((depth,),) = connection.rows(statement("queue_depth"), {"queue": queue, "limit": limit})
            free[queue] = max(limit - depth, 0)
    return free


def _insert_plain(
    connection: SqliteConnection, jobs: Sequence[NewJob], alike: UniformJobs | None, now: int
) -> Sequence[Inserted] | None:
    """Store plain jobs together; None if an id is taken."""
    connection.run("SAVEPOINT inserting")
    try:
        receipts = _put_plain(connection, jobs, now) if alike is None else _put_alike(connection, alike, now)
    except ConstraintViolated:
        connection.run("ROLLBACK TO inserting")
        receipts = None
    connection.run("RELEASE inserting")
    return receipts


def _put_plain(
    connection: SqliteConnection, jobs: Sequence[NewJob], now: int, *, at_once: bool = False
) -> list[Inserted] | None:
    rows = [plain_job_row(job, now) for job in jobs]
    if at_once:
        if not _run_at_once(connection, "insert_plain_jobs_at_once", rows):
            return None
    else:
        run_for_rows(connection, statement("insert_plain"), rows)
    states = [_STATES[row[4]] for row in rows]
    _note_changes(connection, jobs, states)
    moment = from_micros(now)
    return [Inserted(job.id, Receipt.CREATED, state, moment) for job, state in zip(jobs, states, strict=True)]


def _put_alike(
    connection: SqliteConnection, jobs: UniformJobs, now: int, *, at_once: bool = False
) -> Sequence[Inserted] | None:
    shared = plain_job_row(jobs.model, now)[1:-1]
    rows = list(zip(jobs.ids, jobs.payloads, strict=True))
    if at_once:
        if not _run_at_once(connection, "insert_equal_jobs_at_once", rows, before=shared):
            return None
    else:
        run_for_rows(connection, statement("insert_equal_jobs"), rows, before=shared)
    state = _STATES[shared[3]]
    _note_changes(connection, representatives(jobs), (state,))
    return AllCreated(jobs.ids, state, from_micros(now))


def _run_at_once(connection: SqliteConnection, name: str, rows: list[Row], *, before: Row = ()) -> int:
    """Run a statement once for all rows, padded with rows of NULL, which it leaves out.

    A prepared statement for each number of rows took 18 MB. Padded by a quarter at most, two dozen sizes are enough.
    """
    size = len(rows)
    missing = -size % (1 << max((size - 1).bit_length() - 3, 0))
    padded = [*rows, *[(None,) * len(rows[0])] * missing]
    return connection.run(for_rows(statement(name), len(padded)), (*before, *chain.from_iterable(padded)))


def _linked(connection: SqliteConnection, jobs: Sequence[NewJob], receipts: list[Inserted], now: int) -> list[Inserted]:
    """Add the dependencies once all jobs are stored: they may wait for each other in any order."""
    created = [job for job, receipt in zip(jobs, receipts, strict=True) if receipt.receipt is Receipt.CREATED]
    failed = link(connection, [(job.id, job.after) for job in created if job.after], now)
    follow_failures(connection, (), failed, now, insert_made)
    states: dict[JobId, str] = dict(
        connection.rows(statement("job_states"), (ids_text([receipt.job_id for receipt in receipts]),))
    )
    # A job refused by a full queue is not stored.
    return [replace(receipt, state=State(states.get(receipt.job_id, receipt.state))) for receipt in receipts]


def _make_room(connection: SqliteConnection, full: FullKeys, now: int) -> None:
    """Cancel the jobs that make room for new ones, and the new ones for which there is none."""
    for reason, ids in ((Reason.REPLACED, full.replaced), (Reason.LIMIT_FULL, full.cancelled)):
        if ids:
            cancelled = stop_jobs(connection, ids, reason, now)
            follow_failures(connection, (), release(connection, cancelled, now), now, insert_made)


def _insert_one(connection: SqliteConnection, job: NewJob, free: FreePlaces, full: FullKeys, now: int) -> Inserted:
    answer = _repeated(connection, job, now) or full.dropped(job)
    if answer is not None:
        return answer
    state = _first_state(job, now)
    is_bounded = state is State.PENDING and job.queue in free
    if is_bounded and not free[job.queue]:
        return Inserted(job.id, Receipt.QUEUE_FULL, state)
    try:
        _store(connection, job, job.id, now)
    except ConstraintViolated:
        ((taken,),) = connection.rows(statement("job_state"), (job.id,))
        return Inserted(job.id, Receipt.ID_TAKEN, State(taken))
    if is_bounded:
        free[job.queue] -= 1
    _save_key(connection, job.idempotency, job.id, now)
    if job.unique is not None:
        take_key(connection, job, job.unique, job.id, now)
    if state is State.PENDING:
        state = full.note_made(job)
    return Inserted(job.id, Receipt.CREATED, state, from_micros(now))


def _repeated(connection: SqliteConnection, job: NewJob, now: int) -> Inserted | None:
    """Answer a submission whose idempotency key was used, or whose unique key an earlier job has."""
    if job.idempotency is not None:
        earlier = _earlier(connection, job.idempotency, now)
        if earlier is not None:
            return earlier
    if job.unique is None:
        return None
    answer = repeated(connection, job, job.unique, now)
    if answer is not None:
        # If this submission is sent again because its answer was lost, it gets the same one and changes nothing.
        _save_key(connection, job.idempotency, answer.job_id, now)
    return answer


def _save_key(connection: SqliteConnection, key: IdempotencyKey | None, job_id: JobId, now: int) -> None:
    if key is not None:
        until = now + span_to_micros(key.keep)
        connection.run(statement("save_key"), (key.scope, key.key, key.request, job_id, until))


def _first_state(job: NewJob, now: int) -> State:
    moment = from_micros(now)
    return first_state(job.run_at or moment, moment, blocked=bool(job.after))


def _store(connection: SqliteConnection, job: NewJob, job_id: JobId, now: int) -> None:
    _note_changes(connection, [job], [_first_state(job, now)])
    if is_plain(job):
        _, *rest = plain_job_row(job, now)
        connection.run(statement("insert_plain"), (job_id, *rest))
        return
    _, *rest = new_job_row(job, _first_state(job, now), job.run_at or from_micros(now), now)
    connection.run(statement("insert_job"), (job_id, *rest))
    if job.tags:
        connection.many(statement("insert_tag"), [(tag, job_id) for tag in job.tags])


def _note_changes(connection: SqliteConnection, jobs: Sequence[NewJob], states: Collection[State]) -> None:
    """Have other processes notified of jobs that may start now, or have a time."""
    connection.has_made_work |= State.PENDING in states
    connection.has_set_times |= any(job.run_at is not None or job.expires_at is not None for job in jobs)


def _earlier(connection: SqliteConnection, key: IdempotencyKey, now: int) -> Inserted | None:
    """Return the receipt for a submission whose idempotency key is in use."""
    rows = connection.rows(statement("find_key"), {"scope": key.scope, "key": key.key, "now": now})
    if not rows or rows[0][2]:
        return None
    request, job_id, _ = rows[0]
    ((state,),) = connection.rows(statement("job_state"), (job_id,))
    return Inserted(job_id, Receipt.REPLAYED if request == key.request else Receipt.KEY_REUSED, State(state))
