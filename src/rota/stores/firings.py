"""Firings of schedules: which of them a store may write in one statement, and the rows to write.

Ten thousand schedules may be due in the same second; a store on a server needs a handful of round trips for them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace

from rota.core.ids import JobId, ScheduleId
from rota.core.schedule import Firing
from rota.core.submission import Dependency, NewJob
from rota.core.time import to_micros
from rota.stores.rows import Row, micros

#: A schedule and one of its fire times, in microseconds.
FireTime = tuple[ScheduleId, int]


def groups(firings: Sequence[Firing]) -> Iterator[list[Firing]]:
    """Split firings into groups, in order: plain ones without common ids stay together, any other is alone."""
    group: list[Firing] = []
    known: set[int] = set()
    for firing in firings:
        # Ids of schedules and of jobs to be made: firings that share one by chance are written one by one.
        ids = {firing.schedule_id, *(job.id for job in firing.jobs)}
        if group and not (is_plain(firing) and is_plain(group[-1]) and known.isdisjoint(ids)):
            yield group
            group, known = [], set()
        group.append(firing)
        known |= ids
    if group:
        yield group


def is_plain(firing: Firing) -> bool:
    """Whether a firing only makes jobs: it cancels none, and none of its jobs waits for another."""
    return not (firing.is_backfill or firing.cancels or any(job.after for job in firing.jobs))


def still_holding(firings: Sequence[Firing], schedules: Sequence[Row]) -> list[Firing]:
    """Return the firings whose schedule is unchanged; rows are (id, version, next_fire_at, paused_at)."""
    by_id = {row[0]: row[1:] for row in schedules}
    return [
        firing
        for firing in firings
        if firing.schedule_id in by_id and _is_as_planned(firing, *by_id[firing.schedule_id])
    ]


def _is_as_planned(firing: Firing, version: int, next_fire_at: int | None, paused_at: int | None) -> bool:
    if firing.is_backfill:
        return version == firing.version
    return version == firing.version and next_fire_at == micros(firing.planned_for) and paused_at is None


def records(firings: Sequence[Firing]) -> dict[FireTime, tuple[str, JobId | None]]:
    """Return the record of each fire time: its fate, and its job if it makes one."""
    return {
        (firing.schedule_id, to_micros(one.fire_time)): (one.fate.value, one.job_id)
        for firing in firings
        for one in firing.occurrences
    }


def with_ids(job: NewJob, ids: Mapping[JobId, JobId]) -> NewJob:
    """Replace dependencies on jobs whose ids were taken and which got other ids."""
    if not any(ids.get(one.on, one.on) != one.on for one in job.after):
        return job
    return replace(job, after=tuple(Dependency(ids.get(one.on, one.on), one.need) for one in job.after))


def makes_any(firing: Firing, ids: Container[JobId]) -> bool:
    """Whether any job of a firing was made. If not, none is replaced: the recorded one is the latest."""
    return any(job.id in ids for job in firing.jobs)


def moves(firings: Sequence[Firing], ids: Mapping[JobId, JobId]) -> list[Row]:
    """Return the new fire times of schedules: (id, next_fire_at, last_fire_at, last_job_id). A backfill has none."""
    rows: list[Row] = []
    for firing in firings:
        if firing.is_backfill:
            continue
        fired = [
            (one.fire_time, ids[one.job_id])
            for one in firing.occurrences
            if one.job_id is not None and one.job_id in ids
        ]
        last_fire_at, last_job_id = (to_micros(fired[-1][0]), fired[-1][1]) if fired else (None, None)
        rows.append((firing.schedule_id, micros(firing.next_fire_at), last_fire_at, last_job_id))
    return rows
