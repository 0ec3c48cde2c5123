"""Recurring work: putting schedules up, and making the jobs they owe."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Final

from rota.core.errors import IllegalTransition, InvalidRequest, ScheduleNotFound
from rota.core.identity import JobId, ScheduleId, to_text
from rota.core.ledger import Entry
from rota.core.lifecycle import FINISHED
from rota.core.schedule import (
    LARGEST_CATCH_UP,
    Draft,
    Firing,
    Occurrence,
    Overlap,
    Schedule,
    backfill,
    plan,
    rule_of,
    zone_of,
)
from rota.core.submission import check
from rota.engine.jobs import ROUNDS, Jobs
from rota.engine.parts import Parts
from rota.ports.faces import Actor
from rota.ports.places import TIMETABLE
from rota.telemetry.events import ScheduleChanged, ScheduleFired

#: Fire times further back are pruned from the record after this time (`Retention.history`).
OLDEST_BACKFILL: Final = timedelta(days=89)
#: The most fire times shown at once.
LONGEST_PREVIEW: Final = 1000
_TIMING: Final = ("rule", "zone", "start_at", "end_at", "paused_at")
_log = logging.getLogger("rota.schedules")


class Schedules:
    """Create, edit, pause, resume, run now, backfill, drop, fire."""

    def __init__(self, parts: Parts, jobs: Jobs) -> None:
        self._parts = parts
        self._jobs = jobs

    async def create(self, draft: Draft, by: Actor) -> Schedule:
        """Put a schedule up; its name must be free."""
        _check(draft)
        now = await self._parts.store.time()
        values = {field.name: getattr(draft, field.name) for field in fields(Draft)}
        schedule = Schedule(id=self._parts.fresh_id.schedule(), created_at=now, updated_at=now, **values)
        schedule = replace(schedule, next_fire_at=schedule.next_after(now))
        if not await self._parts.store.put_schedules([schedule], entry=_entry(by, "create", schedule)):
            raise IllegalTransition(f"schedule {draft.name!r}: the name is taken; edit that one or choose another name")
        await self._tell(schedule, "created")
        return await self.one(schedule.id)

    async def put(self, draft: Draft, by: Actor) -> Schedule:
        """Have a schedule of this name be as the draft says: create it, edit it, or leave it if it is so already.

        Several processes may want the same at the same moment: an app on two hosts that starts.
        """
        for _ in range(ROUNDS - 1):
            with suppress(IllegalTransition):
                return await self._put(draft, by)
        return await self._put(draft, by)

    async def _put(self, draft: Draft, by: Actor) -> Schedule:
        found = await self._parts.store.schedules(names=[draft.name])
        if not found:
            return await self.create(draft, by)
        names = [field.name for field in fields(Draft) if field.name not in {"paused_at", "pause_reason"}]
        wanted = {name: getattr(draft, name) for name in names}
        if all(getattr(found[0], name) == value for name, value in wanted.items()):
            return found[0]
        return await self.edit(replace(found[0], **wanted), by)

    async def edit(self, schedule: Schedule, by: Actor, *, action: str = "edit") -> Schedule:
        """Replace a schedule that is still at the version it was read at.

        Where its times change, they are counted anew from now; otherwise what it owes stays owed.
        """
        _check(schedule)
        current = await self.one(schedule.id)
        if any(getattr(schedule, name) != getattr(current, name) for name in _TIMING):
            schedule = replace(schedule, next_fire_at=schedule.next_after(await self._parts.store.time()))
        if not await self._parts.store.put_schedules([schedule], entry=_entry(by, action, schedule)):
            raise IllegalTransition(
                f"schedule {schedule.name!r}: it was changed meanwhile, or the name is taken; read it and try again"
            )
        await self._tell(schedule, action)
        return await self.one(schedule.id)

    async def pause(self, schedule_id: ScheduleId, reason: str, by: Actor) -> Schedule:
        """Stop a schedule from firing; fire times that pass meanwhile are not made up for."""
        schedule = await self.one(schedule_id)
        if schedule.paused_at is not None:
            return schedule
        paused = replace(schedule, paused_at=self._parts.clock(), pause_reason=reason)
        return await self.edit(paused, by, action="pause")

    async def resume(self, schedule_id: ScheduleId, by: Actor) -> Schedule:
        """Let a schedule fire again, from now on."""
        schedule = await self.one(schedule_id)
        if schedule.paused_at is None:
            return schedule
        return await self.edit(replace(schedule, paused_at=None, pause_reason=None), by, action="resume")

    async def drop(self, schedule_id: ScheduleId, by: Actor) -> None:
        """Delete a schedule; jobs it has made stay."""
        schedule = await self.one(schedule_id)
        await self._parts.store.drop_schedules([schedule_id], entry=_entry(by, "drop", schedule))
        await self._tell(schedule, "dropped")

    async def run_now(self, schedule_id: ScheduleId, by: Actor) -> JobId:
        """Make a job of a schedule's template at once, beside its fire times."""
        schedule = await self.one(schedule_id)
        now = await self._parts.store.time()
        job = schedule.template.make(self._parts.fresh_id(), now, schedule_id=schedule.id)
        answers = await self._jobs.submit([job])
        await self._parts.store.record([_entry(by, "run_now", schedule)])
        return answers[0].job_id

    async def backfill(self, schedule_id: ScheduleId, start: datetime, end: datetime, by: Actor) -> Sequence[JobId]:
        """Make the jobs that a past stretch of time should have made and did not."""
        schedule = await self.one(schedule_id)
        now = await self._parts.store.time()
        if start < now - OLDEST_BACKFILL:
            raise InvalidRequest(
                f"start: {start} lies over {OLDEST_BACKFILL.days} days back; what was made then is no longer on record"
                " and could be made twice",
                field="start",
            )
        firing = backfill(schedule, start, end, now, fresh_id=self._parts.fresh_id)
        made = await self._parts.store.fire([firing])
        await self._parts.store.record([_entry(by, "backfill", schedule, f"{start} to {end}: {len(made)} jobs")])
        await self._parts.broker.announce((schedule.template.queue, TIMETABLE))
        return made

    async def one(self, schedule_id: ScheduleId) -> Schedule:
        """Look at a schedule that must be there."""
        found = await self._parts.store.schedules([schedule_id])
        if not found:
            raise ScheduleNotFound(f"schedule {to_text(schedule_id)}: unknown", field="id")
        return found[0]

    async def named(self, name: str) -> Schedule:
        """Look at a schedule by its name."""
        found = await self._parts.store.schedules(names=[name])
        if not found:
            raise ScheduleNotFound(f"schedule {name!r}: unknown", field="name")
        return found[0]

    async def all(self, *, after: str = "", limit: int = 100) -> Sequence[Schedule]:
        """Look at the schedules in the order of their names."""
        return await self._parts.store.schedules(after=after, limit=limit)

    async def occurrences(
        self, schedule_id: ScheduleId, *, before: datetime | None = None, limit: int = 100
    ) -> Sequence[Occurrence]:
        """Look at what became of a schedule's fire times, newest first."""
        return await self._parts.store.occurrences(schedule_id, before=before, limit=limit)

    def preview(self, rule: str, zone: str, count: int, after: datetime | None = None) -> list[datetime]:
        """Show the next fire times of a rule in its zone."""
        if not 1 <= count <= LONGEST_PREVIEW:
            raise InvalidRequest(f"count: {count} must lie between 1 and {LONGEST_PREVIEW}", field="count")
        return rule_of(rule).preview((after or self._parts.clock()).astimezone(zone_of(zone)), count)

    async def fire(self, limit: int) -> int:
        """Make the jobs that schedules owe by now, each exactly once however many do this."""
        due = await self._parts.store.due_schedules(limit)
        if not due:
            return 0
        # Asked after them: by the same clock they are due at this moment as well.
        now = await self._parts.store.time()
        firings: list[tuple[Schedule, Firing]] = []
        for schedule in due:
            try:
                firings.append((schedule, await self._planned(schedule, now)))
            except InvalidRequest as error:
                # Its zone may have vanished from the tz data, say. The others must not wait for it. (That the store is
                # away is another matter, and no schedule's fault: the next pass looks again.)
                await self._set_aside(schedule, error)
        if firings:
            made = set(await self._parts.store.fire([firing for _, firing in firings]))
            await self._told(firings, made, now)
        return len(due)

    async def _planned(self, schedule: Schedule, now: datetime) -> Firing:
        previous_is_active = False
        if schedule.overlap is not Overlap.ALLOW and schedule.last_job_id is not None:
            previous = await self._parts.store.get([schedule.last_job_id])
            previous_is_active = bool(previous) and previous[0].state not in FINISHED
        return plan(schedule, now, previous_is_active=previous_is_active, fresh_id=self._parts.fresh_id)

    async def _set_aside(self, schedule: Schedule, error: InvalidRequest) -> None:
        _log.error("schedule %r cannot be planned and is paused: %s", schedule.name, error)
        paused = replace(schedule, paused_at=self._parts.clock(), pause_reason=f"cannot be planned: {error}")
        await self._parts.store.put_schedules([paused])

    async def _told(self, firings: Sequence[tuple[Schedule, Firing]], made: set[JobId], now: datetime) -> None:
        queues = {TIMETABLE}
        for schedule, firing in firings:
            jobs = [job for job in firing.jobs if job.id in made]
            queues.update(job.queue for job in jobs)
            if firing.planned_for is not None and (jobs or not firing.jobs):
                late = max((now - firing.planned_for).total_seconds(), 0.0)
                self._parts.telemetry.emit(ScheduleFired(schedule, firing, [job.id for job in jobs], late))
        await self._parts.broker.announce(queues)

    async def _tell(self, schedule: Schedule, action: str) -> None:
        self._parts.telemetry.emit(ScheduleChanged(schedule.name, action))
        await self._parts.broker.announce((TIMETABLE,))


def _check(draft: Draft) -> None:
    check(draft.template)
    rule_of(draft.rule)
    zone_of(draft.zone)
    for blackout in draft.blackouts:
        if blackout.rule is not None:
            rule_of(blackout.rule)
    if not 1 <= draft.catch_up_limit <= LARGEST_CATCH_UP:
        message = f"catch_up_limit: {draft.catch_up_limit} must lie between 1 and {LARGEST_CATCH_UP}"
        raise InvalidRequest(message, field="catch_up_limit")
    for name in ("jitter", "grace"):
        if getattr(draft, name) < timedelta(0):
            raise InvalidRequest(f"{name}: {getattr(draft, name)} must not be negative", field=name)
    if draft.start_at is not None and draft.end_at is not None and draft.end_at <= draft.start_at:
        raise InvalidRequest(f"end_at: {draft.end_at} must come after start_at, {draft.start_at}", field="end_at")


def _entry(by: Actor, action: str, schedule: Schedule, detail: str = "") -> Entry:
    return Entry(by.name, f"schedules.{action}", schedule.name, by.origin, detail)
