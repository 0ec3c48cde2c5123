"""Failed dependencies: what follows when jobs have failed, in the same transaction.

Jobs that were cancelled because a dependency failed have their `on_failure` job made, as dead jobs have. If a workflow
is to fail fast, its other jobs are cancelled. Both may make further jobs fail, so it goes on until none does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any

from rota.core.ids import JobId
from rota.core.lifecycle import WAITING, State
from rota.core.settlement import Reason
from rota.core.submission import NewJob
from rota.stores.base.workflows import failure_follow_ups
from rota.stores.mysql.dependencies import resolve_dependents
from rota.stores.mysql.driver import Runner, chunks
from rota.stores.mysql.state_tables import lock_jobs, lock_ready, move_rows
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row

#: Inserts jobs that Rota itself makes.
InsertSystemJobs = Callable[[Runner, Sequence[NewJob], int], Coroutine[Any, Any, list[JobId]]]


async def follow_failures(
    connection: Runner,
    dead: Collection[JobId],
    cancelled: Sequence[JobId],
    now: int,
    insert_system_jobs: InsertSystemJobs,
) -> None:
    """Carry out what follows from failures: of jobs that were settled so, and of jobs whose dependencies failed."""
    failed = [*dead, *cancelled]
    while failed:
        if cancelled:
            rows = await _rows(connection, "failure_templates", cancelled)
            await insert_system_jobs(connection, failure_follow_ups(rows, now), now)
        others = [job_id for (job_id,) in await _rows(connection, "jobs_that_fail_fast", failed)]
        ended = await stop_jobs(connection, others, Reason.WORKFLOW_FAILED, now)
        cancelled = failed = await resolve_dependents(connection, ended, now)


async def _rows(connection: Runner, name: str, ids: Sequence[JobId]) -> list[Row]:
    rows: list[Row] = []
    for chunk in chunks(sorted(ids)):
        rows += await connection.rows(statement(name), {"ids": chunk})
    return rows


async def stop_jobs(connection: Runner, ids: Iterable[JobId], reason: Reason, now: int) -> list[JobId]:
    """Cancel jobs that wait, and ask those that run to stop; return those that were cancelled."""
    ordered = sorted(set(ids))
    if not ordered:
        return []
    waiting = [one for one in (await lock_jobs(connection, ordered)).values() if one.state in WAITING]
    unclaimed = await lock_ready(connection, [one for one in waiting if one.state is State.PENDING])
    stopped = [one for one in waiting if one.state is not State.PENDING or one.id in unclaimed]
    cancelled = [one.id for one in stopped]
    for chunk in chunks(cancelled):
        connection.defer(statement("cancel_dependents"), {"ids": chunk, "reason": reason.value, "now": now})
    await move_rows(connection, stopped, [replace(one, state=State.CANCELLED, finished_at=now) for one in stopped])
    # Those that were claimed meanwhile run now.
    for chunk in chunks(sorted(set(ordered).difference(cancelled))):
        await connection.run(statement("request_cancel_each"), {"keys": json.dumps(chunk), "now": now})
    return cancelled
