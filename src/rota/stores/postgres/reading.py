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
from rota.stores.postgres.session import Session
from rota.stores.postgres.statements import statement
from rota.stores.rows import attempt_of, job_of, states_of
from rota.stores.texts import readable


async def get(session: Session, ids: Sequence[JobId]) -> list[Job]:
    """Give jobs by id, in the order asked for."""
    jobs = {job.id: job for job in map(job_of, await session.rows("get", list(dict.fromkeys(ids))))}
    return [jobs[job_id] for job_id in ids if job_id in jobs]


async def find(session: Session, query: JobQuery) -> list[Job]:
    """Give the jobs that a query asks for, newest first."""
    conditions: list[tuple[str, Any]] = [("id <= {}", LARGEST if query.before is None else query.before - 1)]
    conditions += _conditions(query)
    # Conditions are constants of this module; what the caller brings is bound.
    texts = [text.format(f"${number}") for number, (text, _) in enumerate(conditions, 1)]
    limit = f"${len(conditions) + 1}::bigint"
    sql = f"{statement('find')} WHERE {' AND '.join(texts)} ORDER BY id DESC LIMIT {limit}"
    rows = await session.fetch(sql, *(value for _, value in conditions), query.limit)
    return [job_of(row) for row in rows]


def _conditions(query: JobQuery) -> Iterator[tuple[str, Any]]:
    if query.states:
        yield "state = ANY({}::text[])", [state.value for state in query.states]
    if query.types:
        yield "type = ANY({}::text[])", list(query.types)
    if query.queues:
        yield "queue = ANY({}::text[])", list(query.queues)
    if query.tag is not None:
        yield "id IN (SELECT job_id FROM tag WHERE tag = {}::text)", query.tag
    if query.worker is not None:
        yield "worker = {}::text", query.worker
    if query.schedule_id is not None:
        yield "schedule_id = {}::bigint", query.schedule_id
    if query.fingerprint is not None:
        yield "state = 'dead' AND fingerprint = {}::text", query.fingerprint
    if query.created_from is not None:
        yield "created_at >= {}::bigint", to_micros(query.created_from)
    if query.created_until is not None:
        yield "created_at < {}::bigint", to_micros(query.created_until)


async def attempts(session: Session, job_id: JobId) -> list[Attempt]:
    """Give a job's attempts, oldest first.

    The running one, and one that ended in plain success, have their facts in the job itself.
    """
    known = [attempt_of(readable(row)) for row in await session.rows("attempts", job_id)]
    jobs = await get(session, [job_id])
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


async def census(session: Session) -> Census:
    """Count all jobs."""
    lanes = await session.rows("census_lanes")
    return Census(
        lanes=tuple(LaneCount(Lane(queue, type_), State(state), count) for queue, type_, state, count in lanes),
        finished=states_of(await session.rows("census_finished")),
        pruned=states_of(await session.rows("census_pruned")),
    )


async def dead_groups(session: Session, limit: int) -> list[DeadGroup]:
    """Give the causes that jobs have died of."""
    return [
        DeadGroup(type_, fingerprint, count, from_micros(first), from_micros(last), example)
        for type_, fingerprint, count, first, last, example in await session.rows("dead_groups", limit)
    ]
