"""Lists of jobs, read with bounded work on a table of any size.

A list is read in slices. For each slice an index gives candidates in the order of the list; their rows are read by
primary key and filtered by the whole query. A slice that yields too little is followed by a larger one. A list for a
person ends after a short time all the same and says where to continue: a rare type among millions of jobs is then found
over several answers, and no other call is delayed.

Terms of a search have no index. They are evaluated on the rows of a slice, which are few at a time (`MOST_ROWS`), since
a row may be large.

Which index gives the candidates is in each store's own `listing` module; if none fits, the primary key is used. The
statements are made here once, by generators that yield a statement with its values and are sent the rows, so that they
serve async and blocking drivers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final, Protocol, TypeAlias

from rota.core.ids import LARGEST, SEQUENCE_SIZE, JobId, compose
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.time import from_micros, span_to_micros, to_micros
from rota.ports.store import CLOCK_SLACK, JobQuery, JobSlice, Position
from rota.stores.rows import Row, job_of

#: The largest slice, and the growth from one slice to the next.
MOST_CANDIDATES: Final = 20_000
_GROWTH: Final = 4
#: The most rows of a slice whose terms are evaluated here, and of the first one, before it is known what a row costs.
MOST_ROWS: Final = 200
FIRST_ROWS: Final = 20
#: The first slice of a count.
FIRST_COUNTED: Final = 1_000
#: The time for a list that a person waits for: no further slice is begun after it, nor one that would exceed it at the
#: speed of the last.
BUDGET_SECONDS: Final = 0.02

#: As a number: datetime arithmetic overflows at the ends of the calendar.
_SLACK_MICROS: Final = span_to_micros(CLOCK_SLACK)

#: A condition with `{}` for each of its values.
Condition: TypeAlias = tuple[str, Sequence[Any]]
BoundStatement: TypeAlias = tuple[str, list[Any]]
SliceReader: TypeAlias = Generator[BoundStatement, Sequence[Row], JobSlice]


@dataclass(frozen=True, slots=True)
class CandidateIndex:
    """An index that gives ids, the largest first: its table, a condition, and its column of ids.

    `within` limits the ids to two bounds; `prefix` is bound before each of them. `order` is that of the index.
    """

    source: str
    condition: str
    values: tuple[Any, ...] = ()
    id: str = "id"
    prefix: tuple[Any, ...] = ()
    within: str = "{id} >= {{}} AND {id} <= {{}}"
    order: str = "{id} DESC"


class Dialect(Protocol):
    """The parts of a list's statements that differ between stores."""

    #: The beginning of a statement that reads jobs, with and without their texts, or counts them; its columns of id
    #: and end.
    select: str
    select_light: str
    count: str
    job_id: str
    finished_at: str
    #: The primary key as an index of candidates.
    walk: CandidateIndex

    def placeholder(self, number: int) -> str:
        """Return the placeholder of a value in a statement; the first is number 0."""
        ...

    def streams(self, query: JobQuery) -> Generator[BoundStatement, Sequence[Row], Sequence[CandidateIndex]]:
        """Choose the indexes that give candidates of a list by id; none for the primary key."""
        ...

    def finished(self, state: State) -> CandidateIndex:
        """Return the index of finished jobs by their end."""
        ...

    def among(self, ids: Sequence[JobId]) -> Condition: ...

    def conditions(self, query: JobQuery) -> Iterable[Condition]:
        """Return the conditions of a query, all but where it continues."""
        ...


async def find_some(
    ask: Callable[[JobQuery, int], Awaitable[JobSlice]], query: JobQuery, *, seconds: float = BUDGET_SECONDS
) -> JobSlice:
    """Read slices with `ask(query, candidates)` until there are enough jobs or the time is up."""
    jobs: list[Job] = []
    count = 0
    # With terms, the rows of a slice are limited by its size; without, by the limit of the list.
    first = FIRST_ROWS if query.terms else FIRST_COUNTED if query.is_count else query.limit
    least = min(query.limit, first)
    rest, size = query, max(least, 1)
    begun_at = monotonic()
    give_up_at = begun_at + seconds
    while True:
        job_slice = await ask(rest, size)
        jobs += job_slice.jobs
        count += job_slice.count
        now = monotonic()
        size = _next_size(size, now - begun_at, give_up_at - now)
        if query.terms:
            size = min(size, MOST_ROWS) if give_up_at > now else 0
        if job_slice.resume is None or len(jobs) + count >= query.limit or size < least:
            return JobSlice(jobs, job_slice.resume, count)
        rest = replace(rest.behind(job_slice.resume), limit=query.limit - len(jobs))
        begun_at = now


