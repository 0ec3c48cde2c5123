"""Looking at jobs without touching them."""

from __future__ import annotations

import json
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
from rota.stores.rows import attempt_of, ids_text, job_of, states_of
from rota.stores.sqlite.driver import Connection
from rota.stores.sqlite.statements import statement


def get(connection: Connection, ids: Sequence[JobId]) -> list[Job]:
    """Give jobs by id, in the order asked for."""
    jobs = {job.id: job for job in map(job_of, connection.rows(statement("get"), (ids_text(ids),)))}
    return [jobs[job_id] for job_id in ids if job_id in jobs]


def find(connection: Connection, query: JobQuery) -> list[Job]:
    """Give the jobs that a query asks for, newest first."""
    conditions, parameters = ["id < ?"], [LARGEST + 1 if query.before is None else query.before]
    if query.before is None:
        conditions, parameters = ["id <= ?"], [LARGEST]
    for condition, parameter in _conditions(query):
        conditions.append(condition)
        parameters.append(parameter)
    # Conditions are constants of this module; what the caller brings is bound.
    sql = f"{statement('find')} WHERE {' AND '.join(conditions)} ORDER BY id DESC LIMIT ?"
    return [job_of(row) for row in connection.rows(sql, [*parameters, query.limit])]


def _conditions(query: JobQuery) -> Iterator[tuple[str, Any]]:
    if query.states:
        yield "state IN (SELECT value FROM json_each(?))", json.dumps([state.value for state in query.states])
    if query.types:
        yield "type IN (SELECT value FROM json_each(?))", json.dumps(query.types)
    if query.queues:
        yield "queue IN (SELECT value FROM json_each(?))", json.dumps(query.queues)
    if query.tag is not None:
        yield "id IN (SELECT job_id FROM tag WHERE tag = ?)", query.tag
    if query.worker is not None:
        yield "worker = ?", query.worker
    if query.schedule_id is not None:
        yield "schedule_id = ?", query.schedule_id
    if query.fingerprint is not None:
        yield "state = 'dead' AND fingerprint = ?", query.fingerprint
    if query.created_from is not None:
        yield "created_at >= ?", to_micros(query.created_from)
    if query.created_until is not None:
        yield "created_at < ?", to_micros(query.created_until)


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
    lanes = connection.rows(statement("census_lanes"))
    return Census(
        lanes=tuple(LaneCount(Lane(queue, type_), State(state), count) for queue, type_, state, count in lanes),
        finished=states_of(connection.rows(statement("census_finished"))),
        pruned=states_of(connection.rows(statement("census_pruned"))),
    )


def dead_groups(connection: Connection, limit: int) -> list[DeadGroup]:
    """Give the causes that jobs have died of."""
    return [
        DeadGroup(type_, fingerprint, count, from_micros(first), from_micros(last), example)
        for type_, fingerprint, count, first, last, example in connection.rows(statement("dead_groups"), (limit,))
    ]
