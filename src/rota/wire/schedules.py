"""Schedules, occurrences, previews and forecasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from datetime import UTC, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from rota.core.cron import ClockChange
from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest
from rota.core.ids import JobId, ScheduleId, to_text
from rota.core.job import Job
from rota.core.lifecycle import State
from rota.core.schedule import Blackout, CatchUp, Draft, Fate, Occurrence, Overlap, Schedule, rule_of
from rota.wire.scalars import (
    Count,
    Duration,
    Identifier,
    Moment,
    Name,
    Priority,
    Seconds,
    duration_of,
    id_text,
    job_id_of,
    moment_of,
    schedule_id_of,
)
from rota.wire.submission import SERVER_DEFAULTS, Defaults, FollowUp, follow_up_of, template_of

CatchUpLimit = Annotated[int, Meta(ge=1, le=1_000)]


class ScheduleStatus(StrEnum):
    """Whether a schedule fires."""

    ACTIVE = "active"
    PAUSED = "paused"
    ENDED = "ended"
    #: Only in the response to its deletion.
    CANCELLED = "cancelled"


class BlackoutForm(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A period without fire times: once from `start`, or after every fire time of `cron`."""

    lasting: Duration
    start: Moment | None = None
    cron: Name | None = None


class ScheduleRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A new schedule."""

    name: Name
    cron: Name
    job: FollowUp
    zone: Name = "UTC"
    catch_up: CatchUp = CatchUp.LATEST
    catch_up_limit: CatchUpLimit = 100
    grace: Duration = 60.0
    overlap: Overlap = Overlap.ALLOW
    jitter: Duration = 0.0
    start_at: Moment | None = None
    end_at: Moment | None = None
    blackouts: Annotated[list[BlackoutForm], Meta(max_length=100)] = []


class ScheduleChange(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A change of a schedule; fields that are left out stay as they are."""

    name: Name | UnsetType = UNSET
    cron: Name | UnsetType = UNSET
    job: FollowUp | UnsetType = UNSET
    zone: Name | UnsetType = UNSET
    catch_up: CatchUp | UnsetType = UNSET
    catch_up_limit: CatchUpLimit | UnsetType = UNSET
    grace: Duration | UnsetType = UNSET
    overlap: Overlap | UnsetType = UNSET
    jitter: Duration | UnsetType = UNSET
    start_at: Moment | UnsetType | None = UNSET
    end_at: Moment | UnsetType | None = UNSET
    blackouts: Annotated[list[BlackoutForm], Meta(max_length=100)] | UnsetType = UNSET


class ScheduleForm(Struct, kw_only=True):
    """One schedule. `schedule` is its rule, as `cron` is; `next_run_at` is null once it has ended."""

    id: Identifier
    name: str
    status: ScheduleStatus
    cron: str
    schedule: str
    zone: str
    next_run_at: Moment | None
    last_run_at: Moment | None
    last_job_id: Identifier | None
    job: FollowUp
    catch_up: CatchUp
    catch_up_limit: CatchUpLimit
    grace: Seconds
    overlap: Overlap
    jitter: Seconds
    start_at: Moment | None
    end_at: Moment | None
    blackouts: list[BlackoutForm]
    paused_at: Moment | None
    pause_reason: str | None
    #: The app whose code defines it; null for one created over the API.
    app: str | None
    version: Count
    created_at: Moment
    updated_at: Moment


class RecurringForm(ScheduleForm, kw_only=True):
    """One schedule on the paths of jobs: with the fields of the jobs it creates."""

    type: str
    payload: Raw
    priority: Priority
    queue: str
    attempts: Count
    max_attempts: Count


class SchedulePage(Struct, kw_only=True):
    """A page of schedules, ordered by name."""

    items: list[ScheduleForm]
    next_cursor: str | None


class OccurrenceForm(Struct, kw_only=True):
    """One past fire time and its outcome."""

    fire_time: Moment
    fate: Fate
    job_id: Identifier | None


class OccurrencePage(Struct, kw_only=True):
    """A page of fire times, newest first."""

    items: list[OccurrenceForm]
    next_cursor: str | None


class BackfillRequest(Struct, kw_only=True, forbid_unknown_fields=True, rename={"start": "from", "end": "to"}):
    """The period whose missed fire times get their jobs; with `dry_run` they are only listed."""

    start: Moment
    end: Moment
    dry_run: bool = False


class BackfillReply(Struct, kw_only=True):
    """The created jobs; with `dry_run` the fire times that would get one."""

    jobs: list[Identifier] = []
    times: list[Moment] = []


class PreviewRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A rule to preview."""

    cron: Name
    zone: Name = "UTC"
    count: Annotated[int, Meta(ge=1, le=1_000)] = 10
    after: Moment | None = None


class ClockChangeForm(Struct, kw_only=True):
    """A clock change of the zone within a year that affects the rule, and its effect."""

    at: Moment
    kind: Literal["gap", "overlap"]
    #: The first affected time on the wall, without an offset.
    local_time: str
    runs_at: list[Moment]
    text: str


class RecentRun(Struct, kw_only=True):
    """A past fire time and the job that it made, if it is still kept.

    `late` is how long after the fire time the job started, in seconds, `duration` how long it ran.
    """

    fire_time: Moment
    fate: Fate
    job_id: Identifier | None
    state: State | None
    started_at: Moment | None
    late: float | None
    duration: float | None


class RecentRuns(Struct, kw_only=True):
    """The last runs of a schedule, newest first; `lateness_p95` is in seconds, of those that started."""

    schedule_id: Identifier
    name: str
    runs: list[RecentRun]
    lateness_p95: float | None


class RecentRunsPage(Struct, kw_only=True):
    """The last runs of schedules, ordered by the schedule's name."""

    items: list[RecentRuns]
    next_cursor: str | None


class PreviewReply(Struct, kw_only=True):
    """The next fire times, in UTC and in local time."""

    cron: str
    zone: str
    times: list[Moment]
    local_times: list[str]
    #: Clock changes within a year that affect the rule.
    clock_changes: list[ClockChangeForm] = []


class ForecastItem(Struct, kw_only=True):
    """One future fire time."""

    at: Moment
    schedule_id: Identifier
    name: str


class Forecast(Struct, kw_only=True):
    """Future fire times, earliest first. `is_complete` is false when some were left out."""

    until: Moment
    items: list[ForecastItem]
    is_complete: bool


class PauseRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The reason for a pause, and when it ends by itself, if it does."""

    reason: Annotated[str, Meta(max_length=1_000)] = ""
    resume_at: Moment | None = None


def refuse_without_effect(form: ScheduleRequest | ScheduleChange, catch_up: CatchUp) -> None:
    """Refuse what a schedule with this policy would not use."""
    if isinstance(form.job, FollowUp):
        if form.job.delay is not None:
            remedy = "the job of a schedule starts at its fire time; leave it out, or change 'cron'"
            raise InvalidRequest(f"delay: has no effect here: {remedy}", field="job.delay")
        if form.job.takes is not None:
            message = "takes: the job of a schedule waits for no other job; leave it out"
            raise InvalidRequest(message, field="job.takes")
    for name, policy, default in (("grace", CatchUp.SKIP, 60.0), ("catch_up_limit", CatchUp.ALL, 100)):
        if getattr(form, name) not in {UNSET, default} and catch_up is not policy:
            message = f"{name}: has no effect while catch_up is {str(catch_up)!r}; it belongs to {str(policy)!r}"
            raise InvalidRequest(message, field=name)


def draft_of(form: ScheduleRequest, defaults: Defaults = SERVER_DEFAULTS) -> Draft:
    return Draft(
        name=form.name,
        rule=str(rule_of(form.cron)),
        # A delay of the task holds for its submissions.
        template=replace(template_of(form.job, defaults), delay=None),
        zone=form.zone,
        catch_up=form.catch_up,
        catch_up_limit=form.catch_up_limit,
        grace=parse_duration(form.grace, field="grace"),
        overlap=form.overlap,
        jitter=parse_duration(form.jitter, field="jitter"),
        start_at=moment_of(form.start_at, "start_at"),
        end_at=moment_of(form.end_at, "end_at"),
        blackouts=tuple(_blackout_of(one) for one in form.blackouts),
    )


def draft_form(draft: Draft) -> ScheduleRequest:
    return ScheduleRequest(
        name=draft.name,
        cron=draft.rule,
        job=follow_up_of(draft.template),
        zone=draft.zone,
        catch_up=draft.catch_up,
        catch_up_limit=draft.catch_up_limit,
        grace=draft.grace.total_seconds(),
        overlap=draft.overlap,
        jitter=draft.jitter.total_seconds(),
        start_at=draft.start_at,
        end_at=draft.end_at,
        blackouts=[_blackout_form(one) for one in draft.blackouts],
    )


def apply_change(schedule: Schedule, change: ScheduleChange, defaults: Defaults = SERVER_DEFAULTS) -> Schedule:
    refuse_without_effect(change, schedule.catch_up if change.catch_up is UNSET else change.catch_up)
    merged = draft_form(schedule)
    for name in change.__struct_fields__:
        if (value := getattr(change, name)) is not UNSET:
            setattr(merged, name, value)
    draft = draft_of(merged, defaults)
    values: dict[str, Any] = {field.name: getattr(draft, field.name) for field in dataclass_fields(Draft)}
    values |= {"paused_at": schedule.paused_at, "pause_reason": schedule.pause_reason}
    return replace(schedule, **values)


def schedule_form(schedule: Schedule) -> ScheduleForm:
    return ScheduleForm(**_fields(schedule))


def recurring_form(schedule: Schedule) -> RecurringForm:
    template = schedule.template
    return RecurringForm(
        **_fields(schedule),
        type=template.type,
        payload=Raw(template.payload),
        priority=template.priority,
        queue=template.queue,
        attempts=0,
        max_attempts=template.max_attempts,
    )


def _fields(schedule: Schedule) -> dict[str, Any]:
    return {
        "id": to_text(schedule.id),
        "name": schedule.name,
        "status": schedule_status(schedule),
        "cron": schedule.rule,
        "schedule": schedule.rule,
        "zone": schedule.zone,
        "next_run_at": schedule.next_run_at,
        "last_run_at": schedule.last_fire_at,
        "last_job_id": id_text(schedule.last_job_id),
        "job": follow_up_of(schedule.template),
        "catch_up": schedule.catch_up,
        "catch_up_limit": schedule.catch_up_limit,
        "grace": schedule.grace.total_seconds(),
        "overlap": schedule.overlap,
        "jitter": schedule.jitter.total_seconds(),
        "start_at": schedule.start_at,
        "end_at": schedule.end_at,
        "blackouts": [_blackout_form(one) for one in schedule.blackouts],
        "paused_at": schedule.paused_at,
        "pause_reason": schedule.pause_reason,
        "app": schedule.app,
        "version": schedule.version,
        "created_at": schedule.created_at,
        "updated_at": schedule.updated_at,
    }


def schedule_status(schedule: Schedule) -> ScheduleStatus:
    if schedule.paused_at is not None:
        return ScheduleStatus.PAUSED
    return ScheduleStatus.ENDED if schedule.next_fire_at is None else ScheduleStatus.ACTIVE


def schedule_of(form: ScheduleForm) -> Schedule:
    """Read a schedule as the server showed it."""
    return Schedule(
        id=ScheduleId(schedule_id_of(form.id)),
        name=form.name,
        rule=form.cron,
        template=template_of(form.job),
        zone=form.zone,
        catch_up=form.catch_up,
        catch_up_limit=form.catch_up_limit,
        grace=timedelta(seconds=form.grace),
        overlap=form.overlap,
        jitter=timedelta(seconds=form.jitter),
        start_at=form.start_at,
        end_at=form.end_at,
        blackouts=tuple(_blackout_of(one) for one in form.blackouts),
        paused_at=form.paused_at,
        pause_reason=form.pause_reason,
        app=form.app,
        created_at=form.created_at,
        updated_at=form.updated_at,
        next_fire_at=form.next_run_at,
        last_fire_at=form.last_run_at,
        last_job_id=None if form.last_job_id is None else job_id_of(form.last_job_id),
        version=form.version,
    )


def clock_change_form(change: ClockChange) -> ClockChangeForm:
    return ClockChangeForm(
        at=change.at,
        kind="gap" if change.is_gap else "overlap",
        local_time=change.local_time.isoformat(),
        runs_at=[one.astimezone(UTC) for one in change.runs],
        text=change.text,
    )


def recent_runs(schedule: Schedule, occurrences: Sequence[Occurrence], jobs: Mapping[JobId, Job]) -> RecentRuns:
    """Describe the last runs of a schedule; jobs that were pruned are left out."""
    runs = [_recent_run(one, None if one.job_id is None else jobs.get(one.job_id)) for one in occurrences]
    late = sorted(run.late for run in runs if run.late is not None)
    p95 = late[min(int(len(late) * 0.95), len(late) - 1)] if late else None
    return RecentRuns(schedule_id=to_text(schedule.id), name=schedule.name, runs=runs, lateness_p95=p95)


def _recent_run(occurrence: Occurrence, job: Job | None) -> RecentRun:
    started, ended = (None, None) if job is None else (job.started_at, job.finished_at)
    return RecentRun(
        fire_time=occurrence.fire_time,
        fate=occurrence.fate,
        job_id=id_text(occurrence.job_id),
        state=None if job is None else job.state,
        started_at=started,
        # Of a job that was retried the last start is kept, which says nothing of the first.
        late=None
        if started is None or job is None or job.fence > 1
        else max((started - occurrence.fire_time).total_seconds(), 0.0),
        duration=None if started is None or ended is None else max((ended - started).total_seconds(), 0.0),
    )


def occurrence_form(occurrence: Occurrence) -> OccurrenceForm:
    return OccurrenceForm(fire_time=occurrence.fire_time, fate=occurrence.fate, job_id=id_text(occurrence.job_id))


def _blackout_of(form: BlackoutForm) -> Blackout:
    lasting = duration_of(form.lasting, "blackouts.lasting") or timedelta(0)
    return Blackout(lasting=lasting, start=moment_of(form.start, "blackouts.start"), rule=form.cron)


def _blackout_form(blackout: Blackout) -> BlackoutForm:
    return BlackoutForm(lasting=blackout.lasting.total_seconds(), start=blackout.start, cron=blackout.rule)
