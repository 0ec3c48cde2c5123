"""Limits: stored limits, and claims of the jobs that they concern.

A claim of limited jobs locks the rows of its limits in the order of their names, without waiting, and the row `key:` if
there are jobs with a key. Then it counts what runs: each statement sees what was committed before it (READ COMMITTED),
so whatever former holders of the locks have leased is counted. Settlements lock no limits: a permit is a running job.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Final

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
    scope_of,
)
from rota.core.submission import BREAKER, NewJob
from rota.core.time import from_micros
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
    KEY_COLUMNS,
    ClaimConditions,
    LimitedClaim,
    breaker_names,
    conditions_of,
    exceeded,
    first_jobs,
    is_limited,
    limit_names,
    next_page,
    running_by_name,
    waits_for_missed,
)
from rota.stores.mysql.driver import MysqlConnection, Runner, chunks
from rota.stores.mysql.lanes import LANES_PER_STATEMENT, MAX_LANES, collated
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row
from rota.stores.system_rows import limit_of, limit_row

_ALL: Final = 2**62
#: The parameters of holders_of_limit, by the kind of a limit.
_FIELDS: Final = {"queue": "queue", "task": "type", "key": "key"}


async def conditions(connection: MysqlConnection, now: int) -> ClaimConditions:
    """Read the restrictions of a claim in one statement."""
    return conditions_of(await connection.prepared_rows(statement("claim_conditions"), {"now": now}), now)


async def take_limited(
    connection: MysqlConnection, claim: Claim, restrictions: ClaimConditions, memory: LimitMemory
) -> tuple[list[JobId], dict[JobId, Row]]:
    """Take jobs of limited lanes and keys, as many as their limits allow, and write their rates.

    Return them, and the columns that the claim returns of each.
    """
    lanes = [lane async for lane in _lanes(connection, claim, restrictions)]
    keyed = await _keyed(connection, lanes) if restrictions.has_keys else []
    lanes = [lane for lane in lanes if is_limited(lane, restrictions.limited)]
    if not lanes and not keyed:
        memory.note_held(claim)
        return [], {}
    limited = await _begin(connection, claim, restrictions, memory, lanes, keyed)
    reads = [(queue, type_, "", most) for queue, type_, most in limited.open_lanes(lanes)]
    limited.add_lane_jobs([(*row, *one[:2]) for one, row in await _peek(connection, reads, limited.now)])
    if ALL_KEYS not in limited.missed:
        for lane in keyed:
            await _read_keys(connection, limited, lane)
    chosen = await _lock(connection, limited.choose())
    ceilings = await take_from_rates(limited, chosen)
    if ceilings is None:
        return [], {}
    for chunk in chunks(chosen):
        connection.defer(collated(statement("delete_limited"), connection.collation), {"keys": _ready_keys(chunk)})
    rates = [*limited.new_arrivals(chosen), *ceilings]
    if rates:
        await connection.many(statement("save_arrivals"), rates)
    ids = [one.id for one in chosen]
    rows: dict[JobId, Row] = {}
    for some in chunks(ids):
        found = await connection.rows(statement("read_claimed_by_id"), {"ids": some, "now": limited.now})
        rows.update((row[0], row) for row in found)
    return ids, rows


async def _lanes(connection: MysqlConnection, claim: Claim, restrictions: ClaimConditions) -> AsyncIterator[LaneKey]:
    """Yield the lanes that a claim names; if these are too many, those with pending jobs."""
    queues = [queue for queue in dict.fromkeys(claim.queues) if queue not in restrictions.paused]
    types = None if claim.types is None else dict.fromkeys(claim.types)
    for queue in queues:
        if types is not None and len(queues) * len(types) <= MAX_LANES:
            for type_ in types:
                yield queue, type_
        else:
            async for type_ in _types(connection, queue):
                if types is None or type_ in types:
                    yield queue, type_


async def _types(connection: MysqlConnection, queue: str) -> AsyncIterator[str]:
    """Yield the types that have pending jobs in a queue."""
    from_type = ""
    while rows := await connection.rows(statement("next_type"), {"queue": queue, "from_type": from_type}):
        yield rows[0][0]
        from_type = rows[0][0] + "\0"


async def _keyed(connection: MysqlConnection, lanes: Sequence[LaneKey]) -> list[LaneKey]:
    """Return those lanes in which jobs with a key are pending."""
    keyed: list[LaneKey] = []
    for first in range(0, len(lanes), LANES_PER_STATEMENT):
        some = lanes[first : first + LANES_PER_STATEMENT]
        rows = await connection.rows(_repeated("lane_has_keys", len(some)), tuple(chain.from_iterable(some)))
        keyed += [some[number] for (number,) in rows]
    return keyed


@cache
def _repeated(name: str, count: int) -> str:
    """Return a statement repeated a number of times, each time with its number."""
    part = statement(name)
    return " UNION ALL ".join(f"({part.replace(':number', str(number))})" for number in range(count))


async def _begin(
    connection: MysqlConnection,
    claim: Claim,
    restrictions: ClaimConditions,
    memory: LimitMemory,
    lanes: Sequence[LaneKey],
    keyed: Sequence[LaneKey],
) -> LimitedClaim:
    """Lock the limits, and count what runs."""
    if keyed and not restrictions.has_key_row:
        await connection.run(statement("make_key_limit"))
    names = [*([ALL_KEYS] if keyed else []), *limit_names([*lanes, *keyed])]
    rows = await connection.rows(statement("lock_limits"), {"names": tuple(names)})
    limits = {limit.name: limit for limit in map(limit_of, rows)}
    missed = {name for name in names if name not in limits and (name in restrictions.limited or name == ALL_KEYS)}
    limits.pop(ALL_KEYS, None)
    breakers = breaker_names(limits.values())
    if breakers:
        rows = await connection.rows(statement("lock_limits"), {"names": tuple(breakers)})
        limits |= {limit.name: limit for limit in map(limit_of, rows)}
        missed |= waits_for_missed(limits)
    limited = LimitedClaim(claim, restrictions.now, limits, memory, missed=missed)
    limited.running = running_by_name(await connection.prepared_rows(statement("running_by_limit"), {}))
    limited.arrivals = await _arrivals(connection, [limit.name for limit in limits.values() if limit.rate_limit])
    await look_at_rates(limited, limits)
    return limited


async def _arrivals(connection: MysqlConnection, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    if not names:
        return {}
    rows = await connection.rows(statement("arrivals"), {"names": tuple(names)})
    return {name: (first, second) for name, first, second in rows}


async def _peek(
    connection: MysqlConnection, reads: Sequence[tuple[str, str, str, int]], now: int
) -> list[tuple[tuple[str, str, str, int], Row]]:
    """Read the first jobs of lanes and keys, as many of each as `reads` says: with turn, id and priority."""
    found = []
    for first in range(0, len(reads), LANES_PER_STATEMENT):
        some = reads[first : first + LANES_PER_STATEMENT]
        values = [(queue, type_, key, now, now, most) for queue, type_, key, most in some]
        # Of few sizes, because each is prepared once: filled up with lanes of which no job is read.
        values += [(*values[0][:-1], 0)] * ((1 << (len(some) - 1).bit_length()) - len(some))
        rows = await connection.rows(_repeated("peek_limited_lane", len(values)), tuple(chain.from_iterable(values)))
        found += [(some[number], tuple(row)) for number, *row in rows]
    return found


async def _read_keys(connection: MysqlConnection, claim: LimitedClaim, lane: LaneKey) -> None:
    """Read the first jobs of the keys of a lane that have a permit to give, beginning behind the key served last."""
    if not claim.is_ours(lane) or not claim.allows(*lane, None):
        return
    pages = claim.key_pages(lane)
    count, page = 0, next(pages, None)
    while page is not None and count < claim.most_keys:
        lane_of = {"queue": lane[0], "type": lane[1], "now": claim.now}
        parameters = {**lane_of, "after": page.after, "limit": claim.keys_at_once}
        rows = page.within(await connection.prepared_rows(statement("keys_with_work"), parameters))
        count += await _read_jobs_of(connection, claim, lane, rows)
        page = next_page(pages, rows)


async def _read_jobs_of(connection: MysqlConnection, claim: LimitedClaim, lane: LaneKey, keys: Sequence[Row]) -> int:
    """Read the jobs of some keys that may start, and return how many keys have any.

    The rows are those of keys_with_work, each with the first jobs of its key.
    """
    jobs_of = {row[0]: first_jobs(row) for row in keys}
    keys = [row[:KEY_COLUMNS] for row in keys]
    open_breakers = tuple(row[1] for row in keys if row[1] is not None and row[1].startswith(BREAKER))
    if open_breakers:
        locked = await connection.rows(statement("lock_limits"), {"names": open_breakers})
        keys = claim.without_missed(keys, set(open_breakers) - {row[0] for row in locked})
    if names := claim.other_tasks(lane, keys):
        claim.note_tasks(
            names, map(limit_of, await connection.rows(statement("limits_by_name"), {"names": tuple(names)}))
        )
    await look_at_rates(claim, claim.note_keys(lane, keys))
    strict, reads = claim.split_strict(claim.open_keys(lane, [row[0] for row in keys]))
    many = [(*lane, key, most) for key, most in reads if most > JOBS_WITH_KEY == len(jobs_of[key])]
    again = {key for _, _, key, _ in many}
    rows = [job for key, most in reads if key not in again for job in jobs_of[key][:most]]
    rows += [(*row, one[2]) for one, row in await _peek(connection, many, claim.now)]
    for chunk in chunks(strict):
        values = ((key, *lane, claim.now, claim.now) for key in chunk)
        first = await connection.rows(_repeated("first_of_key", len(chunk)), tuple(chain.from_iterable(values)))
        rows += [(*row, chunk[number]) for number, *row in first]
    claim.add_key_jobs(lane, rows)
    return len({row[3] for row in rows})


async def _lock(connection: MysqlConnection, chosen: Sequence[Candidate]) -> list[Candidate]:
    """Lock the chosen jobs, and return those that were neither gone nor locked."""
    sql = collated(statement("lock_limited"), connection.collation)
    locked: set[int] = set()
    for chunk in chunks(chosen):
        rows = await connection.rows(sql, {"keys": _ready_keys(chunk)})
        locked.update(job_id for (job_id,) in rows)
    return [one for one in chosen if one.id in locked]


def _ready_keys(chosen: Iterable[Candidate]) -> str:
    keys = [(one.queue, one.type, one.key or "", one.turn, one.id) for one in chosen]
    return json.dumps(keys, ensure_ascii=False)


def delete_sequences(connection: MysqlConnection, keyed: Sequence[Row]) -> None:
    """Delete the places of finished jobs in the order of their keys: pairs of key and job."""
    for chunk in chunks(keyed):
        sql = collated(statement("delete_sequences"), connection.collation)
        connection.defer(sql, {"keys": json.dumps(chunk, ensure_ascii=False)})


# Submissions


async def full_keys(connection: Runner, jobs: Sequence[NewJob], now: int) -> FullKeys:
    """Read the running and pending jobs of keys that do more than wait if they are full, with all keys locked."""
    keyed = due_keyed(jobs, now)
    limits_by_job = policies(keyed, await _stored(connection, keyed)) if keyed else {}
    if not limits_by_job:
        return NO_FULL_KEYS
    await connection.run(statement("make_key_limit"))
    await connection.rows(statement("wait_for_keys"))
    keys = sorted({job.concurrency_key or "" for job in keyed if job.id in limits_by_job})
    rows: list[Row] = []
    for chunk in chunks(keys):
        rows += await connection.rows(statement("due_jobs_of_keys"), {"keys": chunk})
    jobs_of = ((key, queue, KeyJob(JobId(one), State(state), bool(stops))) for key, queue, one, state, stops in rows)
    return FullKeys(limits_by_job, jobs_of)


async def refuse_full_keys(connection: Runner, jobs: Sequence[NewJob], now: int) -> None:
    """Refuse jobs whose keys do more than wait if they are full: in a caller's transaction."""
    keyed = due_keyed(jobs, now)
    if keyed:
        refuse_in_callers_transaction(keyed, await _stored(connection, keyed))


