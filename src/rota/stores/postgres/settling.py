"""Writing back what became of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from asyncpg.exceptions import UniqueViolationError

from rota.core.identity import JobId
from rota.core.job import AGING_MICROS
from rota.core.lifecycle import FINISHED, WAITING, State
from rota.core.settlement import Reason, Settlement
from rota.stores.postgres.numbers import numbers
from rota.stores.postgres.releasing import release, withdraw
from rota.stores.postgres.session import Session
from rota.stores.postgres.submitting import insert_made
from rota.stores.rounds import rounds
from rota.stores.rows import Row, error_text, micros
from rota.stores.texts import writable

#: Looked up once: see rows.py.
_COMPLETED: Final = State.COMPLETED
_RUNNING: Final = State.RUNNING


def is_plain(settlement: Settlement) -> bool:
    """Whether this is the success of a job that asked for nothing further: nearly all of them are."""
    return (
        settlement.target is _COMPLETED
        and settlement.source is _RUNNING
        and settlement.follow_up is None
        and settlement.log_tail is None
    )


async def complete(session: Session, settlements: Sequence[Settlement], now: int | None) -> list[bool]:
    """Settle plain successes of different jobs with one statement, and say of each whether that was enough."""
    ordered = sorted(settlements, key=_job_id)
    ids, fences = numbers(one.job_id for one in ordered), numbers(one.fence for one in ordered)
    try:
        completed = set(await session.values("complete", now, ids, fences, [one.result for one in ordered]))
    except UniqueViolationError:
        # One of them has already ended under this id. The careful way finds out which; this one spares the question.
        return [False] * len(settlements)
    if len(completed) == len(settlements):
        return [True] * len(settlements)
    return [one.job_id in completed for one in settlements]


async def settle(session: Session, settlements: Sequence[Settlement], now: int) -> list[bool]:
    """Apply the settlements that still hold, and say of each whether it did."""
    applied = [False] * len(settlements)
    for places in rounds(settlements, key=_job_id):
        held = await _settle_different(session, [settlements[place] for place in places], now)
        for place in places:
            applied[place] = settlements[place].job_id in held
    return applied


def _job_id(settlement: Settlement) -> JobId:
    return settlement.job_id


async def _settle_different(session: Session, settlements: Sequence[Settlement], now: int) -> set[JobId]:
    """Settle jobs none of which comes twice, and give those whose settlement holds."""
    types = await _types_of_the_dead(session, settlements)
    held: set[JobId] = set()
    for verb, group in (
        ("settle_again", [one for one in settlements if one.source in FINISHED]),
        ("settle_end", [one for one in settlements if one.source not in FINISHED and one.is_final]),
        ("settle_back", [one for one in settlements if one.source not in FINISHED and not one.is_final]),
    ):
        if group:
            # In the order of their ids, so that two who settle the same wait for each other and not in a ring.
            rows = [_row(one, types) for one in sorted(group, key=_job_id)]
            held.update(await session.values(verb, now, AGING_MICROS, *map(list, zip(*rows, strict=True))))
    applied = [one for one in settlements if one.job_id in held]
    await insert_made(session, [one.follow_up for one in applied if one.follow_up is not None], now)
    await release(session, [one.job_id for one in applied if one.is_final], now)
    return held


async def _types_of_the_dead(session: Session, settlements: Sequence[Settlement]) -> dict[JobId, str]:
    ids = sorted(one.job_id for one in settlements if one.target is State.DEAD and one.error is not None)
    return dict(await session.rows("types", ids)) if ids else {}


def _row(settlement: Settlement, types: dict[JobId, str]) -> Row:
    """Write a settlement, in the order of settle_back.sql and its like."""
    fingerprint = None
    if settlement.job_id in types and settlement.error is not None:
        # The cause of a death, so that dead letters can be grouped.
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
        settlement.if_lapsed,
        settlement.result,
        error_text(settlement.error),
        None if settlement.reason is None else settlement.reason.value,
        fingerprint,
        writable(settlement.log_tail),
        settlement.source is State.RUNNING and not is_plain(settlement),
    )


async def replace(session: Session, ids: Iterable[JobId], now: int) -> None:
    """Cancel jobs that were replaced, or ask them to stop where they run."""
    wanted = sorted(ids)
    if wanted:
        await session.run("ask_stop", now, wanted)
        await release(session, await withdraw(session, wanted, WAITING, Reason.REPLACED, now), now)
