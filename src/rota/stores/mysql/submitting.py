"""Storing new jobs: their keys, tags and waits with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rota.core.identity import LARGEST, JobId
from rota.core.instant import from_micros, span_to_micros
from rota.core.job import first_state
from rota.core.lifecycle import FINISHED, State
from rota.core.submission import IdempotencyKey, NewJob
from rota.ports.store import Inserted, Receipt
from rota.stores.mysql.bounds import Room, room_for
from rota.stores.mysql.driver import Again, Clash, Runner, lists
from rota.stores.mysql.places import Standing, enter, shift
from rota.stores.mysql.releasing import link
from rota.stores.mysql.statements import statement
from rota.stores.mysql.venturing import venture
from rota.stores.rows import Row, are_plain, new_job_row, plain_job_row

_PENDING: Final = State.PENDING.value
_Name = tuple[str, str]


async def insert(
    connection: Runner, jobs: Sequence[NewJob], bound: int | None, now: int, *, boldly: bool = False
) -> Sequence[Inserted]:
    """Store new jobs and answer each, in order. Boldly, no key is locked that does not seem to be there."""
    stored = await venture(connection, jobs, bound, now)
    if stored is not None:
        return stored
    # Once: what follows looks at them again and again.
    jobs = list(jobs)
    room = await room_for(connection, jobs, bound)
    has_room = all(left >= len(jobs) for left in room.values())
    if has_room and not any(job.idempotency or job.tags or job.after for job in jobs):
        try:
            return await _store_all(connection, jobs, now)
        except Clash:
            # An id is taken. Of several packets some may have been stored, so we begin anew, and with care.
            await connection.rollback()
            connection.has_made_work = False
            room = await room_for(connection, jobs, bound)
    found = await _found_keys(connection, jobs, boldly=boldly)
    return await _insert_with_care(connection, jobs, found, room, now)


async def insert_made(connection: Runner, jobs: Sequence[NewJob], now: int) -> list[JobId]:
    """Store jobs that the system itself makes, and say under which ids.

    Nobody is there to be told that an id is taken, so the next free one is.
    """
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
        await _store_all(connection, made, now)
    except Clash as error:
        raise Again("another process took the id at this moment") from error
    await link(connection, [(job.id, job.after) for job in made if job.after], now)
    return ids


async def _insert_with_care(
    connection: Runner, jobs: Sequence[NewJob], found: Sequence[Row], room: Room, now: int
) -> list[Inserted]:
    kept = await _kept(connection, found, now)
    taken = await _states(connection, [job.id for job in jobs])
    answers: list[Inserted] = []
    made: list[NewJob] = []
    moment = from_micros(now)
    for job in jobs:
        name = _name(job.idempotency)
        earlier = None if name is None else kept.get(name)
        if earlier is not None and job.idempotency is not None:
            receipt = Receipt.REPLAYED if earlier[0] == job.idempotency.request else Receipt.KEY_REUSED
            answers.append(Inserted(earlier[1], receipt, earlier[2]))
        elif _is_full(job, room, now):
            answers.append(Inserted(job.id, Receipt.QUEUE_FULL, State.PENDING))
        elif job.id in taken:
            answers.append(Inserted(job.id, Receipt.ID_TAKEN, taken[job.id]))
        else:
            state = _state_of(job, now)
            if state is State.PENDING and job.queue in room:
                room[job.queue] -= 1
            answers.append(Inserted(job.id, Receipt.CREATED, state, moment))
            made.append(job)
            taken[job.id] = state
            if name is not None and job.idempotency is not None:
                kept[name] = (job.idempotency.request, job.id, state)
    try:
        await _put_keys(connection, made, {(row[0], row[1]) for row in found}, now)
        await _store_all(connection, made, now)
    except Clash as error:
        raise Again("another process took the key or the id at this moment") from error
    return await _linked(connection, jobs, answers, now) if any(job.after for job in made) else answers


async def _linked(connection: Runner, jobs: Sequence[NewJob], answers: list[Inserted], now: int) -> list[Inserted]:
    """Tie jobs to what they wait for, once all are stored: they may wait for each other in any order."""
    made = [job for job, answer in zip(jobs, answers, strict=True) if answer.receipt is Receipt.CREATED]
    await link(connection, [(job.id, job.after) for job in made if job.after], now)
    states = await _states(connection, [answer.job_id for answer in answers])
    return [replace(answer, state=states.get(answer.job_id, answer.state)) for answer in answers]


def _is_full(job: NewJob, room: Room, now: int) -> bool:
    return room.get(job.queue) == 0 and _state_of(job, now) is State.PENDING


def _state_of(job: NewJob, now: int) -> State:
    moment = from_micros(now)
    return first_state(job.run_at or moment, moment, blocked=bool(job.after))


async def _store_all(connection: Runner, jobs: Sequence[NewJob], now: int) -> list[Inserted]:
    """Store jobs under ids that are free, all at once, each where it is found and in its place."""
    if are_plain(jobs):
        return await _store_plain(connection, jobs, now)
    moment = from_micros(now)
    rows: list[Row] = []
    standings: list[Standing] = []
    answers: list[Inserted] = []
    for job in jobs:
        run_at = job.run_at or moment
        state = first_state(run_at, moment, blocked=bool(job.after))
        row = new_job_row(job, state, run_at, now)
        rows.append(row)
        standings.append(Standing(job.id, state, job.queue, job.type, job.priority, row[5], row[6], row[10]))
        answers.append(Inserted(job.id, Receipt.CREATED, state, moment))
    await connection.many(statement("insert"), rows)
    await shift(connection, (), standings)
    tags = [(tag, job.id) for job in jobs for tag in dict.fromkeys(job.tags)]
    if tags:
        await connection.many(statement("put_tag"), tags)
    await enter(connection, {"fired": [(job.schedule_id, job.id) for job in jobs if job.schedule_id is not None]})
    return answers


async def _store_plain(connection: Runner, jobs: Sequence[NewJob], now: int) -> list[Inserted]:
    """Store jobs that set nothing beyond what every job sets: nearly all of them."""
    rows = [plain_job_row(job, now) for job in jobs]
    await connection.many(statement("insert_plain"), rows)
    ready: list[Row] = []
    scheduled: list[Row] = []
    answers: list[Inserted] = []
    moment = from_micros(now)
    for job_id, type_, queue, _, state, turn, run_at, *_ in rows:
        if state == _PENDING:
            ready.append((queue, type_, turn, job_id, run_at, None))
            answers.append(Inserted(job_id, Receipt.CREATED, State.PENDING, moment))
        else:
            scheduled.append((run_at, job_id, state, queue, type_))
            answers.append(Inserted(job_id, Receipt.CREATED, State.SCHEDULED, moment))
    await enter(connection, {"ready": ready, "scheduled": scheduled})
    return answers


def _name(key: IdempotencyKey | None) -> _Name | None:
    return None if key is None else (key.scope, key.key)


async def _found_keys(connection: Runner, jobs: Sequence[NewJob], *, boldly: bool) -> list[Row]:
    """Give the keys of these jobs that came before, and keep them as they are."""
    names = sorted({name for name in (_name(job.idempotency) for job in jobs) if name is not None})
    if boldly:
        names = [(row[0], row[1]) for row in await _keys(connection, names, "seen_keys")]
    return await _keys(connection, names, "find_keys")


async def _keys(connection: Runner, names: Sequence[_Name], how: str) -> list[Row]:
    found: list[Row] = []
    for some in lists(names):
        found += await connection.rows(statement(how), {"keys": some})
    return found


async def _kept(connection: Runner, found: Sequence[Row], now: int) -> dict[_Name, tuple[bytes, JobId, State]]:
    """Of keys that came before, give those that still count."""
    states = await _states(connection, [row[3] for row in found])
    # A key is locked and so seen as it is now; a guest's transaction may look at an older moment, without its job.
    unseen = [row[3] for row in found if row[3] not in states]
    states |= await _states(connection, unseen, "states_now")
    return {
        (scope, key): (request, job_id, states[job_id])
        for scope, key, request, job_id, expires_at in found
        if job_id in states and (expires_at > now or states[job_id] not in FINISHED)
    }


async def _put_keys(connection: Runner, jobs: Sequence[NewJob], known: set[_Name], now: int) -> None:
    """Let the keys of new jobs stand for them: those that are free, and those that have been kept long enough.

    What was not there when we looked is refused if it is there now: somebody else was faster.
    """
    keyed = {(job.idempotency.scope, job.idempotency.key): job for job in jobs if job.idempotency is not None}
    fresh: list[Row] = []
    again: list[Row] = []
    for name, job in sorted(keyed.items()):
        assert job.idempotency is not None
        facts = (job.idempotency.request, job.id, now + span_to_micros(job.idempotency.keep))
        if name in known:
            again.append((*facts, *name))
        else:
            fresh.append((*name, *facts))
    if fresh:
        await connection.many(statement("put_key"), fresh)
    if again:
        await connection.each(statement("retake_key"), again)


async def known_of(connection: Runner, ids: Sequence[JobId]) -> set[JobId]:
    """Give the ids that jobs have, also where a caller's transaction looks at an older moment and does not see them."""
    seen = await _states(connection, ids)
    unseen = await _states(connection, [job_id for job_id in ids if job_id not in seen], "states_now")
    return {*seen, *unseen}


async def _states(connection: Runner, ids: Sequence[JobId], how: str = "states") -> dict[JobId, State]:
    states: dict[JobId, State] = {}
    for some in lists(ids):
        states.update((job_id, State(state)) for job_id, state in await connection.rows(statement(how), {"ids": some}))
    return states
