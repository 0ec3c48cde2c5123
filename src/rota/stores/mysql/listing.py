"""Lists of jobs: which table yields the candidates of a query, mostly a state table by its primary key."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final

from rota.core.ids import JobId
from rota.core.lifecycle import FINISHED, State
from rota.core.time import to_micros
from rota.ports.store import JobQuery, JobSlice
from rota.stores.listing import BoundStatement, CandidateIndex, Condition, read_slice_async, slice_of
from rota.stores.mysql.driver import MysqlConnection
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row

_LEASES: Final = CandidateIndex("rota_lease AS lease FORCE INDEX (PRIMARY)", "true")
_READY: Final = CandidateIndex("rota_ready AS ready FORCE INDEX (rota_ready_id)", "true")


class MysqlDialect:
    """The SQL of lists on MariaDB and MySQL."""

    select = statement("list_jobs")
    select_light = statement("list_light_jobs")
    count = statement("count_jobs")
    job_id = "job.id"
    finished_at = "job.finished_at"
    walk = CandidateIndex("rota_job AS job FORCE INDEX (PRIMARY)", "true")

    def placeholder(self, number: int) -> str:
        return f"%(value_{number})s"

    def streams(self, query: JobQuery) -> Generator[BoundStatement, Sequence[Row], Sequence[CandidateIndex]]:
        yield from ()
        if query.tag is not None:
            return [CandidateIndex("rota_tag AS tag FORCE INDEX (PRIMARY)", "tag = {}", (query.tag,), id="job_id")]
        if query.schedule_id is not None:
            return [
                CandidateIndex(
                    "rota_fired AS fired FORCE INDEX (PRIMARY)", "schedule_id = {}", (query.schedule_id,), id="job_id"
                )
            ]
        if query.fingerprint is not None:
            # Not in the order of ids there: all dead jobs are read.
            condition = "state = 'dead' AND fingerprint = {}"
            return [CandidateIndex("rota_finished AS finished FORCE INDEX (PRIMARY)", condition, (query.fingerprint,))]
        if query.states and FINISHED.isdisjoint(query.states):
            return [_unfinished(state) for state in dict.fromkeys(query.states)]
        return []

    def finished(self, state: State) -> CandidateIndex:
        return CandidateIndex("rota_finished AS finished FORCE INDEX (PRIMARY)", "state = {}", (state.value,))

    def among(self, ids: Sequence[JobId]) -> Condition:
        return "job.id IN {}", (tuple(ids),)

    def conditions(self, query: JobQuery) -> Iterator[Condition]:
        if query.states:
            states = tuple(state.value for state in query.states)
            yield "IF(lease.id IS NULL, job.state, 'running') IN {}", (states,)
        if query.types:
            yield "job.type IN {}", (tuple(query.types),)
        if query.queues:
            yield "job.queue IN {}", (tuple(query.queues),)
        if query.tag is not None:
            yield "EXISTS (SELECT 1 FROM rota_tag AS tag WHERE tag.tag = {} AND tag.job_id = job.id)", (query.tag,)
        if query.worker is not None:
            yield "coalesce(lease.worker, job.worker) = {}", (query.worker,)
        if query.schedule_id is not None:
            yield "job.schedule_id = {}", (query.schedule_id,)
        if query.fingerprint is not None:
            yield "job.state = 'dead' AND job.fingerprint = {}", (query.fingerprint,)
        if query.created_from is not None:
            yield "job.created_at >= {}", (to_micros(query.created_from),)
        if query.created_until is not None:
            yield "job.created_at < {}", (to_micros(query.created_until),)


def _unfinished(state: State) -> CandidateIndex:
    if state is State.RUNNING:
        return _LEASES
    if state is State.PENDING:
        return _READY
    if state in {State.SCHEDULED, State.RETRYING}:
        return CandidateIndex(
            "rota_scheduled AS scheduled FORCE INDEX (rota_scheduled_state)", "state = {}", (state.value,)
        )
    return CandidateIndex("rota_held AS held FORCE INDEX (PRIMARY)", "state = {}", (state.value,))


_DIALECT: Final = MysqlDialect()


async def find(connection: MysqlConnection, query: JobQuery, size: int) -> JobSlice:
    """Return the jobs of a query that are among the next `size` candidates of each index."""

    async def rows(sql: str, values: list[Any]) -> Sequence[Row]:
        return await connection.rows(sql, {f"value_{number}": value for number, value in enumerate(values)})

    return await read_slice_async(slice_of(_DIALECT, query, size), rows)
