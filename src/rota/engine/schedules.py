"""Schedule verbs: create, edit, pause, resume, delete, run now, backfill; and firing what is due."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Final

from rota.core.errors import IllegalTransition, InvalidCron, InvalidRequest, KeyReused, ScheduleNotFound
from rota.core.ids import JobId, ScheduleId, to_text
from rota.core.ledger import LedgerEntry
from rota.core.lifecycle import FINISHED
from rota.core.schedule import (
    LARGEST_CATCH_UP,
    Draft,
    Fate,
    Firing,
    Occurrence,
    Overlap,
    Schedule,
    backfill,
    is_left_to_others,
    plan,
    rule_of,
    zone_of,
)
from rota.core.submission import IdempotencyKey, check
from rota.core.time import MICROSECOND, to_micros
from rota.engine.deps import EngineDeps
from rota.engine.jobs import MOST_TRIES, Jobs
from rota.engine.queues import Backlogs
from rota.ports.client import Actor
from rota.ports.store import Inserted, Receipt
from rota.ports.wakeup import TIMETABLE, Topic
from rota.telemetry.events import ScheduleChanged, ScheduleFired

#: The record of fire times is pruned after `Retention.history`; an older range could make jobs twice.
OLDEST_BACKFILL: Final = timedelta(days=89)
#: The most fire times shown at once.
LONGEST_PREVIEW: Final = 1000
#: How many schedules `rearm` reads at once.
PAGE: Final = 100
_TIMING: Final = ("rule", "zone", "start_at", "end_at", "paused_at")
_log = logging.getLogger("rota.schedules")


class Schedules:
    """Create, edit, pause, resume, run now, backfill, drop, fire."""

    def __init__(self, deps: EngineDeps, jobs: Jobs, backlogs: Backlogs) -> None:
        self._deps = deps
        self._jobs = jobs
        self._backlogs = backlogs
        #: Since when this process fires schedules, by the store's clock.
        self._up_since: datetime | None = None

    async def create(self, draft: Draft, by: Actor) -> Schedule:
        """Create a schedule; its name must be free, and it must fire at least once."""
        schedule = await self._new(draft)
        if draft.end_at is not None and schedule.next_fire_at is None:
            problem = f"{draft.end_at.isoformat()} comes before the first fire time; give a later time, or leave it out"
            raise InvalidRequest(f"end_at: {problem}", field="end_at")
        return await self._store_new(schedule, by)

    async def _new(self, draft: Draft) -> Schedule:
        _check(draft)
        now = await self._deps.store.time()
        values = {field.name: getattr(draft, field.name) for field in fields(Draft)}
        schedule = Schedule(id=self._deps.fresh_id.schedule(), created_at=now, updated_at=now, **values)
        return replace(schedule, next_fire_at=schedule.next_after(now))

    async def _store_new(self, schedule: Schedule, by: Actor) -> Schedule:
        if not await self._deps.store.put_schedules([schedule], entry=_entry(by, "create", schedule)):
            remedy = "edit that one or choose another name"
            raise IllegalTransition(f"schedule {schedule.name!r}: the name is taken; {remedy}")
        await self._announce_change(schedule, "created")
        return await self.one(schedule.id)

    async def put(self, draft: Draft, by: Actor) -> Schedule:
        """Create or edit a schedule of an app so that it is as the draft says; do nothing if it is.

        A schedule of this name that an operator created, or that belongs to another app, is returned unchanged: its
        `app` is not the draft's. Several processes may do this at the same moment, when an app starts on two hosts.
        """
        for _ in range(MOST_TRIES - 1):
            with suppress(IllegalTransition):
                return await self._put(draft, by)
        return await self._put(draft, by)

    async def _put(self, draft: Draft, by: Actor) -> Schedule:
        stored = await self._deps.store.schedules(names=[draft.name])
        if not stored:
            # It may have ended: an app whose code has such a schedule must still start on a new store.
            return await self._store_new(await self._new(draft), by)
        if not _belongs_to(stored[0], draft):
            return stored[0]
        names = [field.name for field in fields(Draft) if field.name not in {"paused_at", "pause_reason"}]
        fields_of_draft = {name: getattr(draft, name) for name in names}
        if all(getattr(stored[0], name) == value for name, value in fields_of_draft.items()):
            return stored[0]
        return await self.edit(replace(stored[0], **fields_of_draft), by)

    async def edit(self, schedule: Schedule, by: Actor, *, action: str = "edit", keeps_owed: bool = False) -> Schedule:
        """Replace a schedule that is still at the version it was read at.

        If its times change, the next fire time is computed from now, unless `keeps_owed`; otherwise fire times that are
        due stay due.
        """
        _check(schedule)
        current = await self.one(schedule.id)
        if not keeps_owed and any(getattr(schedule, name) != getattr(current, name) for name in _TIMING):
            schedule = replace(schedule, next_fire_at=schedule.next_after(await self._deps.store.time()))
        if not await self._deps.store.put_schedules([schedule], entry=_entry(by, action, schedule)):
            raise IllegalTransition(
                f"schedule {schedule.name!r}: it was changed meanwhile, or the name is taken; read it and try again"
            )
        await self._announce_change(schedule, action)
        return await self.one(schedule.id)

    async def pause(self, schedule_id: ScheduleId, reason: str, by: Actor, *, keeps_owed: bool = False) -> Schedule:
        """Stop a schedule from firing; fire times that pass meanwhile are skipped.

        With `keeps_owed`, here and at `resume`, its catch-up policy decides about them.
        """
        schedule = await self.one(schedule_id)
        if schedule.paused_at is not None:
            return schedule
        paused = replace(schedule, paused_at=self._deps.clock(), pause_reason=reason)
        return await self.edit(paused, by, action="pause", keeps_owed=keeps_owed)

    async def resume(self, schedule_id: ScheduleId, by: Actor, *, keeps_owed: bool = False) -> Schedule:
        """Let a schedule fire again from now on; with `keeps_owed`, from the moment it was paused."""
        schedule = await self.one(schedule_id)
        if schedule.paused_at is None:
            return schedule
        resumed = replace(schedule, paused_at=None, pause_reason=None)
        return await self.edit(resumed, by, action="resume", keeps_owed=keeps_owed)

    async def drop(self, schedule_id: ScheduleId, by: Actor) -> None:
        """Delete a schedule; jobs it has made stay."""
        schedule = await self.one(schedule_id)
        await self._deps.store.drop_schedules([schedule_id], entry=_entry(by, "drop", schedule))
        await self._announce_change(schedule, "dropped")

    async def run_now(self, schedule_id: ScheduleId, by: Actor, key: IdempotencyKey | None = None) -> Inserted:
        """Submit a job of a schedule's template at once, beside its fire times; an idempotency key makes it once."""
        schedule = await self.one(schedule_id)
        now = await self._deps.store.time()
        job = schedule.template.make(self._deps.fresh_id(), now, schedule_id=schedule.id)
        (inserted,) = await self._jobs.submit([replace(job, idempotency=key)], entry=_entry(by, "run_now", schedule))
        if inserted.receipt is Receipt.QUEUE_FULL:
            raise await self._backlogs.full(job.queue)
        if inserted.receipt is Receipt.KEY_REUSED:
            message = "idempotency_key: it came before with another request; take a new key, or send the same request"
            raise KeyReused(message, field="idempotency_key")
        return inserted

    async def skip_next(self, schedule_id: ScheduleId, by: Actor) -> Schedule:
        """Skip the next fire time of a schedule: it is recorded as skipped, and makes no job, ever."""
        for _ in range(MOST_TRIES):
            schedule = await self.one(schedule_id)
            fire_time = schedule.next_fire_at
            if schedule.paused_at is not None or fire_time is None:
                state = "is paused" if schedule.paused_at is not None else "has no fire time left"
                raise IllegalTransition(f"schedule {schedule.name!r}: it {state}, so there is nothing to skip")
            if fire_time <= await self._deps.store.time():
                raise IllegalTransition(
                    f"schedule {schedule.name!r}: its fire time {fire_time:%Y-%m-%d %H:%M:%S} UTC is due already;"
                    " cancel its job instead"
                )
            occurrence = Occurrence(schedule.id, fire_time, Fate.SKIPPED)
            following = schedule.next_after(fire_time)
            await self._deps.store.fire(
                [Firing(schedule.id, schedule.version, fire_time, (occurrence,), (), following)]
            )
            skipped = await self.one(schedule_id)
            if skipped.next_fire_at != fire_time:
                # Not with the firing: entries are written with the jobs of one, and this makes none.
                entry = _entry(by, "skip", schedule, f"fire time {fire_time.isoformat()}")
                await self._deps.store.record([entry])
                await self._announce_change(schedule, "skip")
                return skipped
        raise IllegalTransition(f"schedule {to_text(schedule_id)}: it keeps changing; try again")

    async def backfill_times(self, schedule_id: ScheduleId, start: datetime, end: datetime) -> Sequence[datetime]:
        """Return the fire times for which `backfill` would make jobs. Changes nothing."""
        schedule = await self.one(schedule_id)
        firing = await self._backfill(schedule, start, end)
        recorded = await self._deps.store.occurrences(
            schedule_id, before=end + MICROSECOND, limit=LARGEST_CATCH_UP + len(firing.jobs)
        )
        done = {one.fire_time for one in recorded if one.fate is not Fate.MISSED}
        return [one.fire_time for one in firing.occurrences if one.job_id is not None and one.fire_time not in done]

    async def backfill(self, schedule_id: ScheduleId, start: datetime, end: datetime, by: Actor) -> Sequence[JobId]:
        """Make the jobs of past fire times that have not made any."""
        schedule = await self.one(schedule_id)
        firing = await self._backfill(schedule, start, end)
        entry = _entry(by, "backfill", schedule, f"{start} to {end}: {len(firing.jobs)} fire times")
        made = await self._deps.store.fire([firing], entry=entry)
        await self._deps.broker.announce((schedule.template.queue, TIMETABLE))
        return made

    async def _backfill(self, schedule: Schedule, start: datetime, end: datetime) -> Firing:
        now = await self._deps.store.time()
        if start < now - OLDEST_BACKFILL:
            raise InvalidRequest(
                f"from: {start} lies over {OLDEST_BACKFILL.days} days back; what was made then is no longer on record"
                " and could be made twice",
                field="from",
            )
        if end > now:
            remedy = f"those fire times make their jobs themselves; give {now.isoformat(timespec='seconds')} at most"
            raise InvalidRequest(f"to: {end.isoformat()} is not past; {remedy}", field="to")
        return backfill(schedule, start, end, now, fresh_id=self._deps.fresh_id)

    async def one(self, schedule_id: ScheduleId) -> Schedule:
        """Return a schedule; raise `ScheduleNotFound` if there is none of this id."""
        schedules = await self._deps.store.schedules([schedule_id])
        if not schedules:
            raise ScheduleNotFound(f"schedule {to_text(schedule_id)}: unknown", field="id")
        return schedules[0]

    async def named(self, name: str) -> Schedule:
        """Return a schedule; raise `ScheduleNotFound` if there is none of this name."""
        schedules = await self._deps.store.schedules(names=[name])
        if not schedules:
            raise ScheduleNotFound(f"schedule {name!r}: unknown", field="name")
        return schedules[0]

    async def all(self, *, after: str = "", limit: int = 100) -> Sequence[Schedule]:
        return await self._deps.store.schedules(after=after, limit=limit)

    async def occurrences(
        self, schedule_id: ScheduleId, *, before: datetime | None = None, limit: int = 100
    ) -> Sequence[Occurrence]:
        return await self._deps.store.occurrences(schedule_id, before=before, limit=limit)

    def preview(self, rule: str, zone: str, count: int, after: datetime | None = None) -> list[datetime]:
        """Compute the next fire times of a rule in a zone."""
        if not 1 <= count <= LONGEST_PREVIEW:
            raise InvalidRequest(f"count: {count} must lie between 1 and {LONGEST_PREVIEW}", field="count")
        return rule_of(rule).preview((after or self._deps.clock()).astimezone(zone_of(zone)), count)

    async def rearm(self) -> int:
        """Correct the next fire time of schedules after the store's clock was set back.

        When that clock is set back by an hour, each schedule's next fire time is an hour too late. The fire times in
        between fire as well, except those on record: a fire time makes one job, ever. This needs no memory of the
        clock step: a schedule's next fire time is never later than the next one by its rule.
        """
        count, after = 0, ""
        while schedules := await self._deps.store.schedules(after=after, limit=PAGE):
            # Read after the schedules, since they may fire meanwhile.
            now = await self._deps.store.time()
            self._up_since = None if self._up_since is None else min(self._up_since, now)
            late = [corrected for one in schedules if (corrected := rearmed(one, now)) is not None]
            if late:
                await self._deps.store.put_schedules(late)
            count, after = count + len(late), schedules[-1].name
        if count:
            _log.warning("the next fire time of %d schedules was too late and has been corrected", count)
            await self._deps.broker.announce((TIMETABLE,))
        return count

    async def fire(self, limit: int) -> int:
        """Make the jobs of all due fire times, each exactly once even if several processes do this at the same time."""
        due = await self._deps.store.due_schedules(limit)
        if not due and self._up_since is not None:
            return 0
        # Read after the due schedules, so that by the same clock they are due at this moment as well.
        now = await self._deps.store.time()
        # The minimum, because the clock may have been set back.
        self._up_since = up_since = now if self._up_since is None else min(self._up_since, now)
        firings: list[tuple[Schedule, Firing]] = []
        left = 0
        for schedule in due:
            try:
                if is_left_to_others(schedule, now, up_since):
                    left += 1
                else:
                    firings.append((schedule, await self._planned(schedule, now)))
                    # After a long pause each plan takes milliseconds; let other tasks of this loop run in between.
                    await asyncio.sleep(0)
            except InvalidRequest as error:
                # For example, its zone was removed from the tz data. Pause it, so that the others can fire. (An
                # unavailable store is no schedule's fault and is raised: the next pass tries again.)
                await self._pause_broken(schedule, error)
        if firings:
            made = set(await self._deps.store.fire([firing for _, firing in firings]))
            await self._announce_fired(firings, made, now)
        return len(due) - left

    async def _planned(self, schedule: Schedule, now: datetime) -> Firing:
        previous_is_active = False
        if schedule.overlap is not Overlap.ALLOW and schedule.last_job_id is not None:
            previous = await self._deps.store.get([schedule.last_job_id])
            previous_is_active = bool(previous) and previous[0].state not in FINISHED
        return plan(
            schedule,
            now,
            previous_is_active=previous_is_active,
            fresh_id=self._deps.fresh_id,
            up_since=self._up_since,
        )

    async def _pause_broken(self, schedule: Schedule, error: InvalidRequest) -> None:
        _log.error("schedule %r cannot be planned and has been paused: %s", schedule.name, error)
        paused = replace(schedule, paused_at=self._deps.clock(), pause_reason=f"cannot be planned: {error}")
        await self._deps.store.put_schedules([paused])

    async def _announce_fired(
        self, firings: Sequence[tuple[Schedule, Firing]], made: set[JobId], now: datetime
    ) -> None:
        topics: set[Topic] = {TIMETABLE}
        for schedule, firing in firings:
            jobs = [job for job in firing.jobs if job.id in made]
            topics.update(job.queue for job in jobs)
            if firing.planned_for is not None and (jobs or not firing.jobs):
                late = max((now - firing.planned_for).total_seconds(), 0.0)
                self._deps.telemetry.emit(ScheduleFired(schedule, firing, [job.id for job in jobs], late))
                await self._tell_missed(schedule, firing)
        await self._deps.broker.announce(topics)

    async def _tell_missed(self, schedule: Schedule, firing: Firing) -> None:
        """Notify webhooks of fire times that were skipped. Two schedulers may both send a message, with the same id."""
        missed = [one.fire_time for one in firing.occurrences if one.fate is Fate.MISSED]
        if missed:
            number = f"{to_text(schedule.id)}-{to_micros(missed[0])}-missed"
            data = {"schedule": schedule.name, "missed": len(missed), "first": missed[0].isoformat()}
            queue = schedule.template.queue
            await self._deps.webhook_events.emit("schedule.missed", schedule.name, data, queue=queue, number=number)

    async def _announce_change(self, schedule: Schedule, action: str) -> None:
        self._deps.telemetry.emit(ScheduleChanged(schedule.name, action))
        await self._deps.broker.announce((TIMETABLE,))


