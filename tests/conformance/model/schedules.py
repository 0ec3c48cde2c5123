"""The reference model's schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from conformance.model.jobs import Jobs
from rota.core.ids import JobId, ScheduleId
from rota.core.ledger import LedgerEntry
from rota.core.schedule import Fate, Firing, Occurrence, Schedule
from rota.core.submission import NewJob


class Schedules(Jobs):
    async def put_schedules(
        self, schedules: Sequence[Schedule], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[ScheduleId]:
        moment = self.at(now)
        written = [each.id for each in schedules if self._put(each, moment)]
        self.write(entry if written else None, moment)
        return written

    def _put(self, schedule: Schedule, now: datetime) -> bool:
        old = self.plans.get(schedule.id)
        is_taken = any(other.name == schedule.name and other.id != schedule.id for other in self.plans.values())
        if schedule.version != (old.version if old is not None else 0) or is_taken:
            return False
        self.plans[schedule.id] = replace(
            schedule,
            version=schedule.version + 1,
            created_at=old.created_at if old is not None else now,
            updated_at=now,
            # Only `fire` records what has fired.
            last_fire_at=old.last_fire_at if old is not None else None,
            last_job_id=old.last_job_id if old is not None else None,
        )
        return True

    async def schedules(
        self, ids: Sequence[ScheduleId] = (), *, names: Sequence[str] = (), after: str = "", limit: int = 1000
    ) -> Sequence[Schedule]:
        everything = sorted(self.plans.values(), key=lambda plan: plan.name)
        if ids or names:
            return [plan for plan in everything if plan.id in ids or plan.name in names]
        return [plan for plan in everything if plan.name > after][:limit]

    async def due_schedules(self, limit: int, *, now: datetime | None = None) -> Sequence[Schedule]:
        moment = self.at(now)
        due = [
            (plan.next_fire_at, plan.id)
            for plan in self.plans.values()
            if plan.next_fire_at is not None and plan.next_fire_at <= moment and plan.paused_at is None
        ]
        return [self.plans[plan_id] for _, plan_id in sorted(due)[:limit]]

    async def fire(
        self, firings: Sequence[Firing], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[JobId]:
        moment = self.at(now)
        made = [job_id for firing in firings for job_id in self._fire(firing, moment)]
        self.write(entry if made else None, moment)
        return made

    def _fire(self, firing: Firing, now: datetime) -> list[JobId]:
        plan = self.plans.get(firing.schedule_id)
        if plan is None or plan.version != firing.version:
            return []
        if not firing.is_backfill and (plan.paused_at is not None or plan.next_fire_at != firing.planned_for):
            return []
        made: dict[JobId, Occurrence] = {}
        jobs = {job.id: job for job in firing.jobs}
        names: dict[JobId | None, JobId | None] = {}
        for each in firing.occurrences:
            name = (plan.id, each.fire_time)
            known = self.fired.get(name)
            if known is not None and (known.fate is not Fate.MISSED or each.fate is Fate.MISSED):
                continue
            job_id = None if each.job_id is None else self.make(_renamed(jobs[each.job_id], names), now)
            names[each.job_id] = job_id
            self.fired[name] = replace(each, job_id=job_id)
            self.fired_at[name] = now
            if job_id is not None:
                made[job_id] = each
        if made:
            self.replace_jobs(firing.cancels, now)
        if not firing.is_backfill:
            self._advance(plan, firing, made)
        return list(made)

    def _advance(self, plan: Schedule, firing: Firing, made: dict[JobId, Occurrence]) -> None:
        plan = replace(plan, next_fire_at=firing.next_fire_at)
        for job_id, occurrence in made.items():
            plan = replace(plan, last_fire_at=occurrence.fire_time, last_job_id=job_id)
        self.plans[plan.id] = plan

    async def drop_schedules(
        self, ids: Sequence[ScheduleId], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[ScheduleId]:
        dropped = [schedule_id for schedule_id in ids if self.plans.pop(schedule_id, None) is not None]
        for name in [name for name in self.fired if name[0] in dropped]:
            del self.fired[name], self.fired_at[name]
        self.write(entry if dropped else None, self.at(now))
        return dropped

    async def occurrences(
        self, schedule_id: ScheduleId, *, before: datetime | None = None, limit: int = 100
    ) -> Sequence[Occurrence]:
        newest_first = sorted(
            (each for each in self.fired.values() if each.schedule_id == schedule_id),
            key=lambda each: each.fire_time,
            reverse=True,
        )
        return [each for each in newest_first if before is None or each.fire_time < before][:limit]


def _renamed(job: NewJob, names: dict[JobId | None, JobId | None]) -> NewJob:
    """Let a job wait for its predecessor under the id that one was made under."""
    return replace(job, after=tuple(replace(wait, on=names.get(wait.on) or wait.on) for wait in job.after))
