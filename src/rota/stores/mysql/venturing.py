"""Storing plain jobs at a venture: before we know that we may, and while we ask.

Whether a queue has a bound is asked with the rows, not before them, and whether many jobs are of one task is looked at
while the server stores the first. Nearly always it is as we thought. If not, or if an id is taken, all is rolled back,
and the jobs are stored with care. Nothing is committed before all answers were read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rota.core.alike import alike_of
from rota.core.identity import JobId
from rota.core.instant import from_micros
from rota.core.lifecycle import State
from rota.core.submission import NewJob
from rota.ports.store import AllCreated, Inserted, Receipt
from rota.stores.mysql.bounds import is_open, room_for, seems_open
from rota.stores.mysql.driver import Clash, Runner
from rota.stores.mysql.flight import Parcel
from rota.stores.mysql.packets import LARGEST_IN_FLIGHT
from rota.stores.mysql.statements import statement
from rota.stores.rows import is_plain, plain_job_row

#: Fewer jobs than this are not worth a statement that says what they have in common.
FEWEST_TO_SHARE: Final = 8
#: So many jobs are sent before the next are looked at: with them the server has something to do meanwhile.
FIRST_PIECE: Final = 100
#: And so many of the next at a time: with all at once, the server waited until they were written down and sent.
NEXT_PIECES: Final = 300
#: A longer payload goes by itself, and not as text, in which it would have to be escaped.
LONGEST_IN_TEXT: Final = 10_000
_PENDING_TEXT: Final = State.PENDING.value
#: To look a member up in its enumeration costs as much as a call; for every job that adds up.
_CREATED, _PENDING, _SCHEDULED = Receipt.CREATED, State.PENDING, State.SCHEDULED


class _Different(Exception):
    """Not all jobs are like the first."""


async def venture(connection: Runner, jobs: Sequence[NewJob], bound: int | None, now: int) -> Sequence[Inserted] | None:
    """Store a plain job, or many of one task, and answer each. None if that cannot be done here; nothing is, then."""
    try:
        if len(jobs) == 1:
            return await _store_lone(connection, jobs[0], bound, now)
        if len(jobs) >= FEWEST_TO_SHARE and connection.can_fly:
            return await _store_alike(connection, jobs, bound, now)
    except (Clash, _Different):
        await connection.rollback()
    return None


async def _store_lone(connection: Runner, job: NewJob, bound: int | None, now: int) -> list[Inserted] | None:
    """Store a plain job, and ask in the same packet whether its queue has a bound."""
    if not is_plain(job) or len(job.payload) > LONGEST_IN_TEXT or not seems_open(connection, job.queue, bound):
        return None
    job_id, type_, queue, _, state, turn, run_at, *_ = row = plain_job_row(job, now)
    is_due = state == _PENDING_TEXT
    connection.defer(statement("insert_plain"), row)
    if is_due:
        connection.defer(statement("enter_ready"), (queue, type_, turn, job_id, run_at, None))
    else:
        connection.defer(statement("enter_scheduled"), (run_at, job_id, state, queue, type_))
    if not is_open(connection, queue, await connection.rows(statement("queue_bounds"))):
        await connection.rollback()
        return None
    connection.has_made_work = True
    return [Inserted(job_id, _CREATED, _PENDING if is_due else _SCHEDULED, from_micros(now))]


async def _store_alike(
    connection: Runner, jobs: Sequence[NewJob], bound: int | None, now: int
) -> Sequence[Inserted] | None:
    """Store pending jobs that differ in id and payload only, in one flight."""
    shared = _shared(jobs, now)
    if shared is None:
        return None
    queue = jobs[0].queue
    is_asked = seems_open(connection, queue, bound)
    if not is_asked and any(left < len(jobs) for left in (await room_for(connection, jobs[:1], bound)).values()):
        return None
    connection.defer(statement("share"), shared)
    ids: list[JobId] = []
    found = await connection.fly(statement("queue_bounds") if is_asked else None, _parcels(jobs, ids))
    if is_asked and not is_open(connection, queue, found):
        await connection.rollback()
        return None
    connection.has_made_work = True
    return AllCreated(ids, _PENDING, from_micros(now))


def _shared(jobs: Sequence[NewJob], now: int) -> dict[str, Any] | None:
    """Say what the first job is, but for id and payload; None if that is nothing for others to share."""
    # The last tells of most that are not alike, before anything is sent.
    first, last = jobs[0], jobs[-1]
    if not is_plain(first) or alike_of((first, last)) is None:
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


def _parcels(jobs: Sequence[NewJob], ids: list[JobId]) -> Iterator[Parcel]:
    """Write down what is like the first job, piece by piece, and its id, all while the server stores what was sent.

    What is too large for a packet goes no better with others.
    """
    first = jobs[0]
    for some in _pieces(jobs):
        alike = alike_of(some)
        if alike is None or not alike.is_like(first) or max(map(len, alike.payloads)) > LARGEST_IN_FLIGHT:
            raise _Different
        yield statement("insert_alike"), alike.ids, alike.payloads
        ids += alike.ids
    yield statement("enter_ready_alike"), ids, None


def _pieces(jobs: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
    """Cut jobs into a few, with which the server can begin, and more at a time."""
    yield jobs[:FIRST_PIECE]
    for start in range(FIRST_PIECE, len(jobs), NEXT_PIECES):
        yield jobs[start : start + NEXT_PIECES]
