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
from rota.core.limit import (
    MOST_HOLDERS,
    MOST_WAITING,
    Candidate,
    Limit,
    LimitUsage,
    allowance_of,
    key_limit,
    limit_of_key,
)
from rota.core.time import from_micros
from rota.stores.lane_merge import LaneKey
from rota.stores.limit_memory import LimitMemory
from rota.stores.limited_lanes import MOST_KEYS, MOST_KEYS_SEEN, LimitedClaim, limit_names, running_by_name
from rota.stores.rows import limit_of, limit_row
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.statements import statement

#: Larger than every count.
_ALL: Final = 2**62
#: The parameters of holders_of_limit, and the kinds of limits that set them.
_FIELDS: Final = (("queue", "queue"), ("type", "task"), ("key", "key"))


def choose_limited(
    connection: SqliteConnection,
    wanted: Claim,
    lanes: Sequence[LaneKey],
    keyed_lanes: Sequence[LaneKey],
    memory: LimitMemory,
    now: int,
) -> tuple[LimitedClaim, list[Candidate]]:
    """Choose the jobs to start of lanes with limits, and of lanes in which jobs with a key wait; write their rates."""
    claim = _begin(connection, wanted, [*lanes, *keyed_lanes], now)
    for queue, type_ in lanes:
        rows = connection.rows(statement("pending_of_limited_lane"), (queue, type_, now, now, wanted.limit))
        if rows:
            most = claim.allows(queue, type_, None)
            claim.candidates += [
                Candidate(turn, job_id, priority, queue, type_, None) for turn, job_id, priority in rows[:most]
            ]
    for lane in keyed_lanes:
        claim.candidates += _of_keys(connection, claim, lane, memory)
    return claim, claim.choose(wanted.limit, memory)


def take_rates(connection: SqliteConnection, claim: LimitedClaim, chosen: Sequence[Candidate]) -> None:
    """Write the rates of which jobs have been started."""
    connection.many(statement("save_arrivals"), claim.new_arrivals(chosen))


def _begin(connection: SqliteConnection, wanted: Claim, lanes: Sequence[LaneKey], now: int) -> LimitedClaim:
    names = limit_names(lanes)
    limits = {limit.name: limit for limit in _by_name(connection, names)}
    running = running_by_name(connection.rows(statement("running_by_limit")))
    return LimitedClaim(wanted, now, limits, running, _arrivals(connection, names))


def _by_name(connection: SqliteConnection, names: Sequence[str]) -> list[Limit]:
    return [limit_of(row) for row in connection.rows(statement("limits_by_name"), (json.dumps(names),))]


def _arrivals(connection: SqliteConnection, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    rows = connection.rows(statement("arrivals"), (json.dumps(names),))
    return {name: (first, second) for name, first, second in rows}


def _of_keys(
    connection: SqliteConnection, claim: LimitedClaim, lane: LaneKey, memory: LimitMemory
) -> Iterator[Candidate]:
    """Yield the first jobs of the keys of a lane that have a permit to give, beginning behind the key served last."""
    if not claim.allows(*lane, None):
        return
    open_keys = 0
    for key in _keys(connection, lane, memory.last_keys.get(lane[0], "")):
        _learn_key(connection, claim, key, lane[1])
        most = claim.allows(*lane, key)
        if most:
            rows = connection.rows(statement("pending_of_key"), (*lane, key, claim.now, claim.now, most))
            yield from (Candidate(turn, job_id, priority, *lane, key) for turn, job_id, priority in rows)
            open_keys += bool(rows)
        if open_keys >= MOST_KEYS:
            return


def _learn_key(connection: SqliteConnection, claim: LimitedClaim, key: str, type_: str) -> None:
    """Read a key's own limit and rates, once in a claim."""
    name = key_limit(key)
    if name not in claim.limits:
        claim.learn_key(key, type_, next(iter(_by_name(connection, [name])), None))
        claim.arrivals.update(_arrivals(connection, [name]))


def _keys(connection: SqliteConnection, lane: LaneKey, after: str) -> Iterator[str]:
    """Yield the keys of a lane that have waiting jobs: those behind a key first, then from the beginning."""
    parameters = {"queue": lane[0], "type": lane[1], "after": after, "limit": MOST_KEYS_SEEN}
    behind = [key for (key,) in connection.rows(statement("keys_with_work"), parameters)]
    yield from behind
    if after and len(behind) < MOST_KEYS_SEEN:
        rows = connection.rows(statement("keys_with_work"), {**parameters, "after": ""})
        yield from (key for (key,) in rows if key <= after)


# Stored limits


def put_limits(connection: SqliteConnection, limits: Sequence[Limit], now: int) -> list[str]:
    """Store what limits allow; whether they are closed stays as it is."""
    for limit in limits:
        connection.run(statement("save_limit"), {**limit_row(limit), "now": now})
    connection.has_made_work |= bool(limits)
    return [limit.name for limit in limits]


def close_limit(connection: SqliteConnection, limit: Limit, now: int) -> bool:
    """Close a limit until its `closed_until`, or open it."""
    connection.run(statement("close_limit"), {**limit_row(limit), "now": now})
    connection.run(statement("delete_empty_limits"), (limit.name,))
    connection.has_made_work = True
    return True


def drop_limit(connection: SqliteConnection, name: str) -> bool:
    """Delete a limit and return whether there was one."""
    connection.has_made_work = True
    return bool(connection.run(statement("delete_limit"), (name,)))


def limits(connection: SqliteConnection, names: Sequence[str] | None, after: str, limit: int) -> list[Limit]:
    """Return limits by name, or a page of all."""
    if names is not None:
        return _by_name(connection, names)
    return [limit_of(row) for row in connection.rows(statement("limits_after"), (after, limit))]


def usage(connection: SqliteConnection, limit: Limit, now: int) -> LimitUsage:
    """Return what runs and waits under a limit."""
    kind, _, rest = limit.name.partition(":")
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
    )


def _waiting(connection: SqliteConnection, kind: str, rest: str) -> int:
    """Count the waiting jobs of a limit, up to one more than MOST_WAITING."""
    found, most = 0, MOST_WAITING + 1
    if kind != "key":
        for lane in _lanes(connection, "next_queue_with_work", "next_type_with_work"):
            if found < most and rest == lane[0 if kind == "queue" else 1]:
                found += connection.rows(statement("waiting_of_lane"), (*lane, most - found))[0][0]
    for lane in _lanes(connection, "next_queue_with_keys", "next_type_with_keys"):
        if found >= most:
            break
        if kind == "key":
            found += connection.rows(statement("waiting_of_key"), (*lane, rest, most - found))[0][0]
        elif rest == lane[0 if kind == "queue" else 1]:
            found += connection.rows(statement("waiting_of_keyed_lane"), (*lane, most - found))[0][0]
    return found


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
    counts = connection.rows(statement("running_by_limit"))
    running = running_by_name(counts)
    types = {key: type_ for _, type_, key, _ in counts if key is not None}
    stored = {limit.name: limit for limit in limits(connection, None, "", _ALL)}
    for key, type_ in types.items():
        effective = limit_of_key(key, type_, stored)
        stored[effective.name] = effective
    return [
        f"limit {name}: {running[name]} jobs run and max_running is {limit.max_running}"
        for name, limit in sorted(stored.items())
        if limit.max_running is not None and running.get(name, 0) > limit.max_running
    ]
