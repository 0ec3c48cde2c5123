"""Keys of unique, throttled and debounced jobs, in the table of idempotency keys."""

from __future__ import annotations

from rota.core.ids import JobId
from rota.core.job import turn_at
from rota.core.lifecycle import State
from rota.core.submission import NewJob
from rota.core.time import from_micros, span_to_micros
from rota.core.unique_keys import KeyDecision, KeyHolder, UniqueKey, decide
from rota.ports.store import Inserted
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.statements import statement
from rota.stores.unique_keys import receipt_of, replaced_times


def repeated(connection: SqliteConnection, job: NewJob, key: UniqueKey, now: int) -> Inserted | None:
    """Answer a submission whose key an earlier job has; None if no job of this key counts."""
    rows = connection.rows(statement("key_holder"), key.name_for(job.type, job.queue))
    if not rows:
        return None
    job_id, state, fence, created_at, priority = rows[0]
    holder = KeyHolder(job_id, State(state), fence, from_micros(created_at))
    decision = decide(key, holder, from_micros(now))
    if decision is KeyDecision.FREE:
        return None
    if decision is KeyDecision.REPLACE:
        _replace(connection, job, key, holder, priority, now)
    return Inserted(job_id, receipt_of(job, key, holder), holder.state)


def take_key(connection: SqliteConnection, job: NewJob, key: UniqueKey, job_id: JobId, now: int) -> None:
    """Record that a new job has a key."""
    until = now + span_to_micros(key.keep)
    connection.run(statement("save_key"), (*key.name_for(job.type, job.queue), b"", job_id, until))


def _replace(
    connection: SqliteConnection, job: NewJob, key: UniqueKey, holder: KeyHolder, priority: int, now: int
) -> None:
    """Give a waiting job the payload of a later submission, and let it wait anew."""
    connection.run(statement("replace_payload"), (job.payload, now, holder.job_id))
    if holder.state is State.SCHEDULED:
        run_at, expires_at = replaced_times(job, key, holder)
        times = (run_at, turn_at(run_at, priority), expires_at, holder.job_id)
        connection.run(statement("replace_times"), times)
        connection.has_set_times = True
