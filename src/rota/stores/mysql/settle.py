"""Settlements: writes the outcomes of attempts, and cancels jobs that were replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Final

from rota.core.ids import JobId
from rota.core.job import AGING_MICROS, turn_at
from rota.core.job_edit import JobChange
from rota.core.lifecycle import State
from rota.core.settlement import Reason, Settlement
from rota.core.time import to_micros
from rota.stores.mysql.dependencies import follow_failures, resolve_dependents, stop_jobs
from rota.stores.mysql.driver import MysqlConnection, chunks
from rota.stores.mysql.events import children_of, still_waiting, wait_for_children
from rota.stores.mysql.insert import insert_system_jobs
from rota.stores.mysql.lease_cache import EqualCompletions
from rota.stores.mysql.limits import delete_sequences
from rota.stores.mysql.pipeline import MIN_BULK_ROWS
from rota.stores.mysql.state_tables import Placement, delete_rows, lock_jobs, lock_ready, move_rows
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row, change_row, error_text
from rota.stores.unique_batches import unique_batches

#: With more groups of equal completions than this, and few jobs in each, jobs are written one by one.
_MAX_GROUPS: Final = 4
#: The columns of a group of equal completions.
COMMON: Final = ("result", "fence", "cancel_requested_at", "worker", "boot", "started_at")
_ID: Final = attrgetter("job_id")
#: The fields of a plain success: a completed job without follow-up and log.
_KIND: Final = attrgetter("target", "source", "follow_up", "log_tail", "progress", "events")
_PLAIN: Final = (State.COMPLETED, State.RUNNING, None, None, None, ())


async def settle(connection: MysqlConnection, settlements: Sequence[Settlement], now: int) -> list[bool]:
    """Apply the settlements that still hold, and return for each whether it did."""
    cancelled: list[JobId] = []
    if are_plain(settlements):
        ended = await _complete(connection, settlements, now)
        applied = [one.job_id in ended for one in settlements]
    else:
        applied, ended, cancelled = await _settle_in_batches(connection, settlements, now)
    in_order = sorted(ended)
    if await _have_dependents(connection, in_order):
        cancelled += await resolve_dependents(connection, in_order, now)
    dead = [one.job_id for one, holds in zip(settlements, applied, strict=True) if one.is_failure and holds]
    if dead or cancelled:
        await follow_failures(connection, dead, cancelled, now, insert_system_jobs)
    return applied


async def settle_cached(
    connection: MysqlConnection,
    settlements: Sequence[Settlement],
    groups: EqualCompletions | None,
    keyed: Sequence[Row],
    now: int,
) -> list[bool]:
    """Apply settlements; given groups from the lease cache, in one script with the commit and without any query.

    `keyed` are those jobs that have a concurrency key: pairs of key and job.
    If the cache was wrong, or a job depends on one of these jobs, the commit fails with `ConditionFailed`.
    """
    if groups is None or not connection.is_mariadb:
        return await settle(connection, settlements, now)
    if connection.is_idle:
        # Otherwise the commit is the first statement, and if the server has hung up, its outcome would be unknown.
        await connection.run("DO 0")
    in_order = sorted(map(_ID, settlements))
    _insert_completed(connection, in_order, now)
    for chunk in chunks(in_order):
        connection.defer(statement("delete_unchanged_leases"), {"ids": chunk, "fence": settlements[0].fence})
        connection.defer(statement("require_row_count"), {"count": len(chunk)})
    for some in chunks(keyed):
        delete_sequences(connection, some)
        connection.defer(statement("require_row_count"), {"count": len(some)})
    _complete_groups(connection, groups, now)
    # Under our locks: a transaction that adds a dependency on these jobs waits for us, and finds them ended.
    connection.defer(statement("require_no_dependents"), {"first": in_order[0], "last": in_order[-1]})
    return [True] * len(settlements)


def are_plain(settlements: Sequence[Settlement]) -> bool:
    """Whether these are plain successes of different jobs: nearly all batches are."""
    return len(set(map(_ID, settlements))) == len(settlements) and all(map(_PLAIN.__eq__, map(_KIND, settlements)))


async def _settle_in_batches(
    connection: MysqlConnection, settlements: Sequence[Settlement], now: int
) -> tuple[list[bool], set[JobId], list[JobId]]:
    """Apply the settlements that still hold; return for each whether it did, and which jobs have ended.

    Return also the jobs that were cancelled because a dependency failed.
    """
    applied = [False] * len(settlements)
    cancelled: list[JobId] = []
    # A job that is settled twice is settled in two batches: the second sees what the first has written.
    for indexes in unique_batches(settlements, lambda settlement: settlement.job_id):
        batch = [settlements[index] for index in indexes]
        held, failed = await _settle_batch(connection, batch, now)
        cancelled += failed
        for index in indexes:
            applied[index] = settlements[index].job_id in held
    ended = {one.job_id for one, holds in zip(settlements, applied, strict=True) if holds and one.is_final}
    return applied, ended, cancelled


async def _have_dependents(connection: MysqlConnection, ended: Sequence[JobId]) -> bool:
    """Whether any job waits for one of these jobs, which are locked.

    Hardly any job is waited for. Mostly there is no dependency in the whole range of ids, which one query shows.
    """
    if not ended or not await connection.rows(statement("has_dependents"), {"first": ended[0], "last": ended[-1]}):
        return False
    for chunk in chunks(ended):
        if await connection.rows(f"{statement('unmet_dependencies')} LIMIT 1", {"ids": chunk}):
            return True
    return False


async def _settle_batch(
    connection: MysqlConnection, settlements: Sequence[Settlement], now: int
) -> tuple[set[JobId], list[JobId]]:
    """Return the jobs whose settlement holds, and those that were cancelled because a dependency failed."""
    plain = [one for one in settlements if _KIND(one) == _PLAIN]
    applied = await _complete(connection, plain, now)
    other = [one for one in settlements if _KIND(one) != _PLAIN]
    if not other:
        return applied, []
    held, cancelled = await _settle_other(connection, other, now)
    return applied | held, cancelled


async def _complete(connection: MysqlConnection, settlements: Sequence[Settlement], now: int) -> set[JobId]:
    """Settle plain successes: one statement for each group of equal completions, or one for each job."""
    settlement_of = {one.job_id: one for one in settlements}
    ids: list[JobId] = []
    groups: EqualCompletions = {}
    expiring: list[Row] = []
    keyed: list[Row] = []
    for chunk in chunks(sorted(settlement_of)):
        for row in await connection.rows(statement("lock_leases"), {"ids": chunk}):
            job_id = row[0]
            one = settlement_of[job_id]
            if one.fence == row[1]:
                ids.append(job_id)
                groups.setdefault((one.result, *row[1:6]), []).append(job_id)
                if row[6] is not None:
                    expiring.append((row[6], job_id))
                if row[7] is not None:
                    keyed.append((row[7], job_id))
    if not ids:
        return set()
    if len(groups) > max(_MAX_GROUPS, len(ids) // 50):
        rows = [(now, now, *common, job_id) for common, equal in groups.items() for job_id in equal]
        await connection.update_each(statement("complete_job"), sorted(rows, key=lambda row: row[-1]))
    else:
        _complete_groups(connection, groups, now)
    _insert_completed(connection, ids, now)
    delete_rows(connection, "lease", ids)
    delete_rows(connection, "expiry", expiring)
    delete_sequences(connection, keyed)
    return set(ids)


def _complete_groups(connection: MysqlConnection, groups: EqualCompletions, now: int) -> None:
    for common, ids in groups.items():
        parameters = {"now": now, **dict(zip(COMMON, common, strict=True))}
        for chunk in chunks(ids):
            connection.defer(statement("complete_jobs"), {**parameters, "ids": chunk})


def _insert_completed(connection: MysqlConnection, ids: Sequence[JobId], now: int) -> None:
    if connection.can_pipeline and len(ids) >= MIN_BULK_ROWS:
        connection.insert_bulk(statement("insert_completed_bulk"), (ids,), (now,))
    else:
        connection.defer_rows(statement("insert_completed"), [(now, job_id) for job_id in ids])


async def _settle_other(
    connection: MysqlConnection, settlements: Sequence[Settlement], now: int
) -> tuple[set[JobId], list[JobId]]:
    running = [one.job_id for one in settlements if one.source is State.RUNNING]
    waiting = [one.job_id for one in settlements if one.source is not State.RUNNING]
    if children := children_of(settlements):
        # Before the jobs that wait for them: as the settlement of a child locks them.
        await lock_jobs(connection, children)
    placements = await lock_jobs(connection, running, "lock_running_jobs")
    placements |= await lock_jobs(connection, waiting)
    holding = [one for one in settlements if _holds(one, placements.get(one.job_id), now)]
    locked = await lock_ready(connection, [placements[one.job_id] for one in holding if one.source is State.PENDING])
    holding = [one for one in holding if one.source is not State.PENDING or one.job_id in locked]
    holding = [one if one.wait is None else await still_waiting(connection, one) for one in holding]
    after = [_after(one, placements[one.job_id], now) for one in holding]
    await _write(connection, holding, placements, after, now)
    await move_rows(connection, [placements[one.job_id] for one in holding], after)
    for one in holding:
        if one.follow_up is not None:
            await insert_system_jobs(connection, [one.follow_up], now)
        if one.events:
            await insert_system_jobs(connection, one.events, now)
    cancelled = await wait_for_children(connection, holding, now)
    return {one.job_id for one in holding}, cancelled


def _holds(settlement: Settlement, placement: Placement | None, now: int) -> bool:
    """Whether state and fence are still as settled. A job that was asked to stop may end, but not run again."""
    if placement is None or placement.state is not settlement.source or placement.fence != settlement.fence:
        return False
    if placement.state is State.RUNNING and placement.cancel_requested_at is not None and not settlement.is_final:
        return False
    return settlement.lapsed_at is None or placement.lease_until == to_micros(settlement.lapsed_at) <= now


def _after(settlement: Settlement, placement: Placement, now: int) -> Placement:
    run_at = placement.run_at if settlement.run_at is None else to_micros(settlement.run_at)
    return replace(
        placement,
        state=settlement.target,
        run_at=run_at,
        blockers=1 if settlement.target is State.BLOCKED else placement.blockers,
        turn=placement.turn if settlement.run_at is None else turn_at(run_at, placement.priority),
        expires_at=None if settlement.renew else placement.expires_at,
        finished_at=now if settlement.is_final else None,
        fingerprint=_fingerprint(settlement, placement),
    )


def _fingerprint(settlement: Settlement, placement: Placement) -> str | None:
    """Return the cause of a death, by which dead letters are grouped."""
    if settlement.target is not State.DEAD or settlement.error is None:
        return None
    return settlement.error.fingerprint(placement.type)


async def _write(
    connection: MysqlConnection,
    settlements: Sequence[Settlement],
    placements: dict[JobId, Placement],
    after: Sequence[Placement],
    now: int,
) -> None:
    rows: list[Row] = []
    attempts: list[Row] = []
    for one, then in zip(settlements, after, strict=True):
        before = placements[one.job_id]
        rows.append(_row(one, before, then, now))
        if one.source is State.RUNNING:
            ended = (one.job_id, before.fence, before.worker, before.boot, before.started_at, now)
            attempts.append((*ended, one.event.value, error_text(one.error), one.log_tail, one.progress))
    if rows:
        await connection.update_each(statement("settle_job"), rows)
    if attempts:
        await connection.many(statement("record_attempt"), attempts)


def _row(settlement: Settlement, before: Placement, after: Placement, now: int) -> Row:
    """Return the parameters of `settle_job`."""
    return (
        after.state.value,
        after.run_at,
        after.turn,
        0 if settlement.renew else before.attempts - settlement.refund,
        0 if settlement.renew else before.crashes + settlement.crash,
        None if settlement.renew else before.cancel_requested_at,
        after.expires_at,
        after.finished_at,
        after.blockers,
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


async def cancel_replaced(connection: MysqlConnection, ids: Sequence[JobId], now: int) -> None:
    """Cancel jobs that were replaced; those that run are asked to stop."""
    ended = await stop_jobs(connection, ids, Reason.REPLACED, now)
    if ended:
        failed = await resolve_dependents(connection, ended, now)
        await follow_failures(connection, (), failed, now, insert_system_jobs)


async def edit(connection: MysqlConnection, change: JobChange, now: int) -> bool:
    """Change a waiting job that is still as it was read, and return whether it was."""
    before = (await lock_jobs(connection, [change.job_id])).get(change.job_id)
    if before is None or (before.state, before.fence) != (change.source, change.fence):
        return False
    if before.state is State.PENDING and not await lock_ready(connection, [before]):
        return False
    values = change_row(change, now)
    ((changed_at,),) = await connection.rows(statement("job_changed_at"), {"id": change.job_id})
    if changed_at != values["updated_at"]:
        return False
    run_at = values["run_at"]
    turn = (
        before.turn + (before.priority - change.priority) * AGING_MICROS
        if run_at == before.run_at
        else turn_at(max(run_at, now), change.priority)
    )
    after = replace(before, state=change.target, queue=change.queue, priority=change.priority, run_at=run_at, turn=turn)
    await connection.run(statement("edit_job"), {**values, "turn": turn})
    await connection.run(statement("delete_job_tags"), {"id": change.job_id})
    tags = [(tag, change.job_id) for tag in dict.fromkeys(change.tags)]
    if tags:
        await connection.many(statement("insert_tag"), tags)
    await move_rows(connection, [before], [after])
    return True
