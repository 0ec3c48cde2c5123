"""What time does to jobs: they become due, and after their end they are forgotten."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from rota.core.identity import JobId
from rota.core.instant import span_to_micros
from rota.core.lifecycle import TIMED, State
from rota.ports.store import Retention, Timetable
from rota.stores.mysql.clock import ServerClock
from rota.stores.mysql.driver import Connection, lists
from rota.stores.mysql.places import Standing, lock, shift
from rota.stores.mysql.statements import statement
from rota.stores.rows import timetable_of

#: Nobody repeats a claim after this long: its leases are gone.
CLAIM_MEMORY: Final = timedelta(hours=1)
#: A writer that has made no work for so long rings as if for the first time.
BELL_MEMORY: Final = timedelta(days=1)
_BELONGINGS: Final = (
    "drop_attempts",
    "drop_steps",
    "drop_tags",
    "drop_fired",
    "drop_keys",
    "drop_waits",
    "drop_dependencies",
    "drop_jobs",
)


async def promote(connection: Connection, limit: int, now: int) -> Mapping[str, int]:
    """Make jobs whose time has come pending; say how many in which queue. Others may be doing the same."""
    ids = [job_id for (job_id,) in await connection.rows(statement("due_jobs"), {"now": now, "limit": limit})]
    found = (await lock(connection, ids, "lock_free_jobs")).values()
    due_now = [one for one in found if one.state in TIMED and one.run_at <= now]
    for some in lists([one.id for one in due_now]):
        await connection.run(statement("promote"), {"ids": some, "now": now})
    await shift(connection, due_now, [replace(one, state=State.PENDING) for one in due_now])
    return dict(Counter(one.queue for one in due_now))


async def timetable(connection: Connection, clock: ServerClock) -> Timetable:
    """Give the server's time, and when upkeep of each kind is needed next."""
    return timetable_of(await clock.ask(connection, statement("timetable")))


async def has_past(connection: Connection, clock: ServerClock, retention: Retention, now: int | None) -> bool:
    """Say whether anything may be past its time. It may have to stay all the same."""
    told, *oldest = await clock.ask(connection, statement("past_time"))
    moment = told if now is None else now
    kept = (
        retention.completed, retention.cancelled, retention.dead, CLAIM_MEMORY, BELL_MEMORY, timedelta(0),
        retention.history, retention.history, retention.history,
    )  # fmt: skip
    return any(
        at is not None and span is not None and at <= moment - span_to_micros(span)
        for at, span in zip(oldest, kept, strict=True)
    )


async def prune(connection: Connection, retention: Retention, limit: int, now: int) -> int:
    """Delete finished jobs past their time, and old history."""
    count = 0
    for state, kept in (
        (State.COMPLETED, retention.completed),
        (State.CANCELLED, retention.cancelled),
        (State.DEAD, retention.dead),
    ):
        if kept is not None and count < limit:
            before = now - span_to_micros(kept)
            parameters = {"state": state.value, "before": before, "limit": limit - count, "now": now}
            ids = [job_id for (job_id,) in await connection.rows(statement("finished_before"), parameters)]
            count += len(await _delete(connection, ids, {state}, now))
    await _forget(connection, retention, limit, now)
    return count


async def discard(connection: Connection, ids: Sequence[JobId], now: int) -> list[JobId]:
    """Delete dead and cancelled jobs by id, and give those that were."""
    found: list[JobId] = []
    for some in lists(sorted(set(ids))):
        found += [job_id for (job_id,) in await connection.rows(statement("discardable"), {"ids": some})]
    return await _delete(connection, found, {State.DEAD, State.CANCELLED}, now)


async def _delete(connection: Connection, ids: Sequence[JobId], states: set[State], now: int) -> list[JobId]:
    """Delete finished jobs with all that belongs to them, unless somebody needs them; give those deleted."""
    locked = await lock(connection, ids, "lock_free_jobs")
    # Asked again under the lock: since we looked, somebody may have begun to wait for one, or retried it.
    deleted: list[Standing] = []
    for some in lists(sorted(one.id for one in locked.values() if one.state in states)):
        rows = await connection.rows(statement("dispensable"), {"ids": some, "now": now})
        deleted += [locked[job_id] for (job_id,) in rows]
    for some in lists([one.id for one in deleted]):
        for belonging in _BELONGINGS:
            await connection.run(statement(belonging), {"keys": json.dumps(some)})
    await shift(connection, deleted, ())
    for state, count in sorted(Counter(one.state.value for one in deleted).items()):
        await connection.run(statement("count_pruned"), {"state": state, "count": count})
    return [one.id for one in deleted]


async def _forget(connection: Connection, retention: Retention, limit: int, now: int) -> None:
    claims = {"before": now - span_to_micros(CLAIM_MEMORY), "limit": limit}
    await connection.run(statement("forget_claims"), claims)
    await connection.run(statement("forget_bells"), {"before": now - span_to_micros(BELL_MEMORY)})
    keys = await connection.rows(statement("forgettable_keys"), {"before": now, "limit": limit})
    if keys:
        await connection.many(statement("forget_keys"), [(*key, now) for key in sorted(keys)])
    if retention.history is None:
        return
    parameters = {"before": now - span_to_micros(retention.history), "limit": limit}
    await connection.run(statement("forget_occurrences"), parameters)
    last = await connection.rows(statement("last_entry"))
    if last:
        await connection.run(statement("forget_ledger"), {**parameters, "last": last[0][0]})
    await connection.run(statement("forget_members"), parameters)
