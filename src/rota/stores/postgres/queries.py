"""Reads of jobs, attempts, counts and causes of death."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from rota.core.ids import JobId
from rota.core.job import AGING_MICROS, Attempt, Job
from rota.core.lifecycle import Event, State
from rota.core.time import from_micros
from rota.ports.store import Census, DeadGroup, JobQuery, JobSlice
from rota.stores.listing import read_slice_async, slice_of
from rota.stores.postgres.listing import PostgresDialect
from rota.stores.postgres.session import Session
from rota.stores.rows import Row, attempt_of, job_of, lanes_of, states_of
from rota.stores.text_codec import decode_row

_dialect = lru_cache(PostgresDialect)


async def get(session: Session, ids: Sequence[JobId]) -> list[Job]:
    """Return jobs by id, in the given order."""
    jobs = {job.id: job for job in map(job_of, await session.rows("jobs_by_id", list(dict.fromkeys(ids))))}
    return [jobs[job_id] for job_id in ids if job_id in jobs]


async def find(session: Session, query: JobQuery, size: int) -> JobSlice:
    """Return the jobs that match a query, reading at most `size` rows of each index; a page may be short."""

    async def rows(sql: str, values: list[Any]) -> Sequence[Row]:
        return await session.fetch(sql, *values)

    return await read_slice_async(slice_of(_dialect(session.qualifier), query, size), rows)


async def attempts(session: Session, job_id: JobId) -> list[Attempt]:
    """Return a job's attempts, oldest first.

    The running one, and one that ended in plain success, are not stored: they are made from the job.
    """
    stored = [attempt_of(decode_row(row)) for row in await session.rows("attempts", job_id)]
    jobs = await get(session, [job_id])
    if not jobs or jobs[0].fence == 0 or jobs[0].started_at is None:
        return stored
    job, started_at = jobs[0], jobs[0].started_at
    if stored and stored[-1].fence == job.fence:
        last = stored.pop()
    else:
        last = Attempt(job.id, job.fence, job.worker or "", job.boot or "", started_at)
    if last.ended_at is None and job.state is State.COMPLETED:
        last = replace(last, ended_at=job.finished_at, event=Event.SUCCEED)
    return [*stored, last]


async def census(session: Session) -> Census:
    lanes = await session.rows("census_lanes", AGING_MICROS)
    return Census(
        lanes=lanes_of(lanes),
        finished=states_of(await session.rows("census_finished")),
        pruned=states_of(await session.rows("census_pruned")),
    )


async def blockers(session: Session, job_id: JobId, limit: int) -> list[JobId]:
    """Return the jobs that a job still waits for."""
    return [parent for (parent,) in await session.rows("blockers", job_id, limit)]


async def dead_groups(session: Session, limit: int) -> list[DeadGroup]:
    """Return dead jobs grouped by cause."""
    return [
        DeadGroup(type_, fingerprint, count, from_micros(first), from_micros(last), example)
        for type_, fingerprint, count, first, last, example in await session.rows("dead_groups", limit)
    ]
