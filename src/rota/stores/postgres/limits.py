"""Limits: stored limits, and claims of the jobs that they concern.

A claim of limited jobs is one transaction. Its first statement locks the rows of its limits, without waiting, and the
row `key:` if jobs with a key wait. Only a later one counts what runs: each statement sees what was committed before it
began, so whatever former holders of the locks have leased is counted. Settlements lock no limits: a permit is a
running job.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from asyncpg.exceptions import UniqueViolationError

from rota.core.ids import JobId
from rota.core.lease import Claim
from rota.core.lifecycle import State
from rota.core.limit import (
    MOST_HOLDERS,
    MOST_WAITING,
    STRICT,
    Candidate,
    Limit,
    LimitUsage,
    allowance_of,
    latest_arrivals,
    queue_limit,
    scope_of,
    task_limit,
)
from rota.core.submission import BREAKER, NewJob
from rota.core.time import from_micros, span_to_micros
from rota.stores.counted_rates import arrivals_of, look_at_rates, take_from_rates
from rota.stores.full_keys import (
    NO_FULL_KEYS,
    FullKeys,
    KeyJob,
    due_keyed,
    names_of_keys,
    policies,
    refuse_in_callers_transaction,
)
from rota.stores.lane_merge import LaneKey
from rota.stores.limit_memory import LimitMemory
from rota.stores.limited_lanes import (
    ALL_KEYS,
    JOBS_WITH_KEY,
    ClaimConditions,
    LimitedClaim,
    breaker_names,
    conditions_of,
    exceeded,
    is_limited,
    limit_names,
    next_page,
    running_by_name,
    waits_for_missed,
)
from rota.stores.postgres.session import Session, numbers
from rota.stores.postgres.statements import StatementRunner
from rota.stores.rows import Row
from rota.stores.system_rows import limit_of, limit_row

#: The order of the parameters of save_limit.
_COLUMNS: Final = (
    "name", "max_running", "rate_limit", "per_key_max_running", "per_key_rate_limit", "weight", "ordering", "on_full",
    "app", "set_by",
)  # fmt: skip
_ALL: Final = 2**62
#: The kinds of rows of lock_with_conditions and of running_and_pending.
_LOCKED: Final = 5
_RUNNING, _ARRIVALS, _WAITING = range(3)
#: With more limited lanes than this, their jobs are read by a statement of their own.
_FEW_LANES: Final = 32
#: How many columns of keys_with_work are about the key itself.
_KEY_COLUMNS: Final = -3


class RepeatedError(Exception):
    """A claim with this id came before, and nothing was leased."""


async def conditions(session: Session, now: int | None) -> ClaimConditions:
    """Read the restrictions of a claim in one statement."""
    return conditions_of(await session.rows("claim_conditions", now))


async def claim_limited(
    session: Session,
    claim: Claim,
    lanes: Sequence[LaneKey],
    now: int | None,
    memory: LimitMemory,
    before: Sequence[Row] = (),
    *,
    may_be_open: bool = True,
) -> list[Row]:
    """Lease jobs of limited lanes and keys, as many as their limits allow; `before` is what the claim has leased.

    With `may_be_open`, a submitter may answer the claim at the same time.

    The limits that the last claim has seen are locked with the first statement. Conditions that change afterwards do no
    harm: only jobs of limits that are locked are leased.
    """
    tried = [name for name in limit_names(lanes) if name in memory.limited]
    if memory.has_keys:
        tried.insert(0, ALL_KEYS)
    rows = await session.rows("lock_with_conditions", now, tried)
    restrictions = conditions_of((kind, name) for kind, name, *_ in rows if kind != _LOCKED)
    locked = [limit_of(row[2:]) for row in rows if row[0] == _LOCKED]
    memory.note_limits(restrictions.limited, has_keys=restrictions.has_keys)
    lanes = [lane for lane in lanes if lane[0] not in restrictions.paused and is_limited(lane, restrictions.limited)]
    keyed = _keyed_lanes(claim, restrictions)
    if not lanes and not keyed:
        memory.note_held(claim)
        return []
    limits = await _lock_rest(session, restrictions, [*lanes, *keyed], tried, locked, has_keys=bool(keyed))
    limited = await _begin(
        session, replace(claim, limit=claim.limit - len(before)), restrictions, memory, lanes, limits
    )
    if ALL_KEYS not in limited.missed:
        for lane in keyed:
            await _read_keys(session, limited, lane)
    chosen = limited.choose()
    ceilings = await take_from_rates(limited, chosen)
    if ceilings is None:
        return []
    leases = await _lease(session, claim, chosen, restrictions.now, before, may_be_open=may_be_open) if chosen else []
    leased = {row[0] for row in leases}
    await _take_rates(session, [*limited.new_arrivals(one for one in chosen if one.id in leased), *ceilings])
    return leases


def _keyed_lanes(claim: Claim, restrictions: ClaimConditions) -> list[LaneKey]:
    """Return the lanes of a claim in which jobs with a key wait."""
    return [
        (queue, type_)
        for queue, type_ in restrictions.keyed
        if queue in claim.queues and queue not in restrictions.paused and (claim.types is None or type_ in claim.types)
    ]


class _Locked(NamedTuple):
    """The limits that a claim has locked, and the names of those that another claim holds."""

    limits: dict[str, Limit]
    missed: set[str]


async def _lock_rest(
    session: Session,
    restrictions: ClaimConditions,
    lanes: Sequence[LaneKey],
    tried: Sequence[str],
    locked: Iterable[Limit],
    *,
    has_keys: bool,
) -> _Locked:
    """Lock the limits of a claim that the last claim did not know, and those of open breakers."""
    if has_keys and not restrictions.has_key_row:
        await session.run("make_key_limit")
        tried = [name for name in tried if name != ALL_KEYS]
    names = [*([ALL_KEYS] if has_keys else []), *limit_names(lanes)]
    limits = {limit.name: limit for limit in locked}
    rest = [name for name in names if name not in tried and (name in restrictions.limited or name == ALL_KEYS)]
    if rest:
        limits |= {limit.name: limit for limit in map(limit_of, await session.rows("lock_limits", rest))}
    missed = {name for name in names if name not in limits and (name in restrictions.limited or name == ALL_KEYS)}
    limits.pop(ALL_KEYS, None)
    breakers = breaker_names(limits.values())
    if breakers:
        limits |= {limit.name: limit for limit in map(limit_of, await session.rows("lock_limits", breakers))}
        missed |= waits_for_missed(limits)
    return _Locked(limits, missed)


async def _begin(
    session: Session,
    claim: Claim,
    restrictions: ClaimConditions,
    memory: LimitMemory,
    lanes: Sequence[LaneKey],
    locked: _Locked,
) -> LimitedClaim:
    """Count what runs under the locked limits, and read the first jobs without a key of the lanes."""
    limited = LimitedClaim(claim, restrictions.now, locked.limits, memory, missed=locked.missed)
    few = [lane for lane in lanes if limited.is_ours(lane)] if len(lanes) <= _FEW_LANES else []
    most = [
        (*lane, claim.limit, *map(limited.most_running, (queue_limit(lane[0]), task_limit(lane[1])))) for lane in few
    ]
    queues, types, *counts = zip(*most, strict=True) if most else ((), (), (), (), ())
    names = [limit.name for limit in locked.limits.values() if limit.rate_limit]
    rows = await session.rows(
        "running_and_pending", limited.now, list(queues), list(types), *map(numbers, counts), names
    )
    limited.running = running_by_name(row[1:5] for row in rows if row[0] == _RUNNING)
    limited.arrivals = {row[1]: (row[4], row[5]) for row in rows if row[0] == _ARRIVALS}
    await look_at_rates(limited, names)
    if few or not lanes:
        opened = {(queue, type_) for queue, type_, _ in limited.open_lanes(lanes)}
        limited.add_lane_jobs((*row[4:], row[1], row[2]) for row in rows if row[0] == _WAITING and row[1:3] in opened)
    else:
        await _read_lanes(session, limited, lanes)
    return limited


async def _arrivals(session: Session, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    if not names:
        return {}
    return {name: (first, second) for name, first, second in await session.rows("arrivals", list(names))}


async def _read_lanes(session: Session, claim: LimitedClaim, lanes: Sequence[LaneKey]) -> None:
    """Read the first jobs without a key of lanes."""
    open_lanes = claim.open_lanes(lanes)
    if open_lanes:
        queues, types, most = zip(*open_lanes, strict=True)
        parameters = (claim.now, list(queues), list(types), numbers(most))
        claim.add_lane_jobs(await session.rows("pending_of_limited_lanes", *parameters))


async def _read_keys(session: Session, claim: LimitedClaim, lane: LaneKey) -> None:
    """Read the first jobs of the keys of a lane that have a permit to give, beginning behind the key served last."""
    if not claim.is_ours(lane) or not claim.allows(*lane, None):
        return
    pages = claim.key_pages(lane)
    count, page = 0, next(pages, None)
    while page is not None and count < claim.most_keys:
        rows = page.within(
            await session.rows("keys_with_work", *lane, page.after, claim.keys_at_once, claim.now, JOBS_WITH_KEY)
        )
        keys = {row[0]: row[:_KEY_COLUMNS] for row in rows}
        first: dict[str, list[Row]] = {}
        for row in rows:
            if row[-1] is not None:
                first.setdefault(row[0], []).append((*row[_KEY_COLUMNS:], row[0]))
        count += await _read_jobs_of(session, claim, lane, list(keys.values()), first)
        page = next_page(pages, list(keys.values()))


async def _read_jobs_of(
    session: Session, claim: LimitedClaim, lane: LaneKey, keys: Sequence[Row], first: Mapping[str, Sequence[Row]]
) -> int:
    """Read the jobs of some keys that may start, and return how many keys have any. `first` are the first of each."""
    open_breakers = [row[1] for row in keys if row[1] is not None and row[1].startswith(BREAKER)]
    if open_breakers:
        locked = {row[0] for row in await session.rows("lock_limits", open_breakers)}
        keys = claim.without_missed(keys, set(open_breakers) - locked)
    if names := claim.other_tasks(lane, keys):
        claim.note_tasks(names, map(limit_of, await session.rows("limits_by_name", names)))
    await look_at_rates(claim, claim.note_keys(lane, keys))
    strict, reads = claim.split_strict(claim.open_keys(lane, [row[0] for row in keys]))
    # If fewer jobs of a key were read than could be, there are no more.
    many = [(key, most) for key, most in reads if most > JOBS_WITH_KEY == len(first.get(key, ()))]
    again = {key for key, _ in many}
    rows = [row for key, most in reads if key in first and key not in again for row in first[key][:most]]
    if many:
        parameters = (claim.now, *lane, [key for key, _ in many], numbers(most for _, most in many))
        rows += await session.rows("pending_of_keys", *parameters)
    if strict:
        rows += await session.rows("first_of_keys", claim.now, *lane, strict)
    claim.add_key_jobs(lane, rows)
    return len({row[3] for row in rows})


async def _lease(
    session: Session, claim: Claim, chosen: Sequence[Candidate], now: int, before: Sequence[Row], *, may_be_open: bool
) -> list[Row]:
    """Lease the chosen jobs, and record them under the claim's id; the order is that in which they were chosen."""
    in_order = sorted(chosen, key=lambda one: one.id)
    ids, queues = numbers(one.id for one in in_order), [one.queue for one in in_order]
    worker, lease = claim.worker, span_to_micros(claim.lease)
    claim_id = None if before else claim.claim_id
    parameters = (now, ids, queues, None, len(chosen), worker.name, worker.boot, lease, claim_id)
    try:
        rows = {row[0]: row for row in await session.rows("claim_limited", *parameters)}
    except UniqueViolationError as error:
        raise RepeatedError from error
    if before and rows and claim.claim_id is not None:
        await session.run("append_to_claim", claim.claim_id, json.dumps([[row[0], row[7]] for row in rows.values()]))
    elif rows and claim.claim_id is not None and may_be_open:
        # If the claim waits for a job of a submitter: it has got others.
        await session.run("delete_open_claim", claim.claim_id)
    return [rows[one.id] for one in chosen if one.id in rows]