async def _stored(connection: Runner, jobs: Sequence[NewJob]) -> list[Limit]:
    stored: list[Limit] = []
    for chunk in chunks(names_of_keys(jobs)):
        stored += map(limit_of, await connection.rows(statement("limits_by_name"), {"names": chunk}))
    return stored


# Stored limits


async def put_limits(connection: MysqlConnection, limits_: Sequence[Limit], now: int) -> list[str]:
    """Store what limits allow; whether they are closed stays as it is."""
    for limit in sorted(limits_, key=lambda one: one.name):
        await connection.run(statement("save_limit"), {**limit_row(limit), "now": now})
        for latest in latest_arrivals(limit, now):
            await connection.run(statement("bring_arrivals_forward"), latest._asdict())
    connection.has_made_work |= bool(limits_)
    return [limit.name for limit in limits_]


async def close_limit(connection: MysqlConnection, limit: Limit, now: int) -> bool:
    """Close a limit until its `closed_until`, or open it."""
    await connection.run(statement("close_limit"), {**limit_row(limit), "now": now})
    await connection.run(statement("delete_empty_limit"), {"name": limit.name})
    connection.has_made_work = True
    return True


async def drop_limit(connection: MysqlConnection, name: str) -> bool:
    """Delete a limit and return whether there was one."""
    connection.has_made_work = True
    is_cleared = await connection.run(statement("clear_limit"), {"name": name})
    return bool(is_cleared or await connection.run(statement("delete_limit"), {"name": name}))


