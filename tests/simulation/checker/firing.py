"""Schedules and their fire times: I8."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from simulation.checker.court import Court
from simulation.checker.verdict import Record

SECOND: Final = 1_000_000
#: How long after its time a fire time may still be on its way when the run ends.
_SLACK_MICROS: Final = 30 * SECOND
#: How many fire times that were left out at once are on record at least.
_LARGEST_RECORD: Final = 100


def on_put_schedules(court: Court, record: Record) -> None:
    """Replay the making and editing of schedules."""
    for told in record["ask"]:
        if told["id"] in record["got"]:
            court.schedules.setdefault(told["id"], told)
            court.armed[told["id"]] = None if told["paused"] else told["next_fire_at"], told["version"] + 1


def on_fire(court: Court, record: Record) -> None:
    """Replay firings: what was made, and what had to give way to it."""
    made = set(record["got"])
    for firing in record["ask"]:
        if not _holds(court, firing):
            continue
        court.firings.append(firing)
        if not firing["is_backfill"]:
            court.armed[firing["schedule_id"]] = firing["next_fire_at"], firing["version"]
            _judge_policy(court, record, firing)
        _make(court, record, firing, [job for job in firing["jobs"] if job["id"] in made])


def _make(court: Court, record: Record, firing: dict[str, Any], jobs: list[dict[str, Any]]) -> None:
    for job in jobs:
        place = (firing["schedule_id"], job["fire_time"])
        if place in court.fired:
            court.blame("I8", f"schedule {place[0]}: fire time {place[1]} made a second job", record)
        court.fired[place] = job["id"]
    # The first has to give way before the next is made: a chain of jobs may replace each other in one go.
    for job in jobs:
        court.create(job, record)
    for job_id in firing["cancels"] if jobs else ():
        _withdraw(court, record, job_id)


def _holds(court: Court, firing: dict[str, Any]) -> bool:
    """Say whether a firing was written: only where its schedule is as it was planned from."""
    armed, version = court.armed.get(firing["schedule_id"], (None, 0))
    return bool(version == firing["version"] and (firing["is_backfill"] or armed == firing["planned_for"]))


def _judge_policy(court: Court, record: Record, firing: dict[str, Any]) -> None:
    """A firing makes as many jobs as the catch-up policy says, and leaves out no more."""
    told = court.schedules[firing["schedule_id"]]
    for fire_time, fate, _ in firing["occurrences"]:
        if fire_time > court.clock:
            court.blame("I8", f"schedule {told['id']}: {fire_time} was {fate} before it came", record)
    fates = [fate for _, fate, _ in firing["occurrences"]]
    most = told["catch_up_limit"] if told["catch_up"] == "all" else 1
    taken = len(fates) - fates.count("missed")
    if taken > most:
        court.blame("I8", f"schedule {told['id']}: {taken} fire times at once under {told['catch_up']}", record)
    if "missed" in fates and taken < most and told["catch_up"] != "skip":
        court.blame("I8", f"schedule {told['id']}: left a fire time out under {told['catch_up']}", record)
    if fates != sorted(fates, key=lambda fate: fate != "missed"):
        court.blame("I8", f"schedule {told['id']}: left out a later fire time than it took", record)


def _withdraw(court: Court, record: Record, job_id: int) -> None:
    twin = court.jobs.get(job_id)
    if twin is None or twin.is_finished:
        return
    twin.trail.append(record["number"])
    twin.is_cancelled = True
    if twin.state != "running":
        court.finish(twin, "cancelled", record["clock"], "replaced")


def judge_schedules(court: Court, end: Record) -> None:
    """Look for fire times that made two jobs, made none, or were passed over without a right to."""
    for schedule in court.dump["schedules"]:
        told = court.schedules.get(schedule["id"])
        if told is None:
            court.blame("I11", f"schedule {schedule['id']} was never put", None)
            continue
        recorded = {fire_time: (fate, job_id) for fire_time, fate, job_id in schedule["occurrences"]}
        _judge_recorded(court, schedule["id"], recorded)
        _judge_missing(court, told, schedule, recorded, end)
    for schedule_id in court.schedules:
        if all(schedule["id"] != schedule_id for schedule in court.dump["schedules"]):
            court.blame("I11", f"schedule {schedule_id} has disappeared", None)


def _judge_recorded(court: Court, schedule_id: int, recorded: dict[int, tuple[str, int | None]]) -> None:
    for fire_time, (fate, job_id) in recorded.items():
        if (fate == "fired") != (job_id is not None):
            court.blame("I8", f"schedule {schedule_id}: {fire_time} is {fate} with job {job_id}", None)
        elif job_id is not None and court.fired.get((schedule_id, fire_time)) != job_id:
            court.blame("I8", f"schedule {schedule_id}: {fire_time} names job {job_id}, which it did not make", None)
    for (owner, fire_time), job_id in court.fired.items():
        if owner == schedule_id and fire_time not in recorded:
            court.blame("I8", f"schedule {owner}: {fire_time} made job {job_id} and was not recorded", None)


def _judge_missing(
    court: Court,
    told: dict[str, Any],
    schedule: dict[str, Any],
    recorded: dict[int, tuple[str, int | None]],
    end: Record,
) -> None:
    upcoming = schedule["next_fire_at"]
    if upcoming is not None and upcoming + _SLACK_MICROS < end["clock"]:
        court.blame("I8", f"schedule {told['id']} stands still: {upcoming} was due long ago", end)
    horizon = min(end["clock"] - _SLACK_MICROS, told["end_at"]) if upcoming is None else upcoming - 1
    for fire_time in _fire_times(told, horizon):
        if fire_time not in recorded and not _is_excused(court, told, fire_time):
            court.blame("I8", f"schedule {told['id']}: nothing became of fire time {fire_time}", end)


def _is_excused(court: Court, told: dict[str, Any], fire_time: int) -> bool:
    """Say whether a fire time need not be on record: of very many that were missed at once, the newest ones are."""
    return any(
        firing["schedule_id"] == told["id"]
        and firing["occurrences"]
        and (firing["next_fire_at"] is None or fire_time < firing["next_fire_at"])
        and len(firing["occurrences"]) >= _LARGEST_RECORD
        and fire_time < firing["occurrences"][0][0]
        for firing in court.firings
    )


def _fire_times(told: dict[str, Any], horizon: int) -> Iterator[int]:
    """Give the fire times of a schedule from its first one up to a moment."""
    interval = interval_of(told["rule"])
    fire_time = told["next_fire_at"]
    while fire_time is not None and fire_time <= horizon and (told["end_at"] is None or fire_time <= told["end_at"]):
        yield fire_time
        fire_time += interval


def interval_of(rule: str) -> int:
    """Read the few rules that worlds use: all of them fire at multiples of an interval since 1970."""
    if rule == "* * * * *":
        return 60 * SECOND
    if rule.startswith("@every "):
        return int(rule.removeprefix("@every ").removesuffix("s")) * SECOND
    return int(rule.removeprefix("*/").split(" ")[0]) * SECOND
