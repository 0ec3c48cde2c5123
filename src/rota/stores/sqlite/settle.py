"""Settle: applying the outcomes of attempts and operators' decisions to jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rota.core.ids import JobId
from rota.core.job_edit import JobChange
from rota.core.lifecycle import TIMED, State
from rota.core.settlement import Reason, Settlement
from rota.stores.rows import change_row, error_text, settlement_row
from rota.stores.sqlite.dependencies import follow_failures, release, stop_jobs
from rota.stores.sqlite.driver import SqliteConnection, run_for_rows
from rota.stores.sqlite.events import still_waiting, wait_for_children
from rota.stores.sqlite.insert import insert_made
from rota.stores.sqlite.statements import statement

#: Looked up once: see rows.py.
_COMPLETED: Final = State.COMPLETED
_RUNNING: Final = State.RUNNING


def settle(connection: SqliteConnection, settlements: Sequence[Settlement], now: int) -> list[bool]:
    """Apply the settlements that still hold, and return for each whether it did."""
    suspended: list[Settlement] = []
    if all(map(_is_plain, settlements)) and _complete_all(connection, settlements, now):
        applied = [True] * len(settlements)
    else:
        settlements = [one if one.wait is None else still_waiting(connection, one) for one in settlements]
        applied = [_settle_one(connection, settlement, now) for settlement in settlements]
        suspended = [one for one, holds in zip(settlements, applied, strict=True) if holds and one.wait is not None]
    ended = [one.job_id for one, holds in zip(settlements, applied, strict=True) if holds and one.is_final]
    cancelled = release(connection, ended, now)
    if suspended:
        # After the ends of their children, which may be settled here too: other jobs may wait for those.
        wait_for_children(connection, suspended, now)
    dead = [one.job_id for one, holds in zip(settlements, applied, strict=True) if one.is_failure and holds]
    if dead or cancelled:
        follow_failures(connection, dead, cancelled, now, insert_made)
    return applied


def _is_plain(settlement: Settlement) -> bool:
    """Whether this is a success without log and follow-up job: nearly all of them are."""
    return (
        settlement.target is _COMPLETED
        and settlement.source is _RUNNING
        and settlement.follow_up is None
        and not settlement.events
        and settlement.log_tail is None
        and settlement.progress is None
    )


def _complete_all(connection: SqliteConnection, settlements: Sequence[Settlement], now: int) -> bool:
    """Settle plain successes with one statement; False, and nothing done, unless all of them hold."""
    rows = [(one.job_id, one.fence, one.result) for one in settlements]
    connection.run("SAVEPOINT completing")
    all_hold = run_for_rows(connection, statement("complete_jobs"), rows, before=(now, now)) == len(rows)
    if not all_hold:
        connection.run("ROLLBACK TO completing")
    connection.run("RELEASE completing")
    return all_hold


def _settle_one(connection: SqliteConnection, settlement: Settlement, now: int) -> bool:
    if not connection.run(
        statement("settle_job"), settlement_row(settlement, _fingerprint(connection, settlement), now)
    ):
        return False
    connection.has_made_work |= settlement.target is State.PENDING
    connection.has_set_times |= settlement.target in TIMED
    if settlement.source is State.RUNNING and not _is_plain(settlement):
        attempt = {
            "id": settlement.job_id,
            "now": now,
            "event": settlement.event.value,
            "error": error_text(settlement.error),
            "log_tail": settlement.log_tail,
            "progress": settlement.progress,
        }
        connection.run(statement("save_attempt"), attempt)
    if settlement.follow_up is not None:
        insert_made(connection, settlement.follow_up, now)
    for job in settlement.events:
        insert_made(connection, job, now)
    return True


def _fingerprint(connection: SqliteConnection, settlement: Settlement) -> str | None:
    """Return the cause of death by which dead jobs are grouped."""
    if settlement.target is not State.DEAD or settlement.error is None:
        return None
    rows = connection.rows(statement("job_type"), (settlement.job_id,))
    return settlement.error.fingerprint(rows[0][0]) if rows else None


def cancel_replaced(connection: SqliteConnection, ids: Sequence[JobId], now: int) -> None:
    """Cancel jobs that others replace: waiting ones at once, running ones by request.

    All of them first: one that waits for another of them is replaced as well, and has not failed.
    """
    cancelled = stop_jobs(connection, ids, Reason.REPLACED, now)
    follow_failures(connection, (), release(connection, cancelled, now), now, insert_made)


def edit(connection: SqliteConnection, change: JobChange, now: int) -> bool:
    """Change a waiting job that is still as it was read, and return whether it was."""
    if not connection.run(statement("edit_job"), change_row(change, now)):
        return False
    connection.run(statement("delete_job_tags"), (change.job_id,))
    connection.many(statement("insert_tag"), [(tag, change.job_id) for tag in dict.fromkeys(change.tags)])
    connection.has_made_work |= change.target is State.PENDING
    connection.has_set_times |= change.target in TIMED
    return True
