"""Lists of jobs on PostgreSQL: which index serves which query.

An index (column, id) is read in its own order, by both columns: if the column alone were compared with a value, the
planner might walk the primary key instead, if the value seems frequent to it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from rota.core.ids import JobId
from rota.core.lifecycle import FINISHED, State
from rota.core.time import to_micros
from rota.ports.store import JobQuery, JobSlice
from rota.stores.listing import BoundStatement, CandidateIndex, Condition, read_slice_async, slice_of
from rota.stores.postgres.session import Session
from rota.stores.postgres.statements import statement
from rota.stores.rows import Row

_BETWEEN: Final = "id >= {{}}::bigint AND id <= {{}}::bigint"
#: The condition of rota_job_waiting.
_IS_WAITING: Final = "state IN ('pending', 'scheduled', 'retrying', 'blocked', 'queued') AND id >= 0"
#: rota_job_lease does not order them by id, but they are never many. A subquery, so that this index is read and not the
#: primary key.
_RUNNING: Final = "(SELECT id FROM {} WHERE state = 'running' OFFSET 0) AS running"


class PostgresDialect:
    """Lists on PostgreSQL, of the tables in one schema."""

    job_id = "id"
    finished_at = "finished_at"

    def __init__(self, qualifier: str = "") -> None:
        self._qualifier = qualifier
        self.select = statement("list_jobs", qualifier)
        self.select_light = statement("list_light_jobs", qualifier)
        self.count = statement("count_jobs", qualifier)
        self.walk = CandidateIndex(f"{qualifier}rota_any_job", "true", within=_BETWEEN)

    def placeholder(self, number: int) -> str:
        return f"${number + 1}"

    def streams(self, query: JobQuery) -> Generator[BoundStatement, Sequence[Row], Sequence[CandidateIndex]]:
        """Choose the indexes that serve a list."""
        yield from ()
        if query.tag is not None:
            return [_by(f"{self._qualifier}rota_tag", "tag", query.tag, id="job_id")]
        if query.schedule_id is not None:
            table = f"{self._qualifier}rota_any_job"
            return [_by(table, "schedule_id", query.schedule_id, "schedule_id IS NOT NULL")]
        if query.fingerprint is not None:
            table = f"{self._qualifier}rota_job_done"
            return [_by(table, "fingerprint", query.fingerprint, "state = 'dead'")]
        if query.states and FINISHED.isdisjoint(query.states):
            return [self._unfinished(state) for state in dict.fromkeys(query.states)]
        return []

    def finished(self, state: State) -> CandidateIndex:
        """Return the index of finished jobs by their end."""
        # Not a parameter: that the index fits must be seen when the statement is planned.
        return CandidateIndex(f"{self._qualifier}rota_job_done", f"state = '{state.value}'")

    def among(self, ids: Sequence[JobId]) -> Condition:
        return "id = ANY({}::bigint[])", (list(ids),)

    def conditions(self, query: JobQuery) -> Iterator[Condition]:
        """Return the conditions of a query; the state in a way that no index can serve, since the ids are known."""
        listed = {"state || ''": [state.value for state in query.states], "type": query.types, "queue": query.queues}
        for column, values in listed.items():
            if values:
                yield f"{column} = ANY({{}}::text[])", (list(values),)
        if query.tag is not None:
            table = f"{self._qualifier}rota_tag"
            yield f"EXISTS (SELECT 1 FROM {table} WHERE tag = {{}}::text AND job_id = any_job.id)", (query.tag,)  # noqa: S608 - ours
        if query.worker is not None:
            yield "worker = {}::text", (query.worker,)
        if query.schedule_id is not None:
            yield "schedule_id + 0 = {}::bigint", (query.schedule_id,)
        if query.fingerprint is not None:
            yield "state || '' = 'dead' AND fingerprint || '' = {}::text", (query.fingerprint,)
        if query.created_from is not None:
            yield "created_at >= {}::bigint", (to_micros(query.created_from),)
        if query.created_until is not None:
            yield "created_at < {}::bigint", (to_micros(query.created_until),)

    def _unfinished(self, state: State) -> CandidateIndex:
        table = f"{self._qualifier}rota_job"
        if state is State.RUNNING:
            return CandidateIndex(_RUNNING.format(table), "true", within=_BETWEEN)
        return _by(table, "state", state.value, _IS_WAITING)


def _by(source: str, column: str, value: str | int, condition: str = "true", *, id: str = "id") -> CandidateIndex:  # noqa: A002 - a column
    """Return a stream of an index (column, id)."""
    kind = "text" if isinstance(value, str) else "bigint"
    pair = f"({{{{}}}}::{kind}, {{{{}}}}::bigint)"
    within = f"({column}, {{id}}) >= {pair} AND ({column}, {{id}}) <= {pair}"
    return CandidateIndex(source, condition, id=id, prefix=(value,), within=within, order=f"{column} DESC, {{id}} DESC")


_dialect = lru_cache(PostgresDialect)


async def find(session: Session, query: JobQuery, size: int) -> JobSlice:
    """Return the jobs that match a query, reading at most `size` rows of each index; a page may be short."""

    async def rows(sql: str, values: list[Any]) -> Sequence[Row]:
        return await session.fetch(sql, *values)

    return await read_slice_async(slice_of(_dialect(session.qualifier), query, size), rows)
