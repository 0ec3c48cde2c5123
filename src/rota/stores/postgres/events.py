"""Events, and the waits of jobs for events, times and child jobs.

An emission and a beginning wait both lock the row of the event first. One of them comes second and sees what the first
has written. A wake-up ends the step of the wait first and then locks the job; a suspension locks the job first and then
looks at the step. So a wait that ends while its job is being suspended
is seen by one of the two, and no wake-up is lost. Rows are locked in the order event, waiter, job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
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
from rota.stores.base.ledger import record
from rota.stores.base.steps import step
from rota.stores.postgres.dependencies import lock_parents, resolve
from rota.stores.postgres.insert import insert_made
from rota.stores.postgres.session import Session
from rota.stores.postgres.statements import StatementRunner
from rota.stores.rows import Row, due_of, event_of, subject_of
from rota.stores.text_codec import decode_row, encode_text

#: How many waits an emission ends by itself; more are left to upkeep.
MOST_WOKEN: Final = 1_000
#: How long the row of an event that was not emitted is kept, in microseconds.
LOCK_KEPT: Final = span_to_micros(timedelta(hours=1))


async def begin_wait(
    session: Session, job_id: JobId, fence: int, wait: Wait, child: NewJob | None, now: int
) -> Step | None:
    """Record a wait, or end it if it is over."""
    if wait.event is not None:
        await session.rows("lock_event", encode_text(wait.event), now + LOCK_KEPT)
    if not await session.select("lock_lease_with_fence", job_id=job_id, fence=fence):
        return None
    stored = await step(session, job_id, wait.key)
    if stored is None:
        await _insert(session, job_id, fence, wait, child, now)
        stored = await step(session, job_id, wait.key)
        assert stored is not None
    if stored.is_done or stored.kind is not wait.kind:
        return stored
    outcome = await _outcome(session, stored, now)
    if outcome is not None:
        await _end(session, [(job_id, wait.key, outcome)], now)
        return await step(session, job_id, wait.key)
    if stored.kind is StepKind.EVENT:
        due = None if stored.until is None else to_micros(stored.until)
        await session.run("insert_waiter", job_id, encode_text(stored.key), encode_text(stored.subject), due)
    return stored


async def _insert(session: Session, job_id: JobId, fence: int, wait: Wait, child: NewJob | None, now: int) -> None:
    child_id = None
    if child is not None:
        (child_id,) = await insert_made(session, [child], now)
    subject = encode_text(subject_of(wait, child_id))
    arguments = (job_id, encode_text(wait.key), fence, now, wait.kind.value, due_of(wait, now), subject, MOST_STEPS)
    if not await session.run("insert_wait", *arguments):
        raise too_many_steps(job_id)
    if child_id is not None:
        await session.run("note_call", child_id, job_id, CALL_POSITION)


async def _outcome(session: Session, stored: Step, now: int) -> str | None:
    """Return the outcome of a wait that is over; None if it is not. The end of a child is read by the engine."""
    if stored.kind is StepKind.EVENT and (emitted := await event(session, stored.subject or "", now)) is not None:
        return emitted.payload
    return "null" if stored.until is not None and to_micros(stored.until) <= now else None


async def event(session: StatementRunner, name: str, now: int) -> EmittedEvent | None:
    """Return an event that was emitted and has not expired."""
    rows = await session.rows("event", encode_text(name), now)
    return event_of(decode_row(rows[0])) if rows else None


async def emit(session: StatementRunner, emission: Emission, now: int) -> Emitted:
    """Store an event, unless it was emitted before, and end the waits for it."""
    name = encode_text(emission.name)
    (row,) = await session.rows("lock_event", name, now + LOCK_KEPT)
    if row[2] is not None and row[3] > now:
        return Emitted(event_of(decode_row(row)), is_new=False)
    expires_at = now + span_to_micros(emission.keep)
    await session.run("emit_event", name, encode_text(emission.payload), now, expires_at)
    waiters = [decode_row(one) for one in await session.rows("waiters_of_event", name, MOST_WOKEN + 1)]
    if len(waiters) > MOST_WOKEN:
        await session.run("make_waiters_due", now, name)
        waiters = []
    woken = await _wake(session, [(job_id, key, emission.payload) for job_id, key in waiters], now)
    emitted = EmittedEvent(emission.name, emission.payload, from_micros(now), from_micros(expires_at))
    return Emitted(emitted, is_new=True, queues=woken)


async def emit_recorded(session: Session, emission: Emission, entry: LedgerEntry | None, now: int) -> Emitted:
    """Emit an event, with an entry in the ledger if it is new."""
    emitted = await emit(session, emission, now)
    if entry is not None and emitted.is_new:
        await record(session, [entry], now)
    return emitted


async def end_waits(session: Session, limit: int, now: int) -> Mapping[str, int]:
    """End waits that are due, and return how many jobs of which queue were woken."""
    rows = [decode_row(row) for row in await session.rows("due_waiters", now, limit)]
    return await _wake(session, [(job_id, key, payload or "null") for job_id, key, payload in rows], now)


async def _wake(session: StatementRunner, waits: Sequence[Row], now: int) -> Mapping[str, int]:
    if not waits:
        return {}
    await _end(session, waits, now)
    ids = sorted({job_id for job_id, _, _ in waits})
    await session.rows("lock_jobs", ids)
    queues = Counter(await session.values("wake_jobs", now, AGING_MICROS, ids))
    await session.run("forget_dependencies", ids)
    return dict(queues)


async def _end(session: StatementRunner, waits: Sequence[Row], now: int) -> None:
    """End steps that wait, and delete their waiters."""
    ids, keys, outcomes = zip(*sorted(waits), strict=True)
    encoded = [encode_text(key) for key in keys]
    await session.run("end_waits", now, list(ids), encoded, [encode_text(outcome) for outcome in outcomes])
    await session.run("delete_waiters", list(ids), encoded)


async def still_waiting(session: Session, settlements: Sequence[Settlement]) -> Sequence[Settlement]:
    """Lock the jobs that are to be suspended; those whose wait has ended meanwhile become pending instead."""
    waits = {one.job_id: one.wait for one in settlements if one.wait is not None}
    if not waits:
        return settlements
    if children := [_child_of(wait) for wait in waits.values() if wait.kind is StepKind.CALL]:
        await lock_parents(session, sorted(children))
    ids = sorted(waits)
    await session.rows("lock_jobs", ids)
    still_open = set(await session.values("open_waits", ids, [encode_text(waits[job_id].key) for job_id in ids]))
    return [one if one.wait is None or one.job_id in still_open else one.without_wait() for one in settlements]


async def wait_for_children(session: Session, settlements: Sequence[Settlement], now: int) -> None:
    """Have jobs that were blocked by a call wait for the end of their children; those that have ended unblock them."""
    if waiting := [one.job_id for one in settlements if one.wait is not None]:
        # They have started. They may have been woken, or cancelled and retried, since they last waited for a job.
        await session.run("forget_dependencies", waiting)
    pairs = [
        (_child_of(one.wait), one.job_id)
        for one in settlements
        if one.wait is not None and one.wait.kind is StepKind.CALL
    ]
    if pairs:
        children = [child for child, _ in pairs]
        await session.run("wait_for_children", children, [job_id for _, job_id in pairs], CALL_POSITION)
        await resolve(session, children, now)


def _child_of(wait: Step) -> JobId:
    return JobId(to_number(wait.subject or ""))
