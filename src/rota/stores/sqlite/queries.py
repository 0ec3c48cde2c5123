"""Queries: reading jobs, attempts and counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeVar

from rota.core.ids import JobId
from rota.core.job import AGING_MICROS, Attempt, Job
from rota.core.lifecycle import Event, State
from rota.core.time import from_micros
from rota.ports.store import Census, DeadGroup, JobQuery, JobSlice
from rota.stores.listing import read_slice, slice_of
from rota.stores.rows import attempt_of, ids_text, job_of, lanes_of, states_of
from rota.stores.sqlite.driver import DatabaseBusy, DatabaseFailed, SqliteConnection
from rota.stores.sqlite.listing import SqliteDialect
from rota.stores.sqlite.statements import statement

T = TypeVar("T")
_DIALECT: Final = SqliteDialect()


def get(connection: SqliteConnection, ids: Sequence[JobId]) -> list[Job]:
    """Return jobs by id, in the order of the ids."""
    jobs = {job.id: job for job in map(job_of, connection.rows(statement("jobs_by_id"), (ids_text(ids),)))}
    return [jobs[job_id] for job_id in ids if job_id in jobs]


def find(connection: SqliteConnection, query: JobQuery, size: int) -> JobSlice:
    """Return the jobs that match a query among the next `size` candidates of each index."""
    return read_slice(slice_of(_DIALECT, query, size), connection.rows)


def attempts(connection: SqliteConnection, job_id: JobId) -> list[Attempt]:
    """Return a job's attempts, oldest first.

    A running attempt, and one that ended in plain success, have no row of their own: they are read from the job.
    """
    known = [attempt_of(row) for row in connection.rows(statement("attempts_of_job"), (job_id,))]
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


def census(connection: SqliteConnection) -> Census:
    lanes = connection.rows(statement("count_unfinished_by_lane"), {"aging": AGING_MICROS})
    return Census(
        lanes=lanes_of(lanes),
        finished=states_of(connection.rows(statement("count_finished"))),
        pruned=states_of(connection.rows(statement("count_pruned"))),
    )


def blockers(connection: SqliteConnection, job_id: JobId, limit: int) -> list[JobId]:
    """Return the jobs that a job still waits for."""
    return [parent for (parent,) in connection.rows(statement("jobs_waited_for"), {"child": job_id, "limit": limit})]


def dead_groups(connection: SqliteConnection, limit: int) -> list[DeadGroup]:
    """Group dead jobs by cause."""
    return [
        DeadGroup(type_, fingerprint, count, from_micros(first), from_micros(last), example)
        for type_, fingerprint, count, first, last, example in connection.rows(
            statement("dead_jobs_by_cause"), (limit,)
        )
    ]


def in_snapshot(verb: Callable[..., T], connection: SqliteConnection, *arguments: object) -> T:
    """Run a verb of several reads on one snapshot of the database."""
    connection.run("SAVEPOINT reading")
    try:
        result = verb(connection, *arguments)
    except BaseException:
        # The first error must not be hidden by the second.
        with suppress(DatabaseFailed, DatabaseBusy):
            connection.run("RELEASE reading")
        raise
    connection.run("RELEASE reading")
    return result