async def limits(connection: MysqlConnection, names: Sequence[str] | None, after: str, limit: int) -> list[Limit]:
    """Return limits by name, or a page of all."""
    if names is None:
        rows = await connection.rows(statement("limits_after"), {"after": after, "limit": limit})
        return list(map(limit_of, rows))
    limits_: list[Limit] = []
    for chunk in chunks(sorted(names)):
        limits_ += map(limit_of, await connection.rows(statement("limits_by_name"), {"names": chunk}))
    return limits_


async def usage(connection: MysqlConnection, limit: Limit, memory: LimitMemory, now: int) -> LimitUsage:
    """Return what runs and waits under a limit."""
    kind, rest = scope_of(limit.name)
    fields = {"queue": None, "type": None, "key": None, _FIELDS[kind]: rest}
    running = [JobId(job_id) for (job_id,) in await connection.rows(statement("holders_of_limit"), fields)]
    stored = (await _arrivals(connection, [limit.name])).get(limit.name, (0, 0))
    arrivals = await arrivals_of(memory.rate_counter, limit, stored, now)
    allowance = allowance_of(limit, len(running), arrivals, now)
    return LimitUsage(
        limit,
        len(running),
        tuple(running[:MOST_HOLDERS]),
        await _waiting(connection, kind, rest),
        None if allowance.opens_at is None else from_micros(allowance.opens_at),
        await _first(connection, rest) if limit.order == STRICT else None,
    )


