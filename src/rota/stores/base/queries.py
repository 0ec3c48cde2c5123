"""Queries: jobs, their attempts and dependencies, and counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rota.core.ids import JobId
from rota.core.job import AGING_MICROS, Attempt, Job
from rota.core.lifecycle import Event, State
from rota.core.time import from_micros, span_to_micros, to_micros
from rota.ports.store import (
    LATEST_COMMIT,
    Ahead,
    Census,
    CompletedCount,
    DeadGroup,
    DeadNote,
    DeathCount,
    Edge,
)
from rota.stores.base.session import StoreSession
from rota.stores.rows import attempt_of, edge_of, job_of, lanes_of, states_of


async def get(session: StoreSession, ids: Sequence[JobId]) -> list[Job]:
    """Return jobs by id, in the order of the ids."""
    rows = await session.select_by("jobs_by_id", list(dict.fromkeys(ids)))
    jobs = {job.id: job for job in map(job_of, rows)}
    return [jobs[job_id] for job_id in ids if job_id in jobs]


async def attempts(session: StoreSession, job_id: JobId) -> list[Attempt]:
    """Return a job's attempts, oldest first.

    A running attempt, and one that ended in plain success, have no row of their own: they are read from the job.
    """
    known = [attempt_of(row) for row in await session.select("attempts", job_id=job_id)]
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


async def census(session: StoreSession, known: CompletedCount | None) -> Census:
    lanes = lanes_of(await session.select("census_lanes", aging=AGING_MICROS))
    finished = states_of(await session.select("census_failed"))
    pruned = states_of(await session.select("census_pruned"))
    completed, newest = await _completed(session, known, pruned.get(State.COMPLETED, 0))
    total = newest if completed is None else completed.count + newest
    return Census(lanes, {**finished, State.COMPLETED: total}, pruned, completed)


async def _completed(
    session: StoreSession, known: CompletedCount | None, pruned: int
) -> tuple[CompletedCount | None, int]:
    """Count the completed jobs that cannot become more, and the newest ones, which are counted again next time."""
    ((first, last),) = await session.select("completed_ends")
    if first is None:
        return None, 0
    settled = last - span_to_micros(LATEST_COMMIT)
    after, count = min(first - 1, settled), 0
    # If all that was known is gone, so may be some of what ended later: they are counted anew.
    if known is not None and first <= to_micros(known.until) and known.count + known.pruned >= pruned:
        after, count = to_micros(known.until), known.count + known.pruned - pruned
    until = max(settled, after)
    ((older,),) = await session.select("count_completed", after=after, until=until)
    ((newest,),) = await session.select("count_completed", after=until, until=max(last, until))
    return CompletedCount(from_micros(until), count + older, pruned), newest


async def ahead(session: StoreSession, job_id: JobId, types: Sequence[str], limit: int) -> Ahead:
    rows = await session.select_by("jobs_ahead", list(types), id=job_id, limit=limit)
    return Ahead(min(sum(int(count) for count, _ in rows), limit), sum(int(higher) for _, higher in rows))


async def blockers(session: StoreSession, job_id: JobId, limit: int) -> list[JobId]:
    """Return the jobs that a job still waits for."""
    return [parent for (parent,) in await session.select("blockers", child=job_id, limit=limit)]


async def parents_of(session: StoreSession, children: Sequence[JobId]) -> list[Edge]:
    """Return the dependencies of some jobs."""
    return [edge_of(row) for row in await session.select_by("dependencies_of_children", sorted(children))]


async def children_of(session: StoreSession, parents: Sequence[JobId]) -> list[Edge]:
    """Return the dependencies on some jobs."""
    return [edge_of(row) for row in await session.select_by("dependencies_on_parents", sorted(parents))]


async def dead_groups(session: StoreSession, limit: int) -> list[DeadGroup]:
    """Return dead jobs grouped by cause."""
    return [
        DeadGroup(type_, fingerprint, count, from_micros(first), from_micros(last), example)
        for type_, fingerprint, count, first, last, example in await session.select("dead_groups", limit=limit)
    ]


async def dead_trend(session: StoreSession, since: int, step: int) -> list[DeathCount]:
    """Count dead jobs by cause and time of death."""
    return [
        DeathCount(type_, fingerprint, int(place), count)
        for type_, fingerprint, place, count in await session.select("dead_trend", since=since, step=step)
    ]


async def put_dead_note(session: StoreSession, note: DeadNote, now: int) -> bool:
    """Set or remove the note on a cause."""
    cause = {"type": note.type, "fingerprint": note.fingerprint}
    if note.text is None:
        return await session.change("delete_dead_note", **cause) > 0
    await session.change("set_dead_note", **cause, text=note.text, set_by=note.set_by, set_at=now)
    return True


async def dead_notes(session: StoreSession) -> list[DeadNote]:
    return [
        DeadNote(type_, fingerprint, text, set_by, from_micros(set_at))
        for type_, fingerprint, text, set_by, set_at in await session.select("dead_notes")
    ]
