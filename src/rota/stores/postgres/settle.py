"""Settlements: writes the outcomes of attempts; and requests to cancel running jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from asyncpg.exceptions import UniqueViolationError

from rota.core.ids import JobId
from rota.core.job import AGING_MICROS
from rota.core.job_edit import JobChange
from rota.core.lifecycle import FINISHED, State
from rota.core.settlement import Reason, Settlement
from rota.stores.postgres.dependencies import follow_failures, resolve, stop_jobs
from rota.stores.postgres.events import still_waiting, wait_for_children
from rota.stores.postgres.insert import insert_made
from rota.stores.postgres.session import Session, numbers
from rota.stores.rows import Row, change_row, error_text, micros
from rota.stores.text_codec import encode_text
from rota.stores.unique_batches import unique_batches

#: Looked up once, which is faster; see rows.py.
_COMPLETED: Final = State.COMPLETED
_RUNNING: Final = State.RUNNING


def is_plain(settlement: Settlement) -> bool:
    """Whether this is a success without log and follow-up job: nearly all of them are."""
    return (
        settlement.target is _COMPLETED
        and settlement.source is _RUNNING
        and settlement.follow_up is None
        and not settlement.events
        and settlement.log_tail is None
        and settlement.progress is None
    )


async def complete(session: Session, settlements: Sequence[Settlement], now: int | None) -> list[bool]:
    """Settle plain successes of different jobs with one statement, and return of each whether that was enough."""
    ordered = sorted(settlements, key=_job_id)
    ids, fences = numbers(one.job_id for one in ordered), numbers(one.fence for one in ordered)
    try:
        completed = set(await session.values("complete_jobs", now, ids, fences, [one.result for one in ordered]))
    except UniqueViolationError:
        # One of them has already ended under this id; `settle` finds out which.
        return [False] * len(settlements)
    if len(completed) == len(settlements):
        return [True] * len(settlements)
    return [one.job_id in completed for one in settlements]


async def settle(session: Session, settlements: Sequence[Settlement], now: int) -> list[bool]:
    """Apply the settlements whose fence still holds, and return of each whether it did."""
    applied = [False] * len(settlements)
    for places in unique_batches(settlements, key=_job_id):
        held = await _settle_different(session, [settlements[place] for place in places], now)
        for place in places:
            applied[place] = settlements[place].job_id in held
    return applied


def _job_id(settlement: Settlement) -> JobId:
    return settlement.job_id


async def _settle_different(session: Session, settlements: Sequence[Settlement], now: int) -> set[JobId]:
    """Settle jobs none of which comes twice, and return those whose settlement holds."""
    settlements = await still_waiting(session, settlements)
    types = await _types_of_the_dead(session, settlements)
    held: set[JobId] = set()
    for verb, group in (
        ("settle_finished", [one for one in settlements if one.source in FINISHED]),
        ("settle_to_finished", [one for one in settlements if one.source not in FINISHED and one.is_final]),
        ("settle_to_waiting", [one for one in settlements if one.source not in FINISHED and not one.is_final]),
    ):
        if group:
            # In the order of their ids, against deadlocks.
            rows = [_row(one, types) for one in sorted(group, key=_job_id)]
            held.update(await session.values(verb, now, AGING_MICROS, *map(list, zip(*rows, strict=True))))
    applied = [one for one in settlements if one.job_id in held]
    made = [one.follow_up for one in applied if one.follow_up is not None]
    await insert_made(session, [*made, *(job for one in applied for job in one.events)], now)
    ends = {
        one.job_id: (one.target.value, None if one.reason is None else one.reason.value)
        for one in applied
        if one.is_final
    }
    cancelled = await resolve(session, ends, now, ends=ends)
    await wait_for_children(session, applied, now)
    dead = [one.job_id for one in applied if one.is_failure]
    if dead or cancelled:
        await follow_failures(session, dead, cancelled, now, insert_made)
    return held


async def _types_of_the_dead(session: Session, settlements: Sequence[Settlement]) -> dict[JobId, str]:
    ids = sorted(one.job_id for one in settlements if one.target is State.DEAD and one.error is not None)
    return dict(await session.rows("job_types", ids)) if ids else {}


def _row(settlement: Settlement, types: dict[JobId, str]) -> Row:
    """Return the parameters of a settlement, in the order of settle_to_waiting and its like."""
    fingerprint = None
    if settlement.job_id in types and settlement.error is not None:
        # The cause of death, by which dead jobs are grouped.
        fingerprint = settlement.error.fingerprint(types[settlement.job_id])
    return (
        settlement.job_id,
        settlement.fence,
        settlement.source.value,
        settlement.target.value,
        settlement.event.value,
        micros(settlement.run_at),
        settlement.refund,
        settlement.crash,
        settlement.renew,
        micros(settlement.lapsed_at),
        settlement.result,
        error_text(settlement.error),
        None if settlement.reason is None else settlement.reason.value,
        fingerprint,
        encode_text(settlement.log_tail),
        encode_text(settlement.progress),
        settlement.source is State.RUNNING and not is_plain(settlement),
    )


async def replace_jobs(session: Session, ids: Iterable[JobId], now: int) -> None:
    """Cancel jobs that a later occurrence replaces; running ones are requested to stop."""
    ended = await stop_jobs(session, ids, Reason.REPLACED, now)
    await follow_failures(session, (), await resolve(session, ended, now), now, insert_made)


async def ask_cancel(session: Session, leases: Sequence[tuple[JobId, int]], now: int) -> list[JobId]:
    """Request running jobs to stop, and return those whose fence still holds."""
    ordered = sorted(leases)
    rows = await session.rows("request_cancel", now, [job_id for job_id, _ in ordered], [fence for _, fence in ordered])
    marked = {(job_id, fence) for job_id, fence in rows}
    return [lease[0] for lease in leases if lease in marked]


async def edit(session: Session, change: JobChange, now: int) -> bool:
    """Change a waiting job that is still as it was read, and return whether it was."""
    if not await session.run("edit_job", *change_row(change, now).values()):
        return False
    await session.run("delete_job_tags", change.job_id)
    if change.tags:
        await session.run("insert_tags", list(change.tags), [change.job_id] * len(change.tags))
    return True