async def _first(connection: MysqlConnection, key: str) -> JobId | None:
    rows = await connection.rows(statement("first_unfinished_of_key"), {"key": key})
    return JobId(rows[0][0]) if rows else None


async def _waiting(connection: MysqlConnection, kind: str, rest: str) -> int:
    """Count the waiting jobs of a limit, up to one more than MOST_WAITING."""
    count, queue = 0, ""
    while rows := await connection.rows(statement("next_queue"), {"after": queue}):
        queue = rows[0][0]
        async for type_ in _types(connection, queue):
            if kind == "key" or rest == (queue if kind == "queue" else type_):
                name = "waiting_of_key" if kind == "key" else "waiting_of_lane"
                parameters = {"queue": queue, "type": type_, "key": rest, "limit": MOST_WAITING + 1 - count}
                count += (await connection.rows(statement(name), parameters))[0][0]
            if count > MOST_WAITING:
                return count
    return count


async def delete_old_arrivals(connection: MysqlConnection, now: int) -> None:
    """Delete the times of rates that are past."""
    names = tuple(name for (name,) in await connection.rows(statement("old_arrivals"), {"now": now}))
    if names:
        await connection.run(statement("delete_arrivals"), {"names": names})


async def findings(connection: MysqlConnection) -> list[str]:
    """Return a sentence for each limit of which more jobs run than it allows."""
    return exceeded(await limits(connection, None, "", _ALL), await connection.rows(statement("running_by_limit")))
