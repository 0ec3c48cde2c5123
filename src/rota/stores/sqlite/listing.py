"""Listing: the index by which each filter of a job list is served. Indexes are named: SQLite often prefers another."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from typing import Final

from rota.core.ids import JobId
from rota.core.lifecycle import FINISHED, State
from rota.core.time import to_micros
from rota.ports.store import JobQuery, JobSlice
from rota.stores.listing import BoundStatement, CandidateIndex, Condition, read_slice, slice_of
from rota.stores.rows import Row, ids_text
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.statements import statement

#: More lanes than this are not read one by one.
MOST_LANES: Final = 50
#: The condition of rota_job_waiting, repeated word for word, or SQLite does not use the index.
_IS_WAITING: Final = (
    "(state = 'pending' OR state = 'scheduled' OR state = 'retrying' OR state = 'blocked' OR state = 'queued')"
)
#: There are few jobs in these states, however many there are in all.
_RARE: Final = frozenset({State.RUNNING, State.RETRYING, State.BLOCKED, State.QUEUED})

Lanes = list[tuple[str, str]]


class SqliteDialect:
    """The SQL of job lists on SQLite."""

    select = statement("select_jobs")
    select_light = statement("select_light_jobs")
    count = statement("count_jobs")
    job_id = "id"
    finished_at = "finished_at"
    walk = CandidateIndex("rota_job", "true")

    def placeholder(self, number: int) -> str:  # noqa: ARG002 - values are bound in order
        return "?"

    def streams(self, query: JobQuery) -> Generator[BoundStatement, Sequence[Row], Sequence[CandidateIndex]]:
        """Choose the indexes that serve a query."""
        if query.tag is not None:
            return [CandidateIndex("rota_tag", "tag = {}", (query.tag,), id="job_id")]
        if query.schedule_id is not None:
            return [CandidateIndex("rota_job INDEXED BY rota_job_schedule", "schedule_id = {}", (query.schedule_id,))]
        if query.fingerprint is not None:
            condition = "state = 'dead' AND fingerprint = {}"
            return [CandidateIndex("rota_job INDEXED BY rota_job_dead", condition, (query.fingerprint,))]
        has_few_states = bool(query.states) and _RARE.issuperset(query.states)
        if (query.types or query.queues) and not has_few_states:
            lanes = yield from _lanes(query)
            if lanes is not None:
                return [
                    CandidateIndex("rota_job INDEXED BY rota_job_lane", "queue = {} AND type = {}", lane)
                    for lane in lanes
                ] or [_NOTHING]
        if query.states and FINISHED.isdisjoint(query.states):
            return [_unfinished(state) for state in dict.fromkeys(query.states)]
        return []

    def finished(self, state: State) -> CandidateIndex:
        """Return the stream of finished jobs by their end."""
        return CandidateIndex(
            "rota_job INDEXED BY rota_job_finished", "finished_at IS NOT NULL AND state = {}", (state.value,)
        )

    def among(self, ids: Sequence[JobId]) -> Condition:
        return "id IN (SELECT value FROM json_each({}))", (ids_text(ids),)

    def conditions(self, query: JobQuery) -> Iterator[Condition]:
        """Write the conditions of a query, with a unary plus, so that SQLite takes no other index for them."""
        listed = {"state": [state.value for state in query.states], "type": query.types, "queue": query.queues}
        for column, values in listed.items():
            if values:
                yield f"+{column} IN (SELECT value FROM json_each({{}}))", (json.dumps(values),)  # noqa: S608
        if query.tag is not None:
            yield "EXISTS (SELECT 1 FROM rota_tag WHERE tag = {} AND job_id = rota_job.id)", (query.tag,)
        for column, value in {"worker": query.worker, "schedule_id": query.schedule_id}.items():
            if value is not None:
                yield f"+{column} = {{}}", (value,)
        if query.fingerprint is not None:
            yield "+state = 'dead' AND +fingerprint = {}", (query.fingerprint,)
        if query.created_from is not None:
            yield "created_at >= {}", (to_micros(query.created_from),)
        if query.created_until is not None:
            yield "created_at < {}", (to_micros(query.created_until),)


#: The empty list, for a query whose lanes do not exist.
_NOTHING: Final = CandidateIndex("rota_job", "false")


def _unfinished(state: State) -> CandidateIndex:
    if state is State.RUNNING:
        # Not ordered by id in that index, but never many.
        return CandidateIndex("rota_job INDEXED BY rota_job_lease", "state = 'running'")
    return CandidateIndex("rota_job INDEXED BY rota_job_waiting", f"{_IS_WAITING} AND state = {{}}", (state.value,))


def _lanes(query: JobQuery) -> Generator[BoundStatement, Sequence[Row], Lanes | None]:
    """Find the lanes of a query by a loose index scan of rota_job_lane; None if they are many."""
    queues = list(dict.fromkeys(query.queues)) or (yield from _loose_scan("next_queue", []))
    lanes: Lanes = []
    for queue in queues:
        types = list(dict.fromkeys(query.types)) or (yield from _loose_scan("next_type_of_queue", [queue]))
        lanes += [(queue, type_) for type_ in types]
        if len(lanes) > MOST_LANES:
            return None
    return lanes


def _loose_scan(name: str, values: list[str]) -> Generator[BoundStatement, Sequence[Row], list[str]]:
    """Return the distinct names that a statement finds one after another, up to one more than `MOST_LANES`."""
    names: list[str] = []
    while len(names) <= MOST_LANES:
        rows = yield statement(name), [*values, names[-1] + "\0" if names else ""]
        if not rows:
            break
        names.append(rows[0][0])
    return names


_DIALECT: Final = SqliteDialect()


def find(connection: SqliteConnection, query: JobQuery, size: int) -> JobSlice:
    """Return the jobs that match a query among the next `size` candidates of each index."""
    return read_slice(slice_of(_DIALECT, query, size), connection.rows)