def _next_size(size: int, took: float, left: float) -> int:
    """Return the size of the next slice: larger than the last, but no more than there is time for."""
    largest = min(size * _GROWTH, max(MOST_CANDIDATES, size))
    return int(min(largest, size * left / took)) if took > 0 else largest


async def find(ask: Callable[[JobQuery, int], Awaitable[JobSlice]], query: JobQuery) -> Sequence[Job]:
    """Read slices until there are enough jobs, or no more."""
    return (await find_some(ask, query, seconds=float("inf"))).jobs


def slice_of(dialect: Dialect, query: JobQuery, size: int) -> SliceReader:
    """Read one slice: the matching jobs among `size` candidates of each index."""
    if query.ids:
        return _by_ids(dialect, query)
    return _by_finish(dialect, query, size) if query.is_by_finish else _by_id(dialect, query, size)


def read_slice(asking: SliceReader, rows: Callable[[str, list[Any]], Sequence[Row]]) -> JobSlice:
    """Read one slice with a blocking driver."""
    try:
        question = next(asking)
        while True:
            question = asking.send(rows(*question))
    except StopIteration as ended:
        job_slice: JobSlice = ended.value
        return job_slice


async def read_slice_async(asking: SliceReader, rows: Callable[[str, list[Any]], Awaitable[Sequence[Row]]]) -> JobSlice:
    """Read one slice with an async driver."""
    try:
        question = next(asking)
        while True:
            question = asking.send(await rows(*question))
    except StopIteration as ended:
        job_slice: JobSlice = ended.value
        return job_slice


def _by_ids(dialect: Dialect, query: JobQuery) -> SliceReader:
    """Read jobs by their ids, newest first."""
    left = sorted({job_id for job_id in query.ids if query.before is None or job_id < query.before}, reverse=True)
    if not left:
        return JobSlice((), None)
    part = left[:MOST_ROWS]
    rows = yield _jobs_statement(dialect, query, dialect.among(part), f"{dialect.job_id} DESC")
    return _slice(query, rows, Position(part[-1]) if len(left) > len(part) else None)


def _by_id(dialect: Dialect, query: JobQuery, size: int) -> SliceReader:
    low, high = _bounds(query)
    streams = yield from dialect.streams(query)
    chosen: Condition
    if streams:
        lowest, ids = yield from _candidates(dialect, streams, low, high, size)
        if not ids:
            return JobSlice((), None)
        chosen = dialect.among(ids)
    else:
        walked = yield _candidate_statement(dialect, dialect.walk, low, high, f"LIMIT 1 OFFSET {size - 1:d}")
        lowest = walked[0][0] if walked else None
        chosen = (f"{dialect.job_id} >= {{}} AND {dialect.job_id} <= {{}}", (low if lowest is None else lowest, high))
    rows = yield _jobs_statement(dialect, query, chosen, f"{dialect.job_id} DESC")
    return _slice(query, rows, None if lowest is None else Position(JobId(lowest)))


def _candidates(
    dialect: Dialect, streams: Sequence[CandidateIndex], low: int, high: int, size: int
) -> Generator[BoundStatement, Sequence[Row], tuple[int | None, list[JobId]]]:
    """Merge the candidates of several indexes, and return the lowest id down to which they are complete."""
    ids: list[JobId] = []
    lows: list[int] = []
    for stream in streams:
        found = [job_id for (job_id,) in (yield _candidate_statement(dialect, stream, low, high, f"LIMIT {size:d}"))]
        ids += found
        if len(found) == size:
            lows.append(found[-1])
    lowest = max(lows, default=None)
    return lowest, [job_id for job_id in ids if lowest is None or job_id >= lowest]


