"""Looking at jobs without touching them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rota.core.attempt import Attempt
from rota.core.identity import JobId
from rota.core.instant import from_micros
from rota.core.job import AGING_MICROS, Job
from rota.core.lifecycle import Event, State
from rota.ports.store import Census, DeadGroup, JobQuery, JobSlice
from rota.stores.listing import answered, slice_of
from rota.stores.rows import attempt_of, ids_text, job_of, lanes_of, states_of
from rota.stores.sqlite.driver import Connection
from rota.stores.sqlite.listing import SqliteDialect
from rota.stores.sqlite.statements import statement

_DIALECT: Final = SqliteDialect()


def get(connection: Connection, ids: Sequence[JobId]) -> list[Job]:
    """Give jobs by id, in the order asked for."""
    jobs = {job.id: job for job in map(job_of, connection.rows(statement("get"), (ids_text(ids),)))}
    return [jobs[job_id] for job_id in ids if job_id in jobs]


def find(connection: Connection, query: JobQuery, size: int) -> JobSlice:
    """Give the jobs that a query asks for, as far as they are among so many candidates of each index."""
    return answered(slice_of(_DIALECT, query, size), connection.rows)


def attempts(connection: Connection, job_id: JobId) -> list[Attempt]:
    """Give a job's attempts, oldest first.

    The running one, and one that ended in plain success, have their facts in the job itself.
    """
    known = [attempt_of(row) for row in connection.rows(statement("attempts"), (job_id,))]
    jobs = get(connection, [job_id])
    if not jobs or jobs[0].fence == 0 or jobs[0].started_at is None:
        return known
    job, started_at = jobs[0], jobs[0].started_at
    if known and known[-1].fence == job.fence:
        last = known.pop()
    else:
        last = Attempt(job.id, job.fence, job.worker or "", job.boot or "", started_at)
    if last.ended_at is None and job.state is State.COMPLETED:
        last = replace(last, ended_at=job.finished_at, event=Event.SUCCEED)
    return [*known, last]


def census(connection: Connection) -> Census:
    """Count all jobs."""
    lanes = connection.rows(statement("census_lanes"), {"aging": AGING_MICROS})
    return Census(
        lanes=lanes_of(lanes),
        finished=states_of(connection.rows(statement("census_finished"))),
        pruned=states_of(connection.rows(statement("census_pruned"))),
    )


def blockers(connection: Connection, job_id: JobId, limit: int) -> list[JobId]:
    """Give the jobs that a job still waits for."""
    return [parent for (parent,) in connection.rows(statement("blockers"), {"child": job_id, "limit": limit})]


def dead_groups(connection: Connection, limit: int) -> list[DeadGroup]:
    """Give the causes that jobs have died of."""
    return [
        DeadGroup(type_, fingerprint, count, from_micros(first), from_micros(last), example)
        for type_, fingerprint, count, first, last, example in connection.rows(statement("dead_groups"), (limit,))
    ]
