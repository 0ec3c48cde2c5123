"""Storing new jobs: their keys, tags and waits with them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from rota.core.alike import Alike, alike_of, kinds_of
from rota.core.identity import LARGEST, JobId
from rota.core.instant import from_micros, span_to_micros
from rota.core.job import first_state
from rota.core.lifecycle import State
from rota.core.submission import IdempotencyKey, NewJob
from rota.ports.store import AllCreated, Inserted, Receipt
from rota.stores.rows import Row, are_plain, ids_text, is_plain, new_job_row, plain_job_row
from rota.stores.sqlite.driver import MOST_ROWS, Clash, Connection, run_for_rows
from rota.stores.sqlite.releasing import link
from rota.stores.sqlite.statements import statement
from rota.stores.statements import for_rows

_STATES: Final = {state.value: state for state in State}
#: How many more jobs may wait in each queue that has a bound.
Room = dict[str, int]


def insert(connection: Connection, jobs: Sequence[NewJob], bound: int | None, now: int) -> Sequence[Inserted]:
    """Store new jobs and answer each, in order."""
    alike = alike_of(jobs)
    kinds = kinds_of(jobs if alike is None else alike)
    room = _room(connection, kinds, bound)
    if len(jobs) > 1 and all(left >= len(jobs) for left in room.values()) and are_plain(kinds):
        plain = _insert_plain(connection, jobs, alike, now)
        if plain is not None:
            return plain
    answers = [_insert_one(connection, job, room, now) for job in jobs]
    return _linked(connection, jobs, answers, now) if any(job.after for job in jobs) else answers


def insert_at_once(
    connection: Connection, jobs: Sequence[NewJob], bound: int | None, now: int
) -> Sequence[Inserted] | None:
    """Store plain jobs by one statement; None, and nothing done, if they need a closer look."""
    if bound is not None or not 0 < len(jobs) <= MOST_ROWS:
        return None
    if len(jobs) == 1:
        return _put_one(connection, jobs[0], now) if is_plain(jobs[0]) else None
    # Of jobs that are alike, all are plain if one is.
    alike = alike_of(jobs)
    if not are_plain(kinds_of(jobs if alike is None else alike)):
        return None
    try:
        if alike is not None:
            return _put_alike(connection, alike, now, at_once=True)
        return _put_plain(connection, jobs, now, at_once=True)
    except Clash:
        return None


def _put_one(connection: Connection, job: NewJob, now: int) -> list[Inserted] | None:
    row = plain_job_row(job, now)
    try:
        if not connection.run(statement("insert_one"), row):
            return None
    except Clash:
        return None
    state = _STATES[row[4]]
    if state is State.PENDING:
        connection.has_made_work = True
    if job.run_at is not None:
        connection.has_set_times = True
    return [Inserted(job.id, Receipt.CREATED, state, from_micros(now))]


def insert_made(connection: Connection, job: NewJob, now: int) -> JobId:
    """Store a job that the system itself makes, and say under which id.

    Nobody is there to be told that the id is taken, so the next free one is.
    """
    number = job.id
    while connection.rows("SELECT 1 FROM job WHERE id = ?", (number,)):
        number = JobId(number + 1 if number < LARGEST else 1)
    _store(connection, job, number, now)
    link(connection, [(number, job.after)], now)
    return number


def _room(connection: Connection, jobs: Sequence[NewJob], bound: int | None) -> Room:
    bounds: dict[str, int] = dict(connection.rows(statement("queue_bounds")))
    if not bounds and bound is None:
        return {}
    room = {}
    for queue in {job.queue for job in jobs}:
        limit = bounds.get(queue, bound)
        if limit is not None:
            ((depth,),) = connection.rows(statement("queue_depth"), {"queue": queue, "limit": limit})
            room[queue] = max(limit - depth, 0)
    return room


def _insert_plain(
    connection: Connection, jobs: Sequence[NewJob], alike: Alike | None, now: int
) -> Sequence[Inserted] | None:
    """Store jobs that bring nothing with them, all at once; None if an id is taken."""
    connection.run("SAVEPOINT inserting")
    try:
        answers = _put_plain(connection, jobs, now) if alike is None else _put_alike(connection, alike, now)
    except Clash:
        connection.run("ROLLBACK TO inserting")
        answers = None
    connection.run("RELEASE inserting")
    return answers


def _put_plain(
    connection: Connection, jobs: Sequence[NewJob], now: int, *, at_once: bool = False
) -> list[Inserted] | None:
    rows = [plain_job_row(job, now) for job in jobs]
    if at_once:
        if not _run_at_once(connection, "insert_plain_at_once", rows):
            return None
    else:
        run_for_rows(connection, statement("insert_plain"), rows)
    states = [_STATES[row[4]] for row in rows]
    _tell_of(connection, jobs, states)
    moment = from_micros(now)
    return [Inserted(job.id, Receipt.CREATED, state, moment) for job, state in zip(jobs, states, strict=True)]


def _put_alike(connection: Connection, jobs: Alike, now: int, *, at_once: bool = False) -> Sequence[Inserted] | None:
    shared = plain_job_row(jobs.model, now)[1:-1]
    rows = list(zip(jobs.ids, jobs.payloads, strict=True))
    if at_once:
        if not _run_at_once(connection, "insert_alike_at_once", rows, before=shared):
            return None
    else:
        run_for_rows(connection, statement("insert_alike"), rows, before=shared)
    state = _STATES[shared[3]]
    _tell_of(connection, kinds_of(jobs), (state,))
    return AllCreated(jobs.ids, state, from_micros(now))


def _run_at_once(connection: Connection, name: str, rows: list[Row], *, before: Row = ()) -> int:
    """Run a statement once for all rows, filled up with rows of nothing, which it leaves out.

    A crowd may have any size, and to prepare and keep a statement for each took 18 MB. Filled up by a quarter at most,
    crowds have two dozen sizes.
    """
    size = len(rows)
    missing = -size % (1 << max((size - 1).bit_length() - 3, 0))
    filled = [*rows, *[(None,) * len(rows[0])] * missing]
    return connection.run(for_rows(statement(name), len(filled)), (*before, *chain.from_iterable(filled)))


def _linked(connection: Connection, jobs: Sequence[NewJob], answers: list[Inserted], now: int) -> list[Inserted]:
    """Tie jobs to what they wait for, once all are stored: they may wait for each other in any order."""
    made = [job for job, answer in zip(jobs, answers, strict=True) if answer.receipt is Receipt.CREATED]
    link(connection, [(job.id, job.after) for job in made if job.after], now)
    states: dict[JobId, str] = dict(
        connection.rows(statement("states"), (ids_text([answer.job_id for answer in answers]),))
    )
    # What found no room is not there.
    return [replace(answer, state=State(states.get(answer.job_id, answer.state))) for answer in answers]


def _insert_one(connection: Connection, job: NewJob, room: Room, now: int) -> Inserted:
    if job.idempotency is not None:
        earlier = _earlier(connection, job.idempotency, now)
        if earlier is not None:
            return earlier
    state = _first_state(job, now)
    is_bounded = state is State.PENDING and job.queue in room
    if is_bounded and not room[job.queue]:
        return Inserted(job.id, Receipt.QUEUE_FULL, state)
    try:
        _store(connection, job, job.id, now)
    except Clash:
        ((taken,),) = connection.rows("SELECT state FROM job WHERE id = ?", (job.id,))
        return Inserted(job.id, Receipt.ID_TAKEN, State(taken))
    if is_bounded:
        room[job.queue] -= 1
    if job.idempotency is not None:
        key = job.idempotency
        until = now + span_to_micros(key.keep)
        connection.run(statement("put_key"), (key.scope, key.key, key.request, job.id, until))
    return Inserted(job.id, Receipt.CREATED, state, from_micros(now))


def _first_state(job: NewJob, now: int) -> State:
    moment = from_micros(now)
    return first_state(job.run_at or moment, moment, blocked=bool(job.after))


def _store(connection: Connection, job: NewJob, job_id: JobId, now: int) -> None:
    _tell_of(connection, [job], [_first_state(job, now)])
    if is_plain(job):
        _, *rest = plain_job_row(job, now)
        connection.run(statement("insert_plain"), (job_id, *rest))
        return
    _, *rest = new_job_row(job, _first_state(job, now), job.run_at or from_micros(now), now)
    connection.run(statement("insert"), (job_id, *rest))
    if job.tags:
        connection.many(statement("put_tag"), [(tag, job_id) for tag in job.tags])


def _tell_of(connection: Connection, jobs: Sequence[NewJob], states: Collection[State]) -> None:
    """Have the others hear of jobs that may start now, or have a time."""
    connection.has_made_work |= State.PENDING in states
    connection.has_set_times |= any(job.run_at is not None or job.expires_at is not None for job in jobs)


def _earlier(connection: Connection, key: IdempotencyKey, now: int) -> Inserted | None:
    """Answer a submission whose key came before and still counts."""
    found = connection.rows(statement("find_key"), {"scope": key.scope, "key": key.key, "now": now})
    if not found or found[0][2]:
        return None
    request, job_id, _ = found[0]
    ((state,),) = connection.rows("SELECT state FROM job WHERE id = ?", (job_id,))
    return Inserted(job_id, Receipt.REPLAYED if request == key.request else Receipt.KEY_REUSED, State(state))
