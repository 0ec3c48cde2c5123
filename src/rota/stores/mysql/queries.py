"""Queries: jobs, lists, attempts, counts, dead letters."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar, TypeVarTuple

from rota.core.ids import JobId
from rota.core.job import AGING_MICROS, Attempt, Job
from rota.core.lifecycle import Event, State
from rota.core.time import from_micros
from rota.ports.store import Census, DeadGroup, JobQuery, JobSlice
from rota.stores.listing import read_slice_async, slice_of
from rota.stores.mysql.driver import MysqlConnection, chunks
from rota.stores.mysql.listing import MysqlDialect
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row, attempt_of, job_of, lanes_of, states_of

_DIALECT: Final = MysqlDialect()

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def get(connection: MysqlConnection, ids: Sequence[JobId]) -> list[Job]:
    """Return jobs by id, in the order of the ids."""
    jobs: dict[JobId, Job] = {}
    for chunk in chunks(ids):
        jobs.update((row[0], job_of(row)) for row in await connection.rows(statement("jobs_by_id"), {"ids": chunk}))
    return [jobs[job_id] for job_id in ids if job_id in jobs]


async def find(connection: MysqlConnection, query: JobQuery, size: int) -> JobSlice:
    """Return the jobs of a query that are among the next `size` candidates of each index."""

    async def rows(sql: str, values: list[Any]) -> Sequence[Row]:
        return await connection.rows(sql, {f"value_{number}": value for number, value in enumerate(values)})

    return await read_slice_async(slice_of(_DIALECT, query, size), rows)


async def attempts(connection: MysqlConnection, job_id: JobId) -> list[Attempt]:
    """Return the attempts of a job, oldest first.

    A running attempt, and one that ended in plain success, are made from the job itself.
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


async def census(connection: MysqlConnection) -> Census:
    lanes = await connection.rows(statement("census_lanes"), {"aging": AGING_MICROS})
    return Census(
        lanes=lanes_of(lanes),
        finished=states_of(await connection.rows(statement("census_finished"))),
        pruned=states_of(await connection.rows(statement("census_pruned"))),
    )


async def blockers(connection: MysqlConnection, job_id: JobId, limit: int) -> list[JobId]:
    rows = await connection.rows(statement("blockers"), {"child": job_id, "limit": limit})
    return [parent for (parent,) in rows]


async def dead_groups(connection: MysqlConnection, limit: int) -> list[DeadGroup]:
    """Return dead jobs grouped by cause."""
    rows = await connection.rows(statement("dead_groups"), {"limit": limit})
    return [
        DeadGroup(type_, fingerprint, count, from_micros(first), from_micros(last), example)
        for type_, fingerprint, count, first, last, example in rows
    ]


async def limited(
    connection: MysqlConnection,
    seconds: int,
    verb: Callable[[MysqlConnection, *Ts], Coroutine[Any, Any, T]],
    *arguments: *Ts,
) -> T:
    """Run several reads in one snapshot; the server ends a statement that takes longer than `seconds`."""
    limit = f"max_statement_time = {seconds}" if connection.is_mariadb else f"max_execution_time = {seconds * 1000}"
    await connection.run(f"SET SESSION {limit}")
    return await in_snapshot(connection, verb, *arguments)


async def in_snapshot(
    connection: MysqlConnection, verb: Callable[[MysqlConnection, *Ts], Coroutine[Any, Any, T]], *arguments: *Ts
) -> T:
    """Run several reads in one snapshot."""
    connection.defer("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", {})
    connection.defer("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", {})
    answer = await verb(connection, *arguments)
    await connection.commit()
    return answer
