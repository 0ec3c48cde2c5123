"""What stores write down when schedules fire, and which firings they may write down together.

Ten thousand schedules may be due in the same second; a store on a server asks it a handful of times for all of them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace

from rota.core.identity import JobId, ScheduleId
from rota.core.instant import to_micros
from rota.core.schedule import Firing
from rota.core.submission import Dependency, NewJob
from rota.stores.rows import Row, micros

#: A schedule and one of its fire times, in microseconds.
FireTime = tuple[ScheduleId, int]


def groups(firings: Sequence[Firing]) -> Iterator[list[Firing]]:
    """Cut firings into groups, in their order: plain ones with nothing in common stay together, any other is alone."""
    group: list[Firing] = []
    known: set[int] = set()
    for firing in firings:
        # Ids of both kinds, and of jobs yet to be made: two that have the same by chance are told apart one by one.
        ids = {firing.schedule_id, *(job.id for job in firing.jobs)}
        if group and not (is_plain(firing) and is_plain(group[-1]) and known.isdisjoint(ids)):
            yield group
            group, known = [], set()
        group.append(firing)
        known |= ids
    if group:
        yield group


def is_plain(firing: Firing) -> bool:
    """Say whether a firing only makes jobs: none is cancelled for them, and none waits for another."""
    return not (firing.is_backfill or firing.cancels or any(job.after for job in firing.jobs))


def still_holding(firings: Sequence[Firing], schedules: Sequence[Row]) -> list[Firing]:
    """Give the firings whose schedules are as they were planned from: (id, version, next_fire_at, paused_at)."""
    found = {row[0]: row[1:] for row in schedules}
    return [
        firing
        for firing in firings
        if firing.schedule_id in found and _is_as_planned(firing, *found[firing.schedule_id])
    ]


def _is_as_planned(firing: Firing, version: int, next_fire_at: int | None, paused_at: int | None) -> bool:
    if firing.is_backfill:
        return version == firing.version
    return version == firing.version and next_fire_at == micros(firing.planned_for) and paused_at is None


def records(firings: Sequence[Firing]) -> dict[FireTime, tuple[str, JobId | None]]:
    """Give what is to be recorded of each fire time: its fate, and its job if it makes one."""
    return {
        (firing.schedule_id, to_micros(one.fire_time)): (one.fate.value, one.job_id)
        for firing in firings
        for one in firing.occurrences
    }


def with_ids(job: NewJob, ids: Mapping[JobId, JobId]) -> NewJob:
    """Follow the rare job whose id was taken and which has another one now."""
    if not any(ids.get(one.on, one.on) != one.on for one in job.after):
        return job
    return replace(job, after=tuple(Dependency(ids.get(one.on, one.on), one.need) for one in job.after))


def makes_any(firing: Firing, ids: Container[JobId]) -> bool:
    """Say whether any job of a firing was made. Where none was, none is replaced: the one on record is the latest."""
    return any(job.id in ids for job in firing.jobs)


def moves(firings: Sequence[Firing], ids: Mapping[JobId, JobId]) -> list[Row]:
    """Give where schedules move to: (id, next_fire_at, last_fire_at, last_job_id). A backfill moves nothing."""
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
