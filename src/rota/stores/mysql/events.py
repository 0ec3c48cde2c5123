"""Events, and the waits of jobs for events, times and child jobs.

An emission and a beginning wait both lock the row of the event first. One of them comes second and sees what the first
has written. A wake-up ends the step of the wait first and then locks the job; a suspension locks the job first and then
looks at the step. So a wait that ends while its job is being suspended
is seen by one of the two, and no wake-up is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from rota.core.ids import JobId, to_number
from rota.core.job import turn_at
from rota.core.ledger import LedgerEntry
from rota.core.lifecycle import State
from rota.core.settlement import Settlement
from rota.core.step import MOST_STEPS, Step, StepKind, too_many_steps
from rota.core.submission import NewJob
from rota.core.time import from_micros, span_to_micros, to_micros
from rota.core.waiting import Emission, Emitted, EmittedEvent, Wait
from rota.ports.store import CALL_POSITION
from rota.stores.base.ledger import record
from rota.stores.base.steps import step
from rota.stores.mysql.dependencies import resolve_dependents
from rota.stores.mysql.driver import MysqlConnection, Runner, chunks
from rota.stores.mysql.insert import insert_system_jobs
from rota.stores.mysql.state_tables import lock_jobs, move_rows
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row, due_of, event_of, subject_of

#: How many waits an emission ends by itself; more are left to upkeep.
MOST_WOKEN: Final = 1_000
#: How long the row of an event that was not emitted is kept, in microseconds.
LOCK_KEPT: Final = span_to_micros(timedelta(hours=1))


async def begin_wait(
    connection: MysqlConnection, job_id: JobId, fence: int, wait: Wait, child: NewJob | None, now: int
) -> Step | None:
    """Record a wait, or end it if it is over."""
    if wait.event is not None:
        await _lock_event(connection, wait.event, now)
    if not await connection.rows(statement("lock_lease_with_fence"), {"job_id": job_id, "fence": fence}):
        return None
    stored = await step(connection, job_id, wait.key)
    if stored is None:
        await _insert(connection, job_id, fence, wait, child, now)
        stored = await step(connection, job_id, wait.key)
        assert stored is not None
    if stored.is_done or stored.kind is not wait.kind:
        return stored
    outcome = await _outcome(connection, stored, now)
    if outcome is not None:
        await _end(connection, [(job_id, wait.key, outcome)], now)
        return await step(connection, job_id, wait.key)
    if stored.kind is StepKind.EVENT:
        due = None if stored.until is None else to_micros(stored.until)
        parameters = {"id": job_id, "key": stored.key, "event": stored.subject, "due_at": due}
        await connection.run(statement("insert_waiter"), parameters)
        connection.has_made_work |= due is not None
    return stored


async def _lock_event(connection: Runner, name: str, now: int) -> Row:
    await connection.run(statement("insert_event_lock"), {"name": name, "expires_at": now + LOCK_KEPT})
    return (await connection.rows(statement("lock_event"), {"name": name}))[0]


async def _insert(
    connection: MysqlConnection, job_id: JobId, fence: int, wait: Wait, child: NewJob | None, now: int
) -> None:
    child_id = None
    if child is not None:
        (child_id,) = await insert_system_jobs(connection, [child], now)
    parameters = {
        "id": job_id,
        "key": wait.key,
        "fence": fence,
        "now": now,
        "kind": wait.kind.value,
        "until": due_of(wait, now),
        "subject": subject_of(wait, child_id),
        "most": MOST_STEPS,
    }
    if not await connection.run(statement("insert_wait"), parameters):
        raise too_many_steps(job_id)
    if child_id is not None:
        call = {"parent": child_id, "child": job_id, "position": CALL_POSITION}
        await connection.run(statement("note_call"), call)


async def _outcome(connection: MysqlConnection, stored: Step, now: int) -> str | None:
    """Return the outcome of a wait that is over; None if it is not. The end of a child is read by the engine."""
    if stored.kind is StepKind.EVENT and (emitted := await event(connection, stored.subject or "", now)) is not None:
        return emitted.payload
    return "null" if stored.until is not None and to_micros(stored.until) <= now else None


async def event(connection: MysqlConnection, name: str, now: int) -> EmittedEvent | None:
    """Return an event that was emitted and has not expired."""
    rows = await connection.rows(statement("event"), {"name": name, "now": now})
    return event_of(rows[0]) if rows else None


async def emit(connection: Runner, emission: Emission, now: int) -> Emitted:
    """Store an event, unless it was emitted before, and end the waits for it."""
    row = await _lock_event(connection, emission.name, now)
    if row[2] is not None and row[3] > now:
        return Emitted(event_of(row), is_new=False)
    expires_at = now + span_to_micros(emission.keep)
    parameters = {"name": emission.name, "payload": emission.payload, "now": now, "expires_at": expires_at}
    await connection.run(statement("emit_event"), parameters)
    limit = {"name": emission.name, "limit": MOST_WOKEN + 1}
    waiters = await connection.rows(statement("waiters_of_event"), limit)
    if len(waiters) > MOST_WOKEN:
        await connection.run(statement("make_waiters_due"), {"name": emission.name, "now": now})
        connection.has_made_work = True
        waiters = ()
    woken = await _wake(connection, [(job_id, key, emission.payload) for job_id, key in waiters], now)
    emitted = EmittedEvent(emission.name, emission.payload, from_micros(now), from_micros(expires_at))
    return Emitted(emitted, is_new=True, queues=woken)


async def emit_recorded(
    connection: MysqlConnection, emission: Emission, entry: LedgerEntry | None, now: int
) -> Emitted:
    """Emit an event, with an entry in the ledger if it is new."""
    emitted = await emit(connection, emission, now)
    if entry is not None and emitted.is_new:
        await record(connection, [entry], now)
    return emitted


async def end_waits(connection: MysqlConnection, limit: int, now: int) -> Mapping[str, int]:
    """End waits that are due, and return how many jobs of which queue were woken."""
    rows = await connection.rows(statement("due_waiters"), {"now": now, "limit": limit})
    emitted: dict[str, tuple[str, int]] = {}
    for chunk in chunks(sorted({name for _, _, name, _ in rows})):
        found = await connection.rows(statement("events"), {"names": chunk})
        emitted |= {name: (payload, expires_at) for name, payload, expires_at in found}
    waits = []
    for job_id, key, name, due_at in rows:
        payload, expires_at = emitted.get(name, ("null", due_at))
        # An event that had expired before the wait was due did not answer it.
        waits.append((job_id, key, payload if expires_at > due_at else "null"))
    return await _wake(connection, waits, now)


async def _wake(connection: Runner, waits: Sequence[Row], now: int) -> Mapping[str, int]:
    if not waits:
        return {}
    await _end(connection, waits, now)
    locked = await lock_jobs(connection, sorted({job_id for job_id, _, _ in waits}))
    before = [one for one in locked.values() if one.state is State.BLOCKED]
    after = [
        replace(one, state=State.PENDING, blockers=0, run_at=now, turn=turn_at(now, one.priority)) for one in before
    ]
    if after:
        rows = [(one.state.value, one.blockers, one.turn, one.run_at, now, one.id) for one in after]
        await connection.update_each(statement("update_blocked_job"), rows)
        await move_rows(connection, before, after)
        for chunk in chunks([one.id for one in after]):
            connection.defer(statement("forget_dependencies"), {"ids": chunk})
    return dict(Counter(one.queue for one in after))


async def _end(connection: Runner, waits: Sequence[Row], now: int) -> None:
    """End steps that wait, and delete their waiters."""
    ordered = sorted(waits)
    await connection.many(statement("end_wait"), [(now, outcome, job_id, key) for job_id, key, outcome in ordered])
    await connection.many(statement("delete_waiter"), [(job_id, key) for job_id, key, _ in ordered])


async def still_waiting(connection: MysqlConnection, settlement: Settlement) -> Settlement:
    """Return the settlement of a locked job that waits: blocked, or pending if the wait has ended meanwhile."""
    assert settlement.wait is not None
    parameters = {"id": settlement.job_id, "key": settlement.wait.key}
    is_open = await connection.rows(statement("is_open_wait"), parameters)
    return settlement if is_open else settlement.without_wait()


def children_of(settlements: Sequence[Settlement]) -> list[JobId]:
    """Return the child jobs that jobs are to be suspended for."""
    waits = [one.wait for one in settlements if one.wait is not None and one.wait.kind is StepKind.CALL]
    return sorted(JobId(to_number(wait.subject or "")) for wait in waits)


async def wait_for_children(connection: MysqlConnection, settlements: Sequence[Settlement], now: int) -> list[JobId]:
    """Have jobs that were blocked by a call wait for the end of their children; those that have ended unblock them.

    A child may have ended in this transaction. Return the jobs that were cancelled because they needed its success.
    """
    for chunk in chunks([one.job_id for one in settlements if one.wait is not None]):
        # They have started. They may have been woken, or cancelled and retried, since they last waited for a job.
        await connection.run(statement("forget_dependencies"), {"ids": chunk})
    for one in settlements:
        for child in children_of([one]):
            parameters = {"parent": child, "child": one.job_id, "position": CALL_POSITION}
            await connection.run(statement("wait_for_child"), parameters)
    children = children_of(settlements)
    return await resolve_dependents(connection, children, now) if children else []