def rearmed(schedule: Schedule, now: datetime) -> Schedule | None:
    """Return a schedule with the next fire time by its rule after `now`, or None if its next fire time is not later."""
    if schedule.paused_at is not None:
        return None
    try:
        upcoming = schedule.next_after(now)
    except InvalidRequest:
        return None
    if upcoming is None or (schedule.next_fire_at is not None and schedule.next_fire_at <= upcoming):
        return None
    return replace(schedule, next_fire_at=upcoming)


def _belongs_to(schedule: Schedule, draft: Draft) -> bool:
    """Whether a stored schedule belongs to the app of a draft.

    Older releases stored the schedules of code without an owner. Such a row is the app's if it has the rule, zone and
    template of the draft; otherwise an operator created it.
    """
    if schedule.app == draft.app:
        return True
    is_same = all(getattr(schedule, name) == getattr(draft, name) for name in ("rule", "zone", "template"))
    return schedule.app is None and is_same


def _check(draft: Draft) -> None:
    check(draft.template)
    rule_of(draft.rule)
    zone_of(draft.zone)
    for blackout in draft.blackouts:
        if blackout.rule is not None:
            try:
                rule_of(blackout.rule)
            except InvalidCron as error:
                raise InvalidRequest(f"blackouts.cron: {error}", field="blackouts.cron") from None
    if not 1 <= draft.catch_up_limit <= LARGEST_CATCH_UP:
        message = f"catch_up_limit: {draft.catch_up_limit} must lie between 1 and {LARGEST_CATCH_UP}"
        raise InvalidRequest(message, field="catch_up_limit")
    for name in ("jitter", "grace"):
        if getattr(draft, name) < timedelta(0):
            raise InvalidRequest(f"{name}: {getattr(draft, name)} must not be negative", field=name)
    if draft.start_at is not None and draft.end_at is not None and draft.end_at <= draft.start_at:
        raise InvalidRequest(f"end_at: {draft.end_at} must come after start_at, {draft.start_at}", field="end_at")


def _entry(by: Actor, action: str, schedule: Schedule, detail: str = "") -> LedgerEntry:
    return LedgerEntry(by.name, f"schedules.{action}", schedule.name, by.origin, detail, surface=by.surface)