async def _take_rates(session: Session, rows: Sequence[tuple[str, int, int]]) -> None:
    """Write the rates from which jobs have been started."""
    if rows:
        names, first, second = zip(*rows, strict=True)
        await session.run("save_arrivals", list(names), numbers(first), numbers(second))


# Submissions


async def full_keys(session: StatementRunner, jobs: Sequence[NewJob], now: int) -> FullKeys:
    """Read the running and pending jobs of keys that do more than wait if they are full, with all keys locked."""
    keyed = due_keyed(jobs, now)
    if not keyed:
        return NO_FULL_KEYS
    stored = map(limit_of, await session.rows("limits_by_name", names_of_keys(keyed)))
    limits_by_job = policies(keyed, stored)
    if not limits_by_job:
        return NO_FULL_KEYS
    await session.run("make_key_limit")
    await session.rows("wait_for_keys")
    keys = sorted({job.concurrency_key or "" for job in keyed if job.id in limits_by_job})
    rows = await session.rows("due_jobs_of_keys", keys)
    return FullKeys(
        limits_by_job,
        ((key, queue, KeyJob(JobId(one), State(state), stops)) for key, queue, one, state, stops in rows),
    )


async def refuse_full_keys(session: StatementRunner, jobs: Sequence[NewJob], now: int) -> None:
    """Refuse jobs whose keys do more than wait if they are full: in a caller's transaction."""
    keyed = due_keyed(jobs, now)
    if keyed:
        stored = map(limit_of, await session.rows("limits_by_name", names_of_keys(keyed)))
        refuse_in_callers_transaction(keyed, stored)


