"""Looking at jobs without touching them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rota.core.attempt import Attempt
from rota.core.identity import LARGEST, JobId
from rota.core.instant import from_micros, to_micros
from rota.core.job import Job
from rota.core.lane import Lane, LaneCount
from rota.core.lifecycle import Event, State
from rota.ports.store import Census, DeadGroup, JobQuery
from rota.stores.mysql.driver import Connection, lists
from rota.stores.mysql.statements import statement
from rota.stores.rows import attempt_of, job_of, states_of


async def get(connection: Connection, ids: Sequence[JobId]) -> list[Job]:
    """Give jobs by id, in the order asked for."""
    jobs: dict[JobId, Job] = {}
    for some in lists(ids):
        jobs.update((row[0], job_of(row)) for row in await connection.rows(statement("get"), {"ids": some}))
    return [jobs[job_id] for job_id in ids if job_id in jobs]


async def find(connection: Connection, query: JobQuery) -> list[Job]:
    """Give the jobs that a query asks for, newest first."""
    return [job_of(row) for row in await connection.rows(*search(query))]


def search(query: JobQuery) -> tuple[str, dict[str, Any]]:
    """Write a query as a statement and its parameters."""
    beginning, job_id = ("find", "job.id") if query.schedule_id is None else ("find_fired", "fired.job_id")
    conditions = [f"{job_id} <= %(last)s" if query.before is None else f"{job_id} < %(last)s"]
    parameters: dict[str, Any] = {"last": LARGEST if query.before is None else query.before, "limit": query.limit}
    for condition, name, parameter in _conditions(query):
        conditions.append(condition)
        parameters[name] = parameter
    # Conditions are constants of this module; what the caller brings is bound.
    sql = f"{statement(beginning)} WHERE {' AND '.join(conditions)} ORDER BY {job_id} DESC LIMIT %(limit)s"
    return sql, parameters


def _conditions(query: JobQuery) -> Iterator[tuple[str, str, Any]]:
    if query.states:
        states = tuple(state.value for state in query.states)
        yield "IF(lease.id IS NULL, job.state, 'running') IN %(states)s", "states", states
    if query.types:
        yield "job.type IN %(types)s", "types", tuple(query.types)
    if query.queues:
        yield "job.queue IN %(queues)s", "queues", tuple(query.queues)
    if query.tag is not None:
        yield "job.id IN (SELECT job_id FROM tag WHERE tag = %(tag)s)", "tag", query.tag
    if query.worker is not None:
        yield "coalesce(lease.worker, job.worker) = %(worker)s", "worker", query.worker
    if query.schedule_id is not None:
        yield "fired.schedule_id = %(schedule_id)s", "schedule_id", query.schedule_id
    if query.fingerprint is not None:
        condition = "job.id IN (SELECT id FROM finished WHERE state = 'dead' AND fingerprint = %(fingerprint)s)"
        yield condition, "fingerprint", query.fingerprint
    if query.created_from is not None:
        yield "job.created_at >= %(created_from)s", "created_from", to_micros(query.created_from)
    if query.created_until is not None:
        yield "job.created_at < %(created_until)s", "created_until", to_micros(query.created_until)


async def attempts(connection: Connection, job_id: JobId) -> list[Attempt]:
    """Give a job's attempts, oldest first.

    The running one, and one that ended in plain success, have their facts in the job itself.
    """
    known = [attempt_of(row) for row in await connection.rows(statement("attempts"), {"id": job_id})]
    jobs = await get(connection, [job_id])
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


async def census(connection: Connection) -> Census:
    """Count all jobs."""
    lanes = await connection.rows(statement("census_lanes"))
    return Census(
        lanes=tuple(LaneCount(Lane(queue, type_), State(state), count) for queue, type_, state, count in lanes),
        finished=states_of(await connection.rows(statement("census_finished"))),
        pruned=states_of(await connection.rows(statement("census_pruned"))),
    )


async def dead_groups(connection: Connection, limit: int) -> list[DeadGroup]:
    """Give the causes that jobs have died of."""
    rows = await connection.rows(statement("dead_groups"), {"limit": limit})
    return [
        DeadGroup(type_, fingerprint, count, from_micros(first), from_micros(last), example)
        for type_, fingerprint, count, first, last, example in rows
    ]
