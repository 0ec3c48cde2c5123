"""Limits: stored limits, and claims of the jobs that they concern.

SQLite has one writer, so a claim that reads, counts and leases in one transaction needs no lock of its own: if another
process has written since the claim began to read, SQLite refuses its first write, and the claim is run again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from rota.core.ids import JobId
from rota.core.lease import Claim
from rota.core.lifecycle import State
from rota.core.limit import (
    MOST_HOLDERS,
    MOST_WAITING,
    STRICT,
    Limit,
    LimitUsage,
    allowance_of,
    latest_arrivals,
    scope_of,
)
from rota.core.submission import NewJob
from rota.core.time import from_micros
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
    JOBS_WITH_KEY,
    KEY_COLUMNS,
    LimitedClaim,
    breaker_names,
    exceeded,
    first_jobs,
    limit_names,
    next_page,
    running_by_name,
)
from rota.stores.rows import Row
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.statements import statement
from rota.stores.system_rows import limit_of, limit_row

#: Larger than every count.
_ALL: Final = 2**62
#: The parameters of holders_of_limit, and the kinds of limits that set them.
_FIELDS: Final = (("queue", "queue"), ("type", "task"), ("key", "key"))


def take_limited(
    connection: SqliteConnection,
    claim: Claim,
    lanes: Sequence[LaneKey],
    keyed_lanes: Sequence[LaneKey],
    memory: LimitMemory,
    now: int,
) -> list[JobId]:
    """Choose the jobs to start of lanes with limits, and of lanes in which jobs with a key wait; write their rates."""
    limited = _begin(connection, claim, [*lanes, *keyed_lanes], memory, now)
    for queue, type_, most in limited.open_lanes(lanes):
        rows = connection.rows(statement("pending_of_limited_lane"), (queue, type_, now, now, most))
        limited.add_lane_jobs((*row, queue, type_) for row in rows)
    for lane in keyed_lanes:
        _read_keys(connection, limited, lane)
    chosen = limited.choose()
    connection.many(statement("save_arrivals"), limited.new_arrivals(chosen))
    return [one.id for one in chosen]


def _begin(
    connection: SqliteConnection, claim: Claim, lanes: Sequence[LaneKey], memory: LimitMemory, now: int
) -> LimitedClaim:
    limits_ = _by_name(connection, limit_names(lanes))
    limits_ += _by_name(connection, breaker_names(limits_))
    limited = LimitedClaim(claim, now, {limit.name: limit for limit in limits_}, memory)
    limited.running = running_by_name(connection.rows(statement("running_by_limit")))
    limited.arrivals = _arrivals(connection, list(limited.limits))
    return limited


def _by_name(connection: SqliteConnection, names: Sequence[str]) -> list[Limit]:
    if not names:
        return []
    return [limit_of(row) for row in connection.rows(statement("limits_by_name"), (json.dumps(names),))]


def _arrivals(connection: SqliteConnection, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    rows = connection.rows(statement("arrivals"), (json.dumps(names),))
    return {name: (first, second) for name, first, second in rows}


def _read_keys(connection: SqliteConnection, claim: LimitedClaim, lane: LaneKey) -> None:
    """Read the first jobs of the keys of a lane that have a permit to give, beginning behind the key served last."""
    if not claim.allows(*lane, None):
        return
    pages = claim.key_pages(lane)
    count, page = 0, next(pages, None)
    while page is not None and count < claim.most_keys:
        lane_of = {"queue": lane[0], "type": lane[1], "now": claim.now}
        parameters = {**lane_of, "after": page.after, "limit": claim.keys_at_once}
        rows = page.within(connection.rows(statement("keys_with_work"), parameters))
        count += _read_jobs_of(connection, claim, lane, rows)
        page = next_page(pages, rows)


def _read_jobs_of(connection: SqliteConnection, claim: LimitedClaim, lane: LaneKey, keys: Sequence[Row]) -> int:
    """Read the jobs of some keys that may start, and return how many keys have any.

    The rows are those of keys_with_work, each with the first jobs of its key.
    """
    jobs_of = {row[0]: first_jobs(row) for row in keys}
    keys = [row[:KEY_COLUMNS] for row in keys]
    if names := claim.other_tasks(lane, keys):
        claim.note_tasks(names, _by_name(connection, names))
    claim.note_keys(lane, keys)
    strict, reads = claim.split_strict(claim.open_keys(lane, [row[0] for row in keys]))
    count = 0
    for key, most in reads:
        jobs = jobs_of[key][:most]
        if most > JOBS_WITH_KEY == len(jobs):
            rows = connection.rows(statement("pending_of_key"), (*lane, key, claim.now, claim.now, most))
            jobs = [(*row, key) for row in rows]
        claim.add_key_jobs(lane, jobs)
        count += bool(jobs)
    for key in strict:
        parameters = {"key": key, "queue": lane[0], "type": lane[1], "now": claim.now}
        rows = connection.rows(statement("first_of_key"), parameters)
        claim.add_key_jobs(lane, ((*row, key) for row in rows))
        count += bool(rows)
    return count


# Submissions


def full_keys(connection: SqliteConnection, jobs: Sequence[NewJob], now: int) -> FullKeys:
    """Read the running and pending jobs of keys that do more than wait if they are full."""
    keyed = due_keyed(jobs, now)
    limits_by_job = policies(keyed, _by_name(connection, names_of_keys(keyed))) if keyed else {}
    keys = {job.concurrency_key or "" for job in keyed if job.id in limits_by_job}
    rows = [(key, *row) for key in keys for row in connection.rows(statement("due_jobs_of_key"), (key,))]
    jobs_of = ((key, queue, KeyJob(job_id, State(state), bool(stops))) for key, queue, job_id, state, stops in rows)
    return FullKeys(limits_by_job, jobs_of) if keys else NO_FULL_KEYS


def refuse_full_keys(connection: SqliteConnection, jobs: Sequence[NewJob], now: int) -> None:
    """Refuse jobs whose keys do more than wait if they are full: in a caller's transaction."""
    keyed = due_keyed(jobs, now)
    if keyed:
        refuse_in_callers_transaction(keyed, _by_name(connection, names_of_keys(keyed)))


