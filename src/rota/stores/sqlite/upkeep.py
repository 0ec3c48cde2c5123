"""What time does to jobs: they become due, and after their end they are forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta

from rota.core.identity import JobId
from rota.core.instant import span_to_micros
from rota.core.lifecycle import State
from rota.ports.store import Retention, Timetable
from rota.stores.rows import ids_text, timetable_of
from rota.stores.sqlite.driver import Connection
from rota.stores.sqlite.statements import statement

#: Nobody repeats a claim after this long: its leases are gone.
CLAIM_MEMORY = timedelta(hours=1)
_BELONGINGS = ("drop_attempts", "drop_steps", "drop_tags", "drop_keys")


def promote(connection: Connection, limit: int, now: int) -> Mapping[str, int]:
    """Make jobs whose time has come pending; say how many in which queue."""
    rows = connection.rows(statement("promote"), {"now": now, "limit": limit})
    connection.has_made_work |= bool(rows)
    return dict(Counter(queue for (queue,) in rows))


def timetable(connection: Connection, now: int) -> Timetable:
    """Say when upkeep is needed next."""
    return timetable_of((now, *connection.rows(statement("timetable"))[0]))


def prune(connection: Connection, retention: Retention, limit: int, now: int) -> int:
    """Delete finished jobs past their time, and old history."""
    count = 0
    for state, kept in (
        (State.COMPLETED, retention.completed),
        (State.CANCELLED, retention.cancelled),
        (State.DEAD, retention.dead),
    ):
        if kept is not None and count < limit:
            count += _prune_state(connection, state, now - span_to_micros(kept), limit - count, now)
    _forget(connection, retention, limit, now)
    return count


def _prune_state(connection: Connection, state: State, before: int, limit: int, now: int) -> int:
    parameters = {"state": state.value, "before": before, "limit": limit, "now": now}
    ids = [job_id for (job_id,) in connection.rows(statement("finished_before"), parameters)]
    return _delete(connection, state, ids)


def discard(connection: Connection, ids: Sequence[JobId], now: int) -> list[JobId]:
    """Delete dead and cancelled jobs by id, and give those that were."""
    found = connection.rows(statement("discardable"), {"ids": ids_text(ids), "now": now})
    for state in (State.DEAD, State.CANCELLED):
        _delete(connection, state, [job_id for job_id, its_state in found if its_state == state.value])
    return [job_id for job_id, _ in found]


def _delete(connection: Connection, state: State, ids: Sequence[JobId]) -> int:
    """Delete finished jobs of one state with all that belongs to them, and count them."""
    if not ids:
        return 0
    text = ids_text(ids)
    for belonging in _BELONGINGS:
        connection.run(statement(belonging), (text,))
    connection.run(statement("drop_dependencies"), {"ids": text})
    count = connection.run(statement("drop_jobs"), (text,))
    connection.run(statement("count_pruned"), (state.value, count))
    return count


def _forget(connection: Connection, retention: Retention, limit: int, now: int) -> None:
    connection.run(statement("forget_claims"), {"before": now - span_to_micros(CLAIM_MEMORY), "limit": limit})
    connection.run(statement("forget_keys"), {"before": now, "limit": limit})
    if retention.history is None:
        return
    before = now - span_to_micros(retention.history)
    connection.run(statement("forget_occurrences"), {"before": before, "limit": limit})
    connection.run(statement("forget_ledger"), {"before": before, "limit": limit})
    connection.run(statement("forget_members"), {"before": before})
