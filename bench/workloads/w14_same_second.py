"""W14: ten thousand schedules that are all due in the same second."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Final

from bench.drain import BY, PAYLOAD, drain, engine_on, start_worker, system_for, until_completed
from bench.fresh_stores import FreshStores
from bench.workloads.results import Line
from rota.core.ids import JobId, ScheduleId
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.schedule import Draft
from rota.core.submission import Template
from rota.engine import Engine
from rota.ports.store import JobQuery

AT_ONCE: Final = 64


async def same_second(fresh_stores: FreshStores, *, schedules: int) -> list[Line]:
    """Return how long after their second all jobs are made, and all are run, and that each was exactly once."""
    url = await fresh_stores.fresh()
    async with system_for(url) as system, engine_on(url) as engine:
        start_worker(system, "w", "--concurrency", "100")
        plain = await drain(engine, schedules, "suspends", ["w"])
        census = await engine.census()
        before, total = census.total(State.COMPLETED), census.total()
        # A scheduler that has long been running: it is the second that is measured, not its start.
        system.start("scheduler", "--store", url)
        due = await _put(engine, schedules)
        assert datetime.now(UTC) < due, "the schedules were not up in time; give them longer"
        await asyncio.sleep((due - datetime.now(UTC)).total_seconds())
        made = await _until_made(engine, total + schedules) - due
        await until_completed(engine, before + schedules)
        jobs = await _made(engine, due)
    _check(jobs, schedules, due)
    run = max(job.finished_at for job in jobs if job.finished_at is not None) - due
    seconds = run.total_seconds()
    first = min(job.started_at for job in jobs if job.started_at is not None) - due
    return [
        Line(f"{schedules:,} plain jobs drained", f"{plain:,.0f} jobs/s, {schedules / plain:.2f} s"),
        Line("first of the schedules' jobs started", f"{first.total_seconds() * 1000:.1f} ms after their second"),
        Line(
            f"all {schedules:,} jobs made",
            f"{made.total_seconds():.2f} s after",
            "the plain drain",
            made.total_seconds() * plain / schedules,
        ),
        Line("all run, each exactly once", f"{seconds:.2f} s after", "the plain drain", seconds * plain / schedules),
    ]


async def _put(engine: Engine, number: int) -> datetime:
    """Put schedules up that fire once in a year, and give the moment at which all of them will."""
    begun = time.perf_counter()
    draft = Draft(name="probe", rule="0 0 1 1 *", template=Template("suspends", PAYLOAD))
    for probe in range(50):
        await engine.schedules.create(_named(draft, f"probe-{probe}"), BY)
    # Leave twice the time that it takes to put them up one after the other.
    lead = 5 + 2 * number / 50 * (time.perf_counter() - begun)
    due = (datetime.now(UTC) + timedelta(seconds=lead)).replace(microsecond=0)
    rule = f"{due.second} {due.minute} {due.hour} {due.day} {due.month} *"
    names = iter(range(number))

    async def client() -> None:
        for name in names:
            await engine.schedules.create(Draft(name=f"s-{name}", rule=rule, template=draft.template), BY)

    await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    return due


def _named(draft: Draft, name: str) -> Draft:
    return Draft(name=name, rule=draft.rule, template=draft.template)


async def _until_made(engine: Engine, number: int) -> datetime:
    """Say when so many jobs were there to be seen: when they were stored, and not when storing them began."""
    while (await engine.census()).total() < number:  # noqa: ASYNC110 - other processes ring no bell of ours
        await asyncio.sleep(0.05)
    return datetime.now(UTC)


async def _made(engine: Engine, due: datetime) -> list[Job]:
    """Return the jobs that schedules made for a moment."""
    jobs: list[Job] = []
    before: JobId | None = None
    while True:
        page = await engine.find(JobQuery(limit=500, before=before, created_from=due - timedelta(minutes=1)))
        jobs += [job for job in page if job.fire_time == due]
        if not page:
            return jobs
        before = page[-1].id


def _check(jobs: list[Job], schedules: int, due: datetime) -> None:
    by_schedule: Counter[ScheduleId | None] = Counter(job.schedule_id for job in jobs)
    assert len(by_schedule) == len(jobs) == schedules, f"{len(jobs)} jobs of {len(by_schedule)} schedules"
    assert all(job.state is State.COMPLETED and job.attempts == 1 for job in jobs), "a job ran more than once"
    assert all(job.started_at is not None and job.started_at >= due for job in jobs), "a job ran before its second"