# Stored limits


def put_limits(connection: SqliteConnection, limits: Sequence[Limit], now: int) -> list[str]:
    """Store what limits allow; whether they are closed stays as it is."""
    for limit in limits:
        connection.run(statement("save_limit"), {**limit_row(limit), "now": now})
        for latest in latest_arrivals(limit, now):
            connection.run(statement("bring_arrivals_forward"), latest._asdict())
    connection.has_made_work |= bool(limits)
    return [limit.name for limit in limits]


def close_limit(connection: SqliteConnection, limit: Limit, now: int) -> bool:
    """Close a limit until its `closed_until`, or open it."""
    connection.run(statement("close_limit"), {**limit_row(limit), "now": now})
    connection.run(statement("delete_empty_limit"), (limit.name,))
    connection.has_made_work = True
    return True


def drop_limit(connection: SqliteConnection, name: str) -> bool:
    """Delete a limit and return whether there was one."""
    connection.has_made_work = True
    return bool(connection.run(statement("clear_limit"), (name,)) or connection.run(statement("delete_limit"), (name,)))


def limits(connection: SqliteConnection, names: Sequence[str] | None, after: str, limit: int) -> list[Limit]:
    """Return limits by name, or a page of all."""
    if names is not None:
        return _by_name(connection, names)
    return [limit_of(row) for row in connection.rows(statement("limits_after"), (after, limit))]


def usage(connection: SqliteConnection, limit: Limit, now: int) -> LimitUsage:
    """Return what runs and waits under a limit."""
    kind, rest = scope_of(limit.name)
    parameters = {field: rest if kind == one else None for field, one in _FIELDS}
    running = connection.rows(statement("holders_of_limit"), {**parameters, "limit": _ALL})
    arrivals = _arrivals(connection, [limit.name]).get(limit.name, (0, 0))
    allowance = allowance_of(limit, len(running), arrivals, now)
    return LimitUsage(
        limit,
        len(running),
        tuple(JobId(job_id) for (job_id,) in running[:MOST_HOLDERS]),
        _waiting(connection, kind, rest),
        None if allowance.opens_at is None else from_micros(allowance.opens_at),
        _first(connection, rest) if limit.order == STRICT else None,
    )


def _first(connection: SqliteConnection, key: str) -> JobId | None:
    rows = connection.rows(statement("first_unfinished_of_key"), (key,))
    return JobId(rows[0][0]) if rows else None


def _waiting(connection: SqliteConnection, kind: str, rest: str) -> int:
    """Count the waiting jobs of a limit, up to one more than MOST_WAITING."""
    count, most = 0, MOST_WAITING + 1
    if kind != "key":
        for lane in _lanes(connection, "next_queue_with_work", "next_type_with_work"):
            if count < most and rest == lane[0 if kind == "queue" else 1]:
                count += connection.rows(statement("waiting_of_lane"), (*lane, most - count))[0][0]
    for lane in _lanes(connection, "next_queue_with_keys", "next_type_with_keys"):
        if count >= most:
            break
        if kind == "key":
            count += connection.rows(statement("waiting_of_key"), (*lane, rest, most - count))[0][0]
        elif rest == lane[0 if kind == "queue" else 1]:
            count += connection.rows(statement("waiting_of_keyed_lane"), (*lane, most - count))[0][0]
    return count


def _lanes(connection: SqliteConnection, next_queue: str, next_type: str) -> Iterator[LaneKey]:
    """Yield the lanes of an index, by loose index scans."""
    queue = ""
    while rows := connection.rows(statement(next_queue), (queue,)):
        queue, type_ = rows[0][0], ""
        while found := connection.rows(statement(next_type), (queue, type_)):
            yield queue, found[0][0]
            type_ = found[0][0] + "\0"


def findings(connection: SqliteConnection) -> list[str]:
    """Return a sentence for each limit of which more jobs run than it allows."""
    return exceeded(limits(connection, None, "", _ALL), connection.rows(statement("running_by_limit")))
