"""Claims from several lanes at once: one look at all of them, and one statement that locks what was chosen.

The look reads a few places of each lane and locks nothing. With a hundred lanes it is most of what a claim costs, so it
reads on a little further than the claim needs, and the next claim that asks for the same begins with what is left: as
long as floors stand, see `floors`, and for the same reasons. What was chosen is then locked by its key. Jobs that
somebody else is claiming, or has claimed, are left out, and those behind them are taken instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Final, TypeAlias

from rota.core.identity import JobId
from rota.stores.merging import Reading, most_urgent
from rota.stores.mysql.driver import Connection, lists
from rota.stores.mysql.floors import Lane, Place
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row

#: So many lanes are looked at in one statement: for each of them the server opens the table once more.
LANES_AT_ONCE: Final = 64
#: How many places are read of each lane beyond its share, and how many times what is wanted.
_FEW: Final = 4
_TIMES: Final = 8

Found: TypeAlias = list[tuple[Place, Lane]]


async def take(
    connection: Connection, floors: Mapping[Lane, Place], ahead: Found, limit: int, now: int
) -> tuple[Found, Found]:
    """Take the earliest turns of several lanes: at first those known to come next. Give them, and what is known then.

    We look again until there are enough, or until all that is seen is ours or somebody else's.
    """
    taken: Found = []
    passed: set[Place] = set()
    while (left := limit - len(taken)) > 0:
        if not ahead:
            found = await _look(connection, floors, left + 2 * len(passed), now)
            ahead = [one for one in found if one[0] not in passed]
            if not ahead:
                break
        tried = ahead[: 2 * left]
        got = await _lock(connection, tried, left, now)
        if len(got) == left:
            tried = tried[: 1 + max(number for number, (place, _) in enumerate(tried) if place in got)]
        taken += [one for one in tried if one[0] in got]
        passed.update(place for place, _ in tried)
        ahead = ahead[len(tried) :]
    return taken, ahead


async def _look(connection: Connection, floors: Mapping[Lane, Place], limit: int, now: int) -> Found:
    """Give at least so many of the first places of lanes, if there are, behind a floor in each."""
    asking = most_urgent(list(floors), limit, _TIMES * limit // len(floors) + _FEW)
    try:
        reading = next(asking)
        while True:
            reading = asking.send(await _places(connection, floors, reading, now))
    except StopIteration as ended:
        return [((turn, JobId(job_id)), lane) for (turn, job_id), lane in ended.value]


async def _places(
    connection: Connection, floors: Mapping[Lane, Place], reading: Reading, now: int
) -> dict[Lane, list[Place]]:
    found: dict[Lane, list[Place]] = {lane: [] for lane in reading.lanes}
    for start in range(0, len(reading.lanes), LANES_AT_ONCE):
        some = reading.lanes[start : start + LANES_AT_ONCE]
        values = ((*lane, floors[lane][0], *floors[lane], reading.last_turn, now, now, reading.count) for lane in some)
        rows = await connection.rows(_lanes_statement(len(some)), tuple(chain.from_iterable(values)))
        for number, turn, job_id in rows:
            found[some[number]].append((turn, job_id))
    return found


@cache
def _lanes_statement(count: int) -> str:
    """Repeat the question for one lane, with the lane's number in it."""
    part = statement("pending_in_lane")
    return " UNION ALL ".join(f"({part.replace(':number', str(number))})" for number in range(count))


async def _lock(connection: Connection, found: Found, limit: int, now: int) -> set[Place]:
    """Keep so many of some jobs from others, the first that nobody else is taking."""
    sql = _collated(statement("take_places"), connection.collation)
    held: set[Place] = set()
    for some in lists(found):
        if len(held) < limit:
            parameters = {"keys": _keys(some), "now": now, "limit": limit - len(held)}
            held.update(await connection.look(sql, parameters))
    return held


async def read(connection: Connection, found: Found, now: int) -> Sequence[Row]:
    """Read jobs that we keep from others."""
    rows: list[Row] = []
    for some in lists([job_id for (_, job_id), _ in found]):
        rows += await connection.rows(statement("leased_places"), {"ids": some, "now": now})
    return rows


def leave(connection: Connection, found: Found) -> None:
    """Let jobs that we keep stand in line no longer."""
    for some in lists(found):
        connection.defer(_collated(statement("leave_places"), connection.collation), {"keys": _keys(some)})


def _keys(found: Sequence[tuple[Place, Lane]]) -> str:
    return json.dumps([(*lane, *place) for place, lane in found], ensure_ascii=False)


@cache
def _collated(sql: str, collation: str) -> str:
    """Name the collation of our tables, without which no key of theirs is used for texts from elsewhere."""
    return sql.replace(":collation", collation)
