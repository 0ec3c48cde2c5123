"""Writing back what became of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Final

from rota.core.identity import JobId
from rota.core.instant import to_micros
from rota.core.job import turn_at
from rota.core.lifecycle import WAITING, State
from rota.core.settlement import Settlement
from rota.stores.mysql.driver import Connection, lists
from rota.stores.mysql.flight import FEWEST_TO_CARRY
from rota.stores.mysql.lent import Ends
from rota.stores.mysql.places import Standing, leave, lock, own, shift
from rota.stores.mysql.releasing import release
from rota.stores.mysql.statements import statement
from rota.stores.mysql.submitting import insert_made
from rota.stores.rounds import rounds
from rota.stores.rows import Row, error_text

#: With more different kinds than this, and few of each, jobs are written one by one.
_MOST_ALIKE: Final = 4
_COMMON: Final = ("result", "fence", "cancel_requested_at", "worker", "boot", "started_at")
_ID: Final = attrgetter("job_id")
#: What tells a plain success, of a job that asked for nothing further.
_KIND: Final = attrgetter("target", "source", "follow_up", "log_tail")
_PLAIN: Final = (State.COMPLETED, State.RUNNING, None, None)


async def settle(connection: Connection, settlements: Sequence[Settlement], now: int) -> list[bool]:
    """Apply the settlements that still hold, and say of each whether it did."""
    if are_plain(settlements):
        ended = await _complete(connection, settlements, now)
        applied = [one.job_id in ended for one in settlements]
    else:
        applied, ended = await _settle_in_rounds(connection, settlements, now)
    in_order = sorted(ended)
    if await _are_awaited(connection, in_order):
        await release(connection, in_order, now)
    return applied


async def settle_known(
    connection: Connection, settlements: Sequence[Settlement], alike: Ends | None, now: int
) -> list[bool]:
    """Apply settlements; with the commit, and without asking anything, if they are said to have so much in common.

    If it is not as it was said, or somebody waits for one of the jobs, the commit fails with `Unmet`.
    """
    if alike is None or not connection.is_mariadb:
        return await settle(connection, settlements, now)
    if connection.has_rested:
        # Or the first to be asked is the commit, and if the server has hung up, nobody knows what became of it.
        await connection.run("DO 0")
    in_order = sorted(map(_ID, settlements))
    _finish(connection, in_order, now)
    for some in lists(in_order):
        connection.defer(statement("take_leases"), {"ids": some, "fence": settlements[0].fence})
        connection.defer(statement("are_stored"), {"count": len(some)})
    _complete_alike(connection, alike, now)
    # Now that we keep them: who is about to wait for them waits for us, and finds them ended.
    connection.defer(statement("are_unawaited"), {"first": in_order[0], "last": in_order[-1]})
    return [True] * len(settlements)


def are_plain(settlements: Sequence[Settlement]) -> bool:
    """Whether these are successes of as many jobs that asked for nothing further: nearly all batches are."""
    return len(set(map(_ID, settlements))) == len(settlements) and all(map(_PLAIN.__eq__, map(_KIND, settlements)))


async def _settle_in_rounds(
    connection: Connection, settlements: Sequence[Settlement], now: int
) -> tuple[list[bool], set[JobId]]:
    """Apply the settlements that still hold; say of each whether it did, and which jobs have ended."""
    applied = [False] * len(settlements)
    # A job that is settled twice in one batch is settled in two rounds: the second sees what the first has done.
    for places in rounds(settlements, lambda settlement: settlement.job_id):
        some = [settlements[place] for place in places]
        for place, holds in zip(places, await _settle_round(connection, some, now), strict=True):
            applied[place] = holds
    return applied, {one.job_id for one, holds in zip(settlements, applied, strict=True) if holds and one.is_final}


async def _are_awaited(connection: Connection, ended: Sequence[JobId]) -> bool:
    """Whether anybody waits for one of these jobs, which we keep locked.

    Hardly any job is waited for, and mostly none anywhere between them: one look tells.
    """
    if not ended or not await connection.rows(statement("have_waiters"), {"first": ended[0], "last": ended[-1]}):
        return False
    for some in lists(ended):
        if await connection.rows(f"{statement('waiters')} LIMIT 1", {"ids": some}):
            return True
    return False


async def _settle_round(connection: Connection, settlements: Sequence[Settlement], now: int) -> list[bool]:
    plain = [one for one in settlements if _KIND(one) == _PLAIN]
    applied = await _complete(connection, plain, now)
    other = [one for one in settlements if _KIND(one) != _PLAIN]
    if other:
        applied |= await _settle_other(connection, other, now)
    return [one.job_id in applied for one in settlements]


async def _complete(connection: Connection, settlements: Sequence[Settlement], now: int) -> set[JobId]:
    """Settle plain successes: one statement for all that have everything in common, or one for each."""
    results = {one.job_id: one for one in settlements}
    ids: list[JobId] = []
    alike: Ends = {}
    expiring: list[Row] = []
    for some in lists(sorted(results)):
        for row in await connection.rows(statement("hold_leases"), {"ids": some}):
            job_id = row[0]
            one = results[job_id]
            if one.fence == row[1]:
                ids.append(job_id)
                alike.setdefault((one.result, *row[1:6]), []).append(job_id)
                if row[6] is not None:
                    expiring.append((row[6], job_id))
    if not ids:
        return set()
    if len(alike) > max(_MOST_ALIKE, len(ids) // 50):
        rows = [(now, now, *common, job_id) for common, some in alike.items() for job_id in some]
        await connection.each(statement("complete_each"), sorted(rows, key=lambda row: row[-1]))
    else:
        _complete_alike(connection, alike, now)
    _finish(connection, ids, now)
    leave(connection, "lease", ids)
    leave(connection, "expiry", expiring)
    return set(ids)


def _complete_alike(connection: Connection, alike: Ends, now: int) -> None:
    """Settle plain successes, those together that have everything in common."""
    for common, ids in alike.items():
        parameters = {"now": now, **dict(zip(_COMMON, common, strict=True))}
        for some in lists(ids):
            connection.defer(statement("complete"), {**parameters, "ids": some})


def _finish(connection: Connection, ids: Sequence[JobId], now: int) -> None:
    """Let jobs that ended in plain success stand among those that have ended."""
    if connection.can_fly and len(ids) >= FEWEST_TO_CARRY:
        connection.carry(statement("carry_finished"), (ids,), (now,))
    else:
        connection.defer_rows(statement("finish"), [(now, job_id) for job_id in ids])


async def _settle_other(connection: Connection, settlements: Sequence[Settlement], now: int) -> set[JobId]:
    running = [one.job_id for one in settlements if one.source is State.RUNNING]
    waiting = [one.job_id for one in settlements if one.source is not State.RUNNING]
    standings = await lock(connection, running, "lock_leases")
    standings |= await lock(connection, waiting)
    holding = [one for one in settlements if _holds(one, standings.get(one.job_id), now)]
    pending = [standings[one.job_id] for one in holding if one.source is State.PENDING]
    owned = await own(connection, pending)
    holding = [one for one in holding if one.source is not State.PENDING or one.job_id in owned]
    after = [_after(one, standings[one.job_id], now) for one in holding]
    await _write(connection, holding, standings, after, now)
    await shift(connection, [standings[one.job_id] for one in holding], after)
    for one in holding:
        if one.follow_up is not None:
            await insert_made(connection, [one.follow_up], now)
    return {one.job_id for one in holding}


def _holds(settlement: Settlement, standing: Standing | None, now: int) -> bool:
    """Whether a job is still where and whose it was. One that was asked to stop may end, but not run again."""
    if standing is None or standing.state is not settlement.source or standing.fence != settlement.fence:
        return False
    if standing.state is State.RUNNING and standing.cancel_requested_at is not None and not settlement.is_final:
        return False
    return not settlement.if_lapsed or (standing.lease_until is not None and standing.lease_until <= now)


def _after(settlement: Settlement, standing: Standing, now: int) -> Standing:
    """Say how a job stands after its settlement."""
    run_at = standing.run_at if settlement.run_at is None else to_micros(settlement.run_at)
    return replace(
        standing,
        state=settlement.target,
        run_at=run_at,
        turn=standing.turn if settlement.run_at is None else turn_at(run_at, standing.priority),
        expires_at=None if settlement.renew else standing.expires_at,
        finished_at=now if settlement.is_final else None,
        fingerprint=_fingerprint(settlement, standing),
    )


def _fingerprint(settlement: Settlement, standing: Standing) -> str | None:
    """Name the cause of a death, so that dead letters can be grouped."""
    if settlement.target is not State.DEAD or settlement.error is None:
        return None
    return settlement.error.fingerprint(standing.type)


async def _write(
    connection: Connection,
    settlements: Sequence[Settlement],
    standings: dict[JobId, Standing],
    after: Sequence[Standing],
    now: int,
) -> None:
    rows: list[Row] = []
    attempts: list[Row] = []
    for one, then in zip(settlements, after, strict=True):
        before = standings[one.job_id]
        rows.append(_row(one, before, then, now))
        if one.source is State.RUNNING:
            ended = (one.job_id, before.fence, before.worker, before.boot, before.started_at, now)
            attempts.append((*ended, one.event.value, error_text(one.error), one.log_tail))
    if rows:
        await connection.each(statement("settle"), rows)
    if attempts:
        await connection.many(statement("end_attempt"), attempts)


def _row(settlement: Settlement, before: Standing, after: Standing, now: int) -> Row:
    """Write a settlement, in the order of settle.sql."""
    return (
        after.state.value,
        after.run_at,
        after.turn,
        0 if settlement.renew else before.attempts - settlement.refund,
        0 if settlement.renew else before.crashes + settlement.crash,
        None if settlement.renew else before.cancel_requested_at,
        after.expires_at,
        after.finished_at,
        settlement.result,
        error_text(settlement.error),
        None if settlement.reason is None else settlement.reason.value,
        after.fingerprint,
        before.fence,
        before.worker,
        before.boot,
        before.started_at,
        now,
        settlement.job_id,
    )


async def withdraw(connection: Connection, ids: Sequence[JobId], now: int) -> None:
    """Cancel jobs that were replaced, or ask them to stop where they run."""
    for job_id in ids:
        if await connection.run(statement("ask_stop"), {"id": job_id, "now": now}):
            continue
        standing = (await lock(connection, [job_id])).get(job_id)
        if standing is None or standing.state not in WAITING:
            # Claimed or ended since we asked; if it runs now, it is to stop.
            await connection.run(statement("ask_stop"), {"id": job_id, "now": now})
            continue
        if standing.state is State.PENDING and not await own(connection, [standing]):
            await connection.run(statement("ask_stop"), {"id": job_id, "now": now})
            continue
        await connection.run(statement("replace_job"), {"id": job_id, "now": now})
        await shift(connection, [standing], [replace(standing, state=State.CANCELLED, finished_at=now)])
        await release(connection, [job_id], now)
