"""Events, and the waits of jobs for events, times and child jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rota.core.ids import JobId, to_number
from rota.core.job import AGING_MICROS
from rota.core.ledger import LedgerEntry
from rota.core.settlement import Settlement
from rota.core.step import MOST_STEPS, Step, StepKind, too_many_steps
from rota.core.submission import NewJob
from rota.core.time import from_micros, span_to_micros, to_micros
from rota.core.waiting import Emission, Emitted, EmittedEvent, Wait
from rota.ports.store import CALL_POSITION
from rota.stores.base import steps
from rota.stores.rows import due_of, event_of, subject_of
from rota.stores.sqlite.dependencies import release
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.insert import insert_made
from rota.stores.sqlite.session import record, shared
from rota.stores.sqlite.statements import statement

step: Final = shared(steps.step)
#: How many waits an emission ends by itself; more are left to upkeep.
MOST_WOKEN: Final = 1_000


def begin_wait(
    connection: SqliteConnection, job_id: JobId, fence: int, wait: Wait, child: NewJob | None, now: int
) -> Step | None:
    """Record a wait, or end it if it is over."""
    if not connection.rows(statement("lock_lease_with_fence"), {"job_id": job_id, "fence": fence}):
        return None
    stored = step(connection, job_id, wait.key)
    if stored is None:
        _insert(connection, job_id, fence, wait, child, now)
        stored = step(connection, job_id, wait.key)
        assert stored is not None
    if stored.is_done or stored.kind is not wait.kind:
        return stored
    outcome = _outcome(connection, stored, now)
    if outcome is not None:
        _end(connection, job_id, stored.key, outcome, now)
        return step(connection, job_id, stored.key)
    if stored.kind is StepKind.EVENT:
        due = None if stored.until is None else to_micros(stored.until)
        connection.run(statement("insert_waiter"), (job_id, stored.key, stored.subject, due))
        connection.has_set_times |= due is not None
    return stored


def _insert(
    connection: SqliteConnection, job_id: JobId, fence: int, wait: Wait, child: NewJob | None, now: int
) -> None:
    child_id = None if child is None else insert_made(connection, child, now)
    parameters = {
        "job_id": job_id,
        "key": wait.key,
        "fence": fence,
        "now": now,
        "kind": wait.kind.value,
        "until": due_of(wait, now),
        "subject": subject_of(wait, child_id),
        "most": MOST_STEPS,
    }
    if not connection.run(statement("insert_wait"), parameters):
        raise too_many_steps(job_id)
    if child_id is not None:
        connection.run(statement("note_call"), (child_id, job_id, CALL_POSITION))


def _outcome(connection: SqliteConnection, stored: Step, now: int) -> str | None:
    """Return the outcome of a wait that is over; None if it is not. The end of a child is read by the engine."""
    if stored.kind is StepKind.EVENT and (emitted := event(connection, stored.subject or "", now)) is not None:
        return emitted.payload
    return "null" if stored.until is not None and to_micros(stored.until) <= now else None


def event(connection: SqliteConnection, name: str, now: int) -> EmittedEvent | None:
    """Return an event that was emitted and has not expired."""
    rows = connection.rows(statement("event"), {"name": name, "now": now})
    return event_of(rows[0]) if rows else None


def emit(connection: SqliteConnection, emission: Emission, now: int) -> Emitted:
    """Store an event, unless it was emitted before, and end the waits for it."""
    expires_at = now + span_to_micros(emission.keep)
    parameters = {"name": emission.name, "payload": emission.payload, "now": now, "expires_at": expires_at}
    if not connection.run(statement("emit_event"), parameters):
        first = event(connection, emission.name, now)
        assert first is not None
        return Emitted(first, is_new=False)
    waiters = connection.rows(statement("waiters_of_event"), (emission.name, MOST_WOKEN + 1))
    if len(waiters) > MOST_WOKEN:
        connection.run(statement("make_waiters_due"), (now, emission.name))
        connection.has_set_times = True
        waiters = []
    woken = _wake(connection, ((*waiter, emission.payload) for waiter in waiters), now)
    emitted = EmittedEvent(emission.name, emission.payload, from_micros(now), from_micros(expires_at))
    return Emitted(emitted, is_new=True, queues=woken)


def emit_recorded(connection: SqliteConnection, emission: Emission, entry: LedgerEntry | None, now: int) -> Emitted:
    """Emit an event, with an entry in the ledger if it is new."""
    emitted = emit(connection, emission, now)
    if entry is not None and emitted.is_new:
        record(connection, [entry], now)
    return emitted


def end_waits(connection: SqliteConnection, limit: int, now: int) -> Mapping[str, int]:
    """End waits that are due, and return how many jobs of which queue were woken."""
    rows = connection.rows(statement("due_waiters"), {"now": now, "limit": limit})
    return _wake(connection, ((job_id, key, payload or "null") for job_id, key, payload in rows), now)


def _wake(connection: SqliteConnection, waits: Iterable[tuple[JobId, str, str]], now: int) -> Mapping[str, int]:
    queues: Counter[str] = Counter()
    for job_id, key, outcome in waits:
        _end(connection, job_id, key, outcome, now)
        woken = connection.rows(statement("wake_job"), {"id": job_id, "now": now, "aging": AGING_MICROS})
        if woken:
            connection.run(statement("forget_dependencies"), (job_id,))
        queues.update(queue for (queue,) in woken)
    connection.has_made_work |= bool(queues)
    return dict(queues)


def _end(connection: SqliteConnection, job_id: JobId, key: str, outcome: str, now: int) -> None:
    parameters = {"now": now, "outcome": outcome, "job_id": job_id, "key": key}
    connection.run(statement("conclude_step"), parameters)
    connection.run(statement("delete_waiter"), (job_id, key))


def still_waiting(connection: SqliteConnection, settlement: Settlement) -> Settlement:
    """Return the settlement of a job that waits: blocked, or pending if the wait has ended meanwhile."""
    assert settlement.wait is not None
    stored = step(connection, settlement.job_id, settlement.wait.key)
    return settlement.without_wait() if stored is None or stored.is_done else settlement


def wait_for_children(connection: SqliteConnection, settlements: Sequence[Settlement], now: int) -> None:
    """Have jobs that were blocked by a call wait for the end of their children; those that have ended unblock them."""
    children = []
    for one in settlements:
        if one.wait is not None:
            # It has started. It may have been woken, or cancelled and retried, since it last waited for a job.
            connection.run(statement("forget_dependencies"), (one.job_id,))
        if one.wait is not None and one.wait.kind is StepKind.CALL:
            child = JobId(to_number(one.wait.subject or ""))
            connection.run(statement("wait_for_child"), (child, one.job_id, CALL_POSITION))
            children.append(child)
    if children:
        release(connection, children, now)
