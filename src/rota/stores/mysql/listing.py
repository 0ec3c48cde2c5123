"""Which table of MariaDB gives the candidates of a list: mostly the place where such jobs stand, by its primary key."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Final

from rota.core.identity import JobId
from rota.core.instant import to_micros
from rota.core.lifecycle import FINISHED, State
from rota.ports.store import JobQuery
from rota.stores.listing import Condition, Question, Stream
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row

_LEASES: Final = Stream("lease FORCE INDEX (PRIMARY)", "true")


class MysqlDialect:
    """Lists on MariaDB."""

    select = statement("find")
    job_id = "job.id"
    finished_at = "job.finished_at"
    walk = Stream("job FORCE INDEX (PRIMARY)", "true")

    def placeholder(self, number: int) -> str:
        """Write the place of a value."""
        return f"%(value_{number})s"

    def streams(self, query: JobQuery) -> Generator[Question, Sequence[Row], Sequence[Stream]]:
        """Choose the tables by which a list is found."""
        yield from ()
        if query.tag is not None:
            return [Stream("tag FORCE INDEX (PRIMARY)", "tag = {}", (query.tag,), id="job_id")]
        if query.schedule_id is not None:
            return [Stream("fired FORCE INDEX (PRIMARY)", "schedule_id = {}", (query.schedule_id,), id="job_id")]
        if query.fingerprint is not None:
            # By id they are not ordered there: all dead jobs are looked at.
            condition = "state = 'dead' AND fingerprint = {}"
            return [Stream("finished FORCE INDEX (PRIMARY)", condition, (query.fingerprint,))]
        # Pending jobs stand in `ready` by their turn. Their ids are walked: a key for them would cost every job.
        if query.states and {*FINISHED, State.PENDING}.isdisjoint(query.states):
            return [_unfinished(state) for state in dict.fromkeys(query.states)]
        return []

    def finished(self, state: State) -> Stream:
        """Give the table of finished jobs by their end."""
        return Stream("finished FORCE INDEX (PRIMARY)", "state = {}", (state.value,))

    def among(self, ids: Sequence[JobId]) -> Condition:
        """Write that a job is one of these."""
        return "job.id IN {}", (tuple(ids),)

    def conditions(self, query: JobQuery) -> Iterator[Condition]:
        """Write what a query asks for."""
        if query.states:
            states = tuple(state.value for state in query.states)
            yield "IF(lease.id IS NULL, job.state, 'running') IN {}", (states,)
        if query.types:
            yield "job.type IN {}", (tuple(query.types),)
        if query.queues:
            yield "job.queue IN {}", (tuple(query.queues),)
        if query.tag is not None:
            yield "EXISTS (SELECT 1 FROM tag WHERE tag.tag = {} AND tag.job_id = job.id)", (query.tag,)
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


def _unfinished(state: State) -> Stream:
    if state is State.RUNNING:
        return _LEASES
    if state in {State.SCHEDULED, State.RETRYING}:
        return Stream("scheduled FORCE INDEX (scheduled_state)", "state = {}", (state.value,))
    return Stream("held FORCE INDEX (PRIMARY)", "state = {}", (state.value,))