def _candidate_statement(dialect: Dialect, stream: CandidateIndex, low: int, high: int, limit: str) -> BoundStatement:
    within = stream.within.format(id=stream.id)
    text, values = _joined(
        dialect, [(stream.condition, stream.values), (within, (*stream.prefix, low, *stream.prefix, high))]
    )
    order = stream.order.format(id=stream.id)
    return f"SELECT {stream.id} FROM {stream.source} WHERE {text} ORDER BY {order} {limit}", values  # noqa: S608


def _by_finish(dialect: Dialect, query: JobQuery, size: int) -> SliceReader:
    candidates: list[tuple[int, JobId]] = []
    lows: list[tuple[int, JobId]] = []
    for state in dict.fromkeys(query.states):
        stream = dialect.finished(state)
        conditions = [(stream.condition, stream.values), *_finish_bounds(query, stream.id)]
        text, values = _joined(dialect, conditions)
        order = f"finished_at DESC, {stream.id} DESC"
        columns = f"finished_at, {stream.id}"
        found = yield f"SELECT {columns} FROM {stream.source} WHERE {text} ORDER BY {order} LIMIT {size:d}", values  # noqa: S608
        candidates += ((finished_at, job_id) for finished_at, job_id in found)
        if len(found) == size:
            lows.append(candidates[-1])
    lowest = max(lows, default=None)
    ids = [job_id for finished_at, job_id in candidates if lowest is None or (finished_at, job_id) >= lowest]
    if not ids:
        return JobSlice((), None)
    order = f"{dialect.finished_at} DESC, {dialect.job_id} DESC"
    rows = yield _jobs_statement(dialect, query, dialect.among(ids), order)
    return _slice(query, rows, None if lowest is None else Position(lowest[1], from_micros(lowest[0])))


def _finish_bounds(query: JobQuery, job_id: str) -> Iterable[Condition]:
    if query.before is not None and query.finished_before is not None:
        finished_at = to_micros(query.finished_before)
        yield "finished_at <= {}", (finished_at,)
        yield f"(finished_at < {{}} OR {job_id} < {{}})", (finished_at, query.before)
    if query.created_from is not None:
        # A job that ended before that was created before that.
        yield "finished_at >= {}", (to_micros(query.created_from) - _SLACK_MICROS,)


def _jobs_statement(dialect: Dialect, query: JobQuery, chosen: Condition, order: str) -> BoundStatement:
    text, values = _joined(dialect, [chosen, *dialect.conditions(query)])
    if query.is_count:
        return f"{dialect.count} WHERE {text}", values
    select = dialect.select_light if query.is_light else dialect.select
    return f"{select} WHERE {text} ORDER BY {order} LIMIT {_most_rows(query):d}", values


def _most_rows(query: JobQuery) -> int:
    return MOST_ROWS if query.terms else query.limit


def _slice(query: JobQuery, rows: Sequence[Row], lowest: Position | None) -> JobSlice:
    if query.is_count:
        return JobSlice((), lowest, rows[0][0])
    jobs = [job_of(row) for row in rows]
    if len(jobs) == _most_rows(query) and jobs:
        lowest = query.position_of(jobs[-1])
    kept = [job for job in jobs if query.keeps(job)] if query.terms else jobs
    if query.terms and len(kept) > query.limit:
        kept = kept[: query.limit]
        lowest = query.position_of(kept[-1])
    return JobSlice(kept, lowest)


def _joined(dialect: Dialect, conditions: Iterable[Condition]) -> tuple[str, list[Any]]:
    """Join conditions and bind their values. Conditions are constants of the stores; values of callers are bound."""
    texts: list[str] = []
    values: list[Any] = []
    for text, bound in conditions:
        texts.append(text.format(*(dialect.placeholder(len(values) + place) for place in range(len(bound)))))
        values += bound
    return " AND ".join(texts), values


def _bounds(query: JobQuery) -> tuple[int, int]:
    """Return the lowest and highest id of a list."""
    low, high = 0, LARGEST if query.before is None else query.before - 1
    if query.created_from is not None:
        # A store cannot compare with a number beyond the largest id.
        low = min(_id_at(to_micros(query.created_from) - _SLACK_MICROS, 0), LARGEST)
    if query.created_until is not None:
        high = min(high, _id_at(to_micros(query.created_until) + _SLACK_MICROS, SEQUENCE_SIZE - 1))
    return low, high


def _id_at(micros: int, sequence: int) -> int:
    return compose(micros // 1000, sequence)