# Stored limits


async def put_limits(session: Session, limits_: Sequence[Limit], now: int) -> list[str]:
    """Store what limits allow; whether they are closed stays as it is."""
    for limit in sorted(limits_, key=lambda one: one.name):
        row = limit_row(limit)
        await session.run("save_limit", *(row[column] for column in _COLUMNS), now)
        for latest in latest_arrivals(limit, now):
            await session.run("bring_arrivals_forward", *latest)
    return [limit.name for limit in limits_]


async def close_limit(session: Session, limit: Limit, now: int) -> bool:
    """Close a limit until its `closed_until`, or open it."""
    row = limit_row(limit)
    await session.run("close_limit", row["name"], row["closed_until"], row["reason"], row["set_by"], now)
    await session.run("delete_empty_limit", limit.name)
    return True


async def drop_limit(session: Session, name: str, _now: int) -> bool:
    """Delete a limit and return whether there was one."""
    return bool(await session.run("clear_limit", name) or await session.run("delete_limit", name))


async def limits(session: Session, names: Sequence[str] | None, after: str, limit: int) -> list[Limit]:
    """Return limits by name, or a page of all."""
    if names is not None:
        return [limit_of(row) for row in await session.rows("limits_by_name", list(names))]
    return [limit_of(row) for row in await session.rows("limits_after", after, limit)]


