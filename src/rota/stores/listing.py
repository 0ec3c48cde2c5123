"""Lists of jobs, found with bounded work on a table of any size.

A list is read in slices. For each slice some index gives candidates in the order of the list, as many as asked for; the
rows of those are read by primary key and filtered by all that the query asks. A slice that yields too little is
followed by a larger one. What a person waits for ends after a moment all the same, and says where to continue: a rare
type among millions of jobs is then found over several answers, none of which holds up anybody else.

Which index gives the candidates is each store's own, see their `listing`. Where none fits, the primary key does.
Statements are written here once, as generators that yield a statement with its values and are sent the rows: so that
they serve drivers that wait and drivers that do not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final, Protocol, TypeAlias

from rota.core.identity import LARGEST, SEQUENCE_SIZE, JobId, compose
from rota.core.instant import from_micros, span_to_micros, to_micros
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.ports.store import CLOCK_SLACK, JobQuery, JobSlice, Position
from rota.stores.rows import Row, job_of

#: How many candidates a slice may have, and how much larger than the last one the next is.
MOST_CANDIDATES: Final = 20_000
_GROWTH: Final = 4
#: So long somebody who waits does at most, as far as can be told: no further slice is begun then, and none that would
#: take longer than what is left, at the pace of the last.
BUDGET_SECONDS: Final = 0.02

#: In numbers: the first and the last moment of the calendar have nothing before and behind them.
_SLACK_MICROS: Final = span_to_micros(CLOCK_SLACK)

#: A condition with `{}` for each of its values.
Condition: TypeAlias = tuple[str, Sequence[Any]]
Question: TypeAlias = tuple[str, list[Any]]
Asking: TypeAlias = Generator[Question, Sequence[Row], JobSlice]


@dataclass(frozen=True, slots=True)
class Stream:
    """An index that gives ids, the largest first: its table, what selects a part of it, and its column of ids.

    `within` keeps the ids between two bounds, before each of which `prefix` is bound. `order` is that of the index.
    """

    source: str
    condition: str
    values: tuple[Any, ...] = ()
    id: str = "id"
    prefix: tuple[Any, ...] = ()
    within: str = "{id} >= {{}} AND {id} <= {{}}"
    order: str = "{id} DESC"


class Dialect(Protocol):
    """What differs between stores."""

    #: What begins a statement that reads jobs, and how their ids and ends are called there.
    select: str
    job_id: str
    finished_at: str
    #: Where the primary key is walked.
    walk: Stream

    def placeholder(self, number: int) -> str:
        """Write the place of a value in a statement; the first is number 0."""
        ...

    def streams(self, query: JobQuery) -> Generator[Question, Sequence[Row], Sequence[Stream]]:
        """Choose the indexes whose candidates a list by id is found among; none if the primary key must do."""
        ...

    def finished(self, state: State) -> Stream:
        """Give the index of finished jobs by their end."""
        ...

    def among(self, ids: Sequence[JobId]) -> Condition:
        """Write that a job is one of these."""
        ...

    def conditions(self, query: JobQuery) -> Iterable[Condition]:
        """Write what a query asks for, all of it but where it continues."""
        ...


async def find_some(
    ask: Callable[[JobQuery, int], Awaitable[JobSlice]], query: JobQuery, *, seconds: float = BUDGET_SECONDS
) -> JobSlice:
    """Read slices, given by `ask` for a query and a number of candidates, until there is enough or time is up."""
    jobs: list[Job] = []
    rest, size = query, max(query.limit, 1)
    begun_at = monotonic()
    give_up_at = begun_at + seconds
    while True:
        found = await ask(rest, size)
        jobs += found.jobs
        now = monotonic()
        size = _next_size(size, now - begun_at, give_up_at - now)
        if found.resume is None or len(jobs) >= query.limit or size < query.limit:
            return JobSlice(jobs, found.resume)
        rest = replace(rest.behind(found.resume), limit=query.limit - len(jobs))
        begun_at = now


def _next_size(size: int, took: float, left: float) -> int:
    """Say how many candidates the next slice may have: larger than the last, but no more than there is time for."""
    largest = min(size * _GROWTH, max(MOST_CANDIDATES, size))
    return int(min(largest, size * left / took)) if took > 0 else largest


async def find(ask: Callable[[JobQuery, int], Awaitable[JobSlice]], query: JobQuery) -> Sequence[Job]:
    """Read slices until there is enough, or no more."""
    return (await find_some(ask, query, seconds=float("inf"))).jobs


def slice_of(dialect: Dialect, query: JobQuery, size: int) -> Asking:
    """Read one slice: the jobs that fit among so many candidates of each index."""
    return _by_finish(dialect, query, size) if query.is_by_finish else _by_id(dialect, query, size)


def answered(asking: Asking, rows: Callable[[str, list[Any]], Sequence[Row]]) -> JobSlice:
    """Read one slice with a driver that does not wait."""
    try:
        question = next(asking)
        while True:
            question = asking.send(rows(*question))
    except StopIteration as ended:
        found: JobSlice = ended.value
        return found


async def answered_later(asking: Asking, rows: Callable[[str, list[Any]], Awaitable[Sequence[Row]]]) -> JobSlice:
    """Read one slice with a driver that waits."""
    try:
        question = next(asking)
        while True:
            question = asking.send(await rows(*question))
    except StopIteration as ended:
        found: JobSlice = ended.value
        return found


def _by_id(dialect: Dialect, query: JobQuery, size: int) -> Asking:
    low, high = _bounds(query)
    streams = yield from dialect.streams(query)
    chosen: Condition
    if streams:
        floor, ids = yield from _candidates(dialect, streams, low, high, size)
        if not ids:
            return JobSlice((), None)
        chosen = dialect.among(ids)
    else:
        walked = yield _candidate_statement(dialect, dialect.walk, low, high, f"LIMIT 1 OFFSET {size - 1:d}")
        floor = walked[0][0] if walked else None
        chosen = (f"{dialect.job_id} >= {{}} AND {dialect.job_id} <= {{}}", (low if floor is None else floor, high))
    rows = yield _jobs_statement(dialect, query, chosen, f"{dialect.job_id} DESC")
    return _slice(query, rows, None if floor is None else Position(JobId(floor)))


def _candidates(
    dialect: Dialect, streams: Sequence[Stream], low: int, high: int, size: int
) -> Generator[Question, Sequence[Row], tuple[int | None, list[JobId]]]:
    """Merge the candidates of several indexes, and say down to which of them nothing is left out."""
    ids: list[JobId] = []
    floors: list[int] = []
    for stream in streams:
        found = [job_id for (job_id,) in (yield _candidate_statement(dialect, stream, low, high, f"LIMIT {size:d}"))]
        ids += found
        if len(found) == size:
            floors.append(found[-1])
    floor = max(floors, default=None)
    return floor, [job_id for job_id in ids if floor is None or job_id >= floor]


def _candidate_statement(dialect: Dialect, stream: Stream, low: int, high: int, limit: str) -> Question:
    within = stream.within.format(id=stream.id)
    text, values = _joined(
        dialect, [(stream.condition, stream.values), (within, (*stream.prefix, low, *stream.prefix, high))]
    )
    order = stream.order.format(id=stream.id)
    return f"SELECT {stream.id} FROM {stream.source} WHERE {text} ORDER BY {order} {limit}", values  # noqa: S608


def _by_finish(dialect: Dialect, query: JobQuery, size: int) -> Asking:
    candidates: list[tuple[int, JobId]] = []
    floors: list[tuple[int, JobId]] = []
    for state in dict.fromkeys(query.states):
        stream = dialect.finished(state)
        conditions = [(stream.condition, stream.values), *_finish_bounds(query, stream.id)]
        text, values = _joined(dialect, conditions)
        order = f"finished_at DESC, {stream.id} DESC"
        columns = f"finished_at, {stream.id}"
        found = yield f"SELECT {columns} FROM {stream.source} WHERE {text} ORDER BY {order} LIMIT {size:d}", values  # noqa: S608
        candidates += ((finished_at, job_id) for finished_at, job_id in found)
        if len(found) == size:
            floors.append(candidates[-1])
    floor = max(floors, default=None)
    ids = [job_id for finished_at, job_id in candidates if floor is None or (finished_at, job_id) >= floor]
    if not ids:
        return JobSlice((), None)
    order = f"{dialect.finished_at} DESC, {dialect.job_id} DESC"
    rows = yield _jobs_statement(dialect, query, dialect.among(ids), order)
    return _slice(query, rows, None if floor is None else Position(floor[1], from_micros(floor[0])))


def _finish_bounds(query: JobQuery, job_id: str) -> Iterable[Condition]:
    if query.before is not None and query.finished_before is not None:
        finished_at = to_micros(query.finished_before)
        yield "finished_at <= {}", (finished_at,)
        yield f"(finished_at < {{}} OR {job_id} < {{}})", (finished_at, query.before)
    if query.created_from is not None:
        # What ended before that was made before that.
        yield "finished_at >= {}", (to_micros(query.created_from) - _SLACK_MICROS,)


def _jobs_statement(dialect: Dialect, query: JobQuery, chosen: Condition, order: str) -> Question:
    text, values = _joined(dialect, [chosen, *dialect.conditions(query)])
    return f"{dialect.select} WHERE {text} ORDER BY {order} LIMIT {query.limit:d}", values


def _slice(query: JobQuery, rows: Sequence[Row], floor: Position | None) -> JobSlice:
    jobs = [job_of(row) for row in rows]
    if len(jobs) == query.limit and jobs:
        return JobSlice(jobs, query.position_of(jobs[-1]))
    return JobSlice(jobs, floor)


def _joined(dialect: Dialect, conditions: Iterable[Condition]) -> tuple[str, list[Any]]:
    """Join conditions, and bind their values. Conditions are constants of the stores; what a caller brings is bound."""
    texts: list[str] = []
    values: list[Any] = []
    for text, bound in conditions:
        texts.append(text.format(*(dialect.placeholder(len(values) + place) for place in range(len(bound)))))
        values += bound
    return " AND ".join(texts), values


def _bounds(query: JobQuery) -> tuple[int, int]:
    """Say between which ids a list is."""
    low, high = 0, LARGEST if query.before is None else query.before - 1
    if query.created_from is not None:
        # Beyond the largest id there is none, and a store could not even compare with it.
        low = min(_id_at(to_micros(query.created_from) - _SLACK_MICROS, 0), LARGEST)
    if query.created_until is not None:
        high = min(high, _id_at(to_micros(query.created_until) + _SLACK_MICROS, SEQUENCE_SIZE - 1))
    return low, high


def _id_at(micros: int, sequence: int) -> int:
    return compose(micros // 1000, sequence)
