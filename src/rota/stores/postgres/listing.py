"""Which index of PostgreSQL gives the candidates of a list.

An index (column, id) is asked for in its own order, by both columns: were the column alone compared with a value, the
planner might walk the primary key instead, if the value seems frequent to it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Final

from rota.core.identity import JobId
from rota.core.instant import to_micros
from rota.core.lifecycle import FINISHED, State
from rota.ports.store import JobQuery
from rota.stores.listing import Condition, Question, Stream
from rota.stores.postgres.statements import statement
from rota.stores.rows import Row

_BETWEEN: Final = "id >= {{}}::bigint AND id <= {{}}::bigint"
_IS_WAITING: Final = "state IN ('pending', 'scheduled', 'retrying', 'blocked', 'queued')"
#: By id they are not ordered in job_lease, but never many. Apart, so that it is read and not the primary key.
_RUNNING: Final = "(SELECT id FROM job WHERE state = 'running' OFFSET 0) AS running"


class PostgresDialect:
    """Lists on PostgreSQL."""

    select = statement("find")
    job_id = "id"
    finished_at = "finished_at"
    walk = Stream("any_job", "true", within=_BETWEEN)

    def placeholder(self, number: int) -> str:
        """Write the place of a value."""
        return f"${number + 1}"

    def streams(self, query: JobQuery) -> Generator[Question, Sequence[Row], Sequence[Stream]]:
        """Choose the indexes by which a list is found."""
        yield from ()
        if query.tag is not None:
            return [_by("tag", "tag", query.tag, id="job_id")]
        if query.schedule_id is not None:
            return [_by("any_job", "schedule_id", query.schedule_id, "schedule_id IS NOT NULL")]
        if query.fingerprint is not None:
            return [_by("job_done", "fingerprint", query.fingerprint, "state = 'dead'")]
        if query.states and FINISHED.isdisjoint(query.states):
            return [_unfinished(state) for state in dict.fromkeys(query.states)]
        return []

    def finished(self, state: State) -> Stream:
        """Give the index of finished jobs by their end."""
        # Not bound: that the index fits must be seen when the statement is planned.
        return Stream("job_done", f"state = '{state.value}'")

    def among(self, ids: Sequence[JobId]) -> Condition:
        """Write that a job is one of these."""
        return "id = ANY({}::bigint[])", (list(ids),)

    def conditions(self, query: JobQuery) -> Iterator[Condition]:
        """Write what a query asks for; the state in a way that no index can answer, since the ids are known."""
        listed = {"state || ''": [state.value for state in query.states], "type": query.types, "queue": query.queues}
        for column, values in listed.items():
            if values:
                yield f"{column} = ANY({{}}::text[])", (list(values),)
        if query.tag is not None:
            yield "EXISTS (SELECT 1 FROM tag WHERE tag = {}::text AND job_id = any_job.id)", (query.tag,)
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


def _by(source: str, column: str, value: str | int, condition: str = "true", *, id: str = "id") -> Stream:  # noqa: A002 - a column
    """Make a stream of an index (column, id)."""
    kind = "text" if isinstance(value, str) else "bigint"
    pair = f"({{{{}}}}::{kind}, {{{{}}}}::bigint)"
    within = f"({column}, {{id}}) >= {pair} AND ({column}, {{id}}) <= {pair}"
    return Stream(source, condition, id=id, prefix=(value,), within=within, order=f"{column} DESC, {{id}} DESC")


def _unfinished(state: State) -> Stream:
    if state is State.RUNNING:
        return Stream(_RUNNING, "true", within=_BETWEEN)
    return _by("job", "state", state.value, _IS_WAITING)