async def usage(session: Session, limit: Limit, memory: LimitMemory, now: int) -> LimitUsage:
    """Return what runs and waits under a limit."""
    kind, rest = scope_of(limit.name)
    fields = [rest if kind == one else None for one in ("queue", "task", "key")]
    running = await session.values("holders_of_limit", *fields)
    stored = (await _arrivals(session, [limit.name])).get(limit.name, (0, 0))
    arrivals = await arrivals_of(memory.rate_counter, limit, stored, now)
    allowance = allowance_of(limit, len(running), arrivals, now)
    return LimitUsage(
        limit,
        len(running),
        tuple(JobId(job_id) for job_id in running[:MOST_HOLDERS]),
        await _waiting(session, kind, rest),
        None if allowance.opens_at is None else from_micros(allowance.opens_at),
        next(iter(await session.values("first_unfinished_of_key", rest)), None) if limit.order == STRICT else None,
    )


async def _waiting(session: Session, kind: str, rest: str) -> int:
    """Count the waiting jobs of a limit, up to one more than MOST_WAITING."""
    count, most = 0, MOST_WAITING + 1
    place = 0 if kind == "queue" else 1
    if kind != "key":
        for lane in await session.rows("lanes_with_work"):
            if count < most and rest == lane[place]:
                count += (await session.values("waiting_of_lane", *lane, most - count))[0]
    for lane in await session.rows("lanes_with_keys"):
        if count < most and (kind == "key" or rest == lane[place]):
            key = rest if kind == "key" else None
            count += (await session.values("waiting_of_keyed_lane", *lane, key, most - count))[0]
    return int(count)


async def findings(session: Session) -> list[str]:
    """Return a sentence for each limit of which more jobs run than it allows."""
    return exceeded(await limits(session, None, "", _ALL), await session.rows("running_by_limit"))
