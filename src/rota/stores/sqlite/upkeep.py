"""Upkeep: promoting due jobs, finding lapsed leases and expired jobs, and deleting what is past its retention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta

from rota.core.ids import JobId, compose
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.time import span_to_micros
from rota.ports.store import Retention, Timetable
from rota.stores.base.retention import ends_before
from rota.stores.rows import ids_text, job_of, timetable_of
from rota.stores.sqlite import breakers
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.statements import statement
from rota.stores.sqlite.workflows import delete_empty, keep_ends

#: A claim is not repeated after this long: its leases have lapsed.
CLAIM_RETENTION = timedelta(hours=1)
_DELETE_WITH_JOBS = (
    "delete_attempts_of_jobs",
    "delete_steps_of_jobs",
    "delete_waiters_of_jobs",
    "delete_tags_of_jobs",
    "delete_keys_of_jobs",
)


def promote(connection: SqliteConnection, limit: int, now: int) -> Mapping[str, int]:
    """Make due jobs pending; return how many in which queue."""
    rows = connection.rows(statement("promote_due_jobs"), {"now": now, "limit": limit})
    connection.has_made_work |= bool(rows)
    return dict(Counter(queue for (queue,) in rows))


def timetable(connection: SqliteConnection, now: int) -> Timetable:
    """Return when each kind of upkeep is needed next."""
    return timetable_of((now, *connection.rows(statement("next_upkeep_times"))[0]))


def lost(connection: SqliteConnection, limit: int, now: int) -> list[Job]:
    """Return running jobs whose lease has lapsed."""
    return [job_of(row) for row in connection.rows(statement("lapsed_leases"), (now, limit))]


def expired(connection: SqliteConnection, limit: int, now: int) -> list[Job]:
    """Return jobs that were not started in time."""
    return [job_of(row) for row in connection.rows(statement("expired_jobs"), (now, limit))]


def prune(connection: SqliteConnection, retention: Retention, limit: int, now: int) -> int:
    """Delete finished jobs past their retention, and old history."""
    count = 0
    for state, before in ends_before(retention, now):
        if count < limit:
            count += _prune_state(connection, state, before, limit - count, now)
    _delete_history(connection, retention, limit, now)
    return count


def _prune_state(connection: SqliteConnection, state: State, before: int, limit: int, now: int) -> int:
    parameters = {"state": state.value, "before": before, "limit": limit, "now": now}
    ids = [job_id for (job_id,) in connection.rows(statement("prunable_jobs"), parameters)]
    return _delete(connection, state, ids)


def discard(connection: SqliteConnection, ids: Sequence[JobId], now: int) -> list[JobId]:
    """Delete dead and cancelled jobs by id, and return those that were deleted."""
    rows = connection.rows(statement("discardable_jobs"), {"ids": ids_text(ids), "now": now})
    for state in (State.DEAD, State.CANCELLED):
        _delete(connection, state, [job_id for job_id, its_state in rows if its_state == state.value])
    return [job_id for job_id, _ in rows]


def _delete(connection: SqliteConnection, state: State, ids: Sequence[JobId]) -> int:
    """Delete finished jobs of one state with all their rows, and count them."""
    if not ids:
        return 0
    text = ids_text(ids)
    emptied = keep_ends(connection, ids)
    for name in _DELETE_WITH_JOBS:
        connection.run(statement(name), (text,))
    connection.run(statement("delete_dependencies_of_jobs"), {"ids": text})
    count = connection.run(statement("delete_finished_jobs"), (text,))
    connection.run(statement("add_to_pruned_count"), (state.value, count))
    delete_empty(connection, emptied)
    return count


def _delete_history(connection: SqliteConnection, retention: Retention, limit: int, now: int) -> None:
    connection.run(statement("delete_old_claims"), {"before": now - span_to_micros(CLAIM_RETENTION), "limit": limit})
    connection.run(statement("delete_old_keys"), {"before": now, "limit": limit})
    connection.run(statement("delete_old_events"), {"before": now, "limit": limit})
    connection.run(statement("delete_old_arrivals"), {"before": now})
    breakers.delete_old(connection, now)
    if retention.history is None:
        return
    before = now - span_to_micros(retention.history)
    connection.run(statement("delete_old_occurrences"), {"before": before, "limit": limit})
    connection.run(statement("delete_old_ledger_entries"), {"before": before, "limit": limit})
    connection.run(statement("delete_old_members"), {"before": before})
    connection.run(statement("delete_old_operations"), {"below": compose(before // 1000, 0), "limit": limit})
