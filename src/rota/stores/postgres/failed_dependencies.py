"""Failed dependencies: what follows when jobs have failed, in the same transaction.

Jobs that were cancelled because a dependency failed have their `on_failure` job made, as dead jobs have. If a workflow
is to fail fast, its other jobs are cancelled. Both may make further jobs fail, so it goes on until none does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any

from rota.core.ids import JobId
from rota.core.lifecycle import WAITING
from rota.core.settlement import Reason
from rota.core.submission import NewJob
from rota.stores.base.workflows import failure_follow_ups
from rota.stores.postgres.dependencies import cancel_waiting, resolve
from rota.stores.postgres.statements import StatementRunner

#: Stores jobs that Rota itself makes.
InsertMade = Callable[[StatementRunner, Sequence[NewJob], int], Coroutine[Any, Any, list[JobId]]]


async def follow_failures(
    session: StatementRunner,
    dead: Collection[JobId],
    cancelled: Sequence[JobId],
    now: int,
    insert_made: InsertMade,
) -> None:
    """Carry out what follows from failures: of jobs that were settled so, and of jobs whose dependencies failed."""
    failed = [*dead, *cancelled]
    while failed:
        if cancelled:
            rows = await session.rows("failure_templates", sorted(cancelled))
            await insert_made(session, failure_follow_ups(rows, now), now)
        others = await session.values("jobs_that_fail_fast", sorted(failed))
        ended = await stop_jobs(session, others, Reason.WORKFLOW_FAILED, now)
        cancelled = failed = await resolve(session, ended, now)


async def stop_jobs(session: StatementRunner, ids: Iterable[JobId], reason: Reason, now: int) -> list[JobId]:
    """Cancel jobs that wait, and request those that run to stop; return those that were cancelled.

    A job may be claimed, or be taken from its worker, between the two statements; hence the last one.
    """
    ordered = sorted(ids)
    if not ordered:
        return []
    cancelled = await cancel_waiting(session, ordered, WAITING, reason, now)
    left = sorted(set(ordered).difference(cancelled))
    if left:
        await session.run("request_cancel_any_fence", now, left)
        cancelled += await cancel_waiting(session, left, WAITING, reason, now)
    return cancelled
