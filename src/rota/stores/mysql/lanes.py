"""Taking the most urgent pending jobs from one lane, or from several lanes in one statement.

A lane is a queue and a type. A single lane is locked, read and deleted as one range of the primary key of `rota_ready`.

With several lanes, one statement reads a few positions of each and locks nothing. With a hundred lanes that is most of
what a claim costs, so it reads a little further than the claim needs, and the next equal claim begins with what is
left, as long as low-water marks hold (see `low_water`) and for the same reasons. The chosen jobs are then locked by
key. Jobs that another claim has locked or taken are left out, and the next ones are taken instead.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final, TypeAlias

from rota.core.ids import JobId
from rota.core.lease import Claim
from rota.stores.lane_merge import LaneRead, most_urgent
from rota.stores.mysql.driver import MAX_LIST, MysqlConnection, chunks
from rota.stores.mysql.low_water import FIRST_POSITION, ClaimScan, Lane, Position
from rota.stores.mysql.queues import paused_queues
from rota.stores.mysql.state_tables import delete_rows
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row

#: Fewer jobs than this are deleted from a lane by key, and not as a range.
MIN_RANGE: Final = 16
#: If more lanes than this have work, all lanes of the claim are read together, unless they are more than MAX_LANES.
FEW_LANES: Final = 3
MAX_LANES: Final = 128
#: Lanes read in one statement: for each of them the server opens the table once more.
LANES_PER_STATEMENT: Final = 64
#: How many positions are read of each lane beyond its share, and how many times the limit.
_EXTRA: Final = 4
_TIMES: Final = 8
#: How many times as many jobs as are missing are tried once others were faster.
_TIMES_IF_OVERTAKEN: Final = 4
#: Fail rather than wait for a lock.
_WITHOUT_WAITING: Final = "SET STATEMENT innodb_lock_wait_timeout = 0 FOR"

Positions: TypeAlias = list[tuple[Position, Lane]]


async def take_most_urgent(
    connection: MysqlConnection, request: Claim, limit: int, scan: ClaimScan, now: int
) -> tuple[list[JobId], dict[JobId, Row]]:
    """Take the earliest turns of all lanes of a claim, in their order; return their ids, and the rows read of most.

    The scan starts at the low-water marks, and from the beginning if that is not enough. Each lane is read by itself:
    a million jobs of a type that this worker does not know cost one step over their lane.
    """
    rows: dict[JobId, Row] = {}
    starts = scan.start
    taken, known = await _take_earliest(connection, starts, list(scan.known_at_start), limit, now, rows)
    if len(taken) < limit:
        starts = await _lanes_with_work(connection, request, now)
        more, known = await _take_earliest(connection, starts, [], limit - len(taken), now, rows)
        taken += more
        scan.covers_all = True
    taken.sort()
    if len(taken) == limit:
        # The last position of each lane remains.
        scan.stop = {**starts, **{lane: position for position, lane in taken}}
        scan.known_at_stop = known
    return [job_id for (_, job_id), _ in taken], rows


async def take_from_lane(connection: MysqlConnection, lane: Lane, limit: int, now: int) -> Sequence[Position]:
    """Take up to `limit` jobs of a lane, skipping jobs that another transaction has locked."""
    positions = await _lock_lane(connection, lane, limit, now, FIRST_POSITION)
    if len(positions) >= MIN_RANGE:
        ((count,),) = await connection.rows(statement("count_ready_range"), _range(lane, positions))
        _delete_locked(connection, lane, positions, is_contiguous=count == len(positions))
    elif positions:
        _delete_locked(connection, lane, positions, is_contiguous=False)
    return positions


async def _take_earliest(
    connection: MysqlConnection,
    starts: Mapping[Lane, Position],
    known: Positions,
    limit: int,
    now: int,
    rows: dict[JobId, Row],
) -> tuple[Positions, Positions]:
    """Take the earliest turns of lanes, add their rows, and return them and what is known to come behind them."""
    if len(starts) > 1:
        taken, left = await _take_from_lanes(connection, starts, known, limit, now)
        for chunk in chunks([job_id for (_, job_id), _ in taken]):
            found = await connection.rows(statement("read_claimed_by_id"), {"ids": chunk, "now": now})
            rows.update((row[0], row) for row in found)
        for positions in chunks(taken):
            sql = collated(statement("delete_ready_in_lanes"), connection.collation)
            connection.defer(sql, {"keys": _keys(positions)})
        return taken, left
    for lane, start in starts.items():
        locked = await _lock_lane(connection, lane, limit, now, start)
        if locked:
            found = await _read_range(connection, lane, locked, now)
            rows.update((row[0], row) for row in found)
            _delete_locked(connection, lane, locked, is_contiguous=len(found) == len(locked))
            return [(position, lane) for position in locked], []
    return [], []


# One lane


async def _lock_lane(
    connection: MysqlConnection, lane: Lane, limit: int, now: int, start: Position
) -> Sequence[Position]:
    parameters = {"queue": lane[0], "type": lane[1], "after_turn": start[0], "after_id": start[1]}
    return await connection.prepared_rows(statement("lock_lane"), {**parameters, "now": now, "limit": limit})


def _range(lane: Lane, positions: Sequence[Position]) -> dict[str, Any]:
    bounds = zip(("first_turn", "first_id", "last_turn", "last_id"), (*positions[0], *positions[-1]), strict=True)
    return {"queue": lane[0], "type": lane[1], **dict(bounds)}


async def _read_range(
    connection: MysqlConnection, lane: Lane, positions: Sequence[Position], now: int
) -> Sequence[Row]:
    """Read all jobs from the first to the last locked one, including those between them that other claims hold.

    If those are too many, the rest of ours is read later.
    """
    parameters = {**_range(lane, positions), "now": now, "limit": 2 * len(positions)}
    return await connection.prepared_rows(statement("read_claimed_range"), parameters)


def _delete_locked(
    connection: MysqlConnection, lane: Lane, positions: Sequence[Position], *, is_contiguous: bool
) -> None:
    """Delete locked jobs from a lane.

    With no other jobs between them they are one range, which costs half. The last one is deleted by itself, because the
    row at the end of a range is locked too. A range delete also reads rows that a caller has inserted in a transaction
    that is still open, perhaps for long. It fails at once instead of waiting for them; the transaction is then run
    again and deletes by key. MySQL always deletes by key, because it has no statement that does not wait.
    """
    by_key = positions
    if is_contiguous and len(positions) >= MIN_RANGE and connection.is_mariadb and not connection.is_retry:
        by_key = positions[-1:]
        for first in range(0, len(positions) - 1, MAX_LIST):
            # Up to the first of the next chunk.
            chunk = positions[first : first + MAX_LIST + 1]
            ids = tuple(job_id for _, job_id in chunk[:-1])
            sql = f"{_WITHOUT_WAITING} {statement('delete_ready_range')}"
            connection.defer(sql, {**_range(lane, chunk), "ids": ids})
    if len(by_key) == 1:
        connection.defer(statement("delete_ready_one"), _range(lane, by_key))
    else:
        delete_rows(connection, "ready", [(*lane, "", turn, job_id) for turn, job_id in by_key])


# Several lanes


async def _lanes_with_work(connection: MysqlConnection, request: Claim, now: int) -> dict[Lane, Position]:
    """Return the lanes that a claim reads, with a position in each that is in front of all its jobs.

    Lanes with pending jobs are found one by one, with the position before their first job: a scan from there does not
    step over the dead entries at the beginning, and try to lock them, a second time. If several lanes have jobs, and
    the claim does not name too many, all named lanes are read together, whether they have jobs or not.
    """
    starts: dict[Lane, Position] = {}
    queues = list(dict.fromkeys(request.queues))
    are_few = request.types is not None and len(queues) * len(request.types) <= MAX_LANES
    for queue in queues:
        async for type_, turn, job_id in _types_with_work(connection, queue, request.types, now):
            starts[queue, type_] = (turn, JobId(job_id - 1))
            if are_few and len(starts) > FEW_LANES:
                paused = await paused_queues(connection, now)
                open_queues = [queue for queue in queues if queue not in paused]
                all_lanes = [(queue, type_) for queue in open_queues for type_ in request.types or ()]
                return {**dict.fromkeys(all_lanes, FIRST_POSITION), **starts}
    return starts


async def _types_with_work(
    connection: MysqlConnection, queue: str, types: tuple[str, ...] | None, now: int
) -> AsyncIterator[Row]:
    """Yield each type that a claim names and that has pending jobs in a queue, with turn and id of its first job.

    A loose index scan: each step seeks the next type that has jobs, or the next that is named, whichever is later.
    """
    named = None if types is None else sorted(set(types))
    from_type = "" if named is None else named[0] if named else None
    while from_type is not None:
        parameters = {"queue": queue, "from_type": from_type, "now": now}
        rows = await connection.rows(statement("next_type_with_work"), parameters)
        if not rows:
            return
        type_ = rows[0][0]
        has_work = not rows[0][3]
        if named is None:
            if has_work:
                yield rows[0][:3]
            from_type = type_ + "\0"
            continue
        index = bisect_left(named, type_)
        if index < len(named) and named[index] == type_:
            if has_work:
                yield rows[0][:3]
            index += 1
        from_type = named[index] if index < len(named) else None


async def _take_from_lanes(
    connection: MysqlConnection, starts: Mapping[Lane, Position], known: Positions, limit: int, now: int
) -> tuple[Positions, Positions]:
    """Lock the earliest turns of several lanes, beginning with known ones; return them, and what is known behind them.

    Reads again until there are enough, or until every job that it sees is locked by us or by others.
    """
    taken: Positions = []
    tried: set[Position] = set()
    while (missing := limit - len(taken)) > 0:
        if not known:
            places = await _peek(connection, starts, missing + 2 * len(tried), now)
            known = [one for one in places if one[0] not in tried]
            if not known:
                break
        # No more at first than are needed: each costs as much to look up as to take. Then others claim here, too.
        candidates = known[: missing * (_TIMES_IF_OVERTAKEN if tried else 1)]
        locked = await _lock(connection, candidates, missing, now)
        if len(locked) == missing:
            last = max(number for number, (position, _) in enumerate(candidates) if position in locked)
            candidates = candidates[: 1 + last]
        taken += [one for one in candidates if one[0] in locked]
        tried.update(position for position, _ in candidates)
        known = known[len(candidates) :]
    return taken, known


async def _peek(connection: MysqlConnection, starts: Mapping[Lane, Position], limit: int, now: int) -> Positions:
    """Read at least `limit` of the first positions of lanes, if there are so many, without locking them."""
    merging = most_urgent(list(starts), limit, _TIMES * limit // len(starts) + _EXTRA)
    try:
        reading = next(merging)
        while True:
            reading = merging.send(await _read_positions(connection, starts, reading, now))
    except StopIteration as ended:
        return [((turn, JobId(job_id)), lane) for (turn, job_id), lane in ended.value]


async def _read_positions(
    connection: MysqlConnection, starts: Mapping[Lane, Position], reading: LaneRead, now: int
) -> dict[Lane, list[Position]]:
    positions: dict[Lane, list[Position]] = {lane: [] for lane in reading.lanes}
    for first in range(0, len(reading.lanes), LANES_PER_STATEMENT):
        lanes = reading.lanes[first : first + LANES_PER_STATEMENT]
        values = ((*lane, starts[lane][0], *starts[lane], reading.last_turn, now, now, reading.count) for lane in lanes)
        rows = await connection.rows(peek_statement(len(lanes)), tuple(chain.from_iterable(values)))
        for number, turn, job_id in rows:
            positions[lanes[number]].append((turn, job_id))
    return positions


@cache
def peek_statement(count: int) -> str:
    """Return `peek_lane` repeated for a number of lanes, each with its number."""
    part = statement("peek_lane")
    return " UNION ALL ".join(f"({part.replace(':number', str(number))})" for number in range(count))


async def _lock(connection: MysqlConnection, candidates: Positions, limit: int, now: int) -> set[Position]:
    """Lock the first `limit` jobs that no other transaction has locked."""
    sql = collated(statement("lock_in_lanes"), connection.collation)
    locked: set[Position] = set()
    for chunk in chunks(candidates):
        if len(locked) < limit:
            parameters = {"keys": _keys(chunk), "now": now, "limit": limit - len(locked)}
            locked.update(await connection.prepared_rows(sql, parameters))
    return locked


def _keys(positions: Sequence[tuple[Position, Lane]]) -> str:
    return json.dumps([(*lane, *position) for position, lane in positions], ensure_ascii=False)


@cache
def collated(sql: str, collation: str) -> str:
    """Name the collation of our tables: otherwise no key is used for texts of a JSON table."""
    return sql.replace(":collation", collation)
