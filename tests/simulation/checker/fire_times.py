"""Schedules and their fire times: I8."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from simulation.checker.replay import Replay
from simulation.checker.violations import Record

SECOND: Final = 1_000_000
#: How long after its time a fire time may still be on its way when the run ends.
_SLACK_MICROS: Final = 30 * SECOND
#: How many fire times that were left out at once are on record at least.
_LARGEST_RECORD: Final = 100


def on_put_schedules(replay: Replay, record: Record) -> None:
    """Replay the making and editing of schedules."""
    for known in record["ask"]:
        if known["id"] in record["got"]:
            replay.schedules.setdefault(known["id"], known)
            replay.armed[known["id"]] = None if known["paused"] else known["next_fire_at"], known["version"] + 1


def on_fire(replay: Replay, record: Record) -> None:
    """Replay firings: what was made, and what had to give way to it."""
    made = set(record["got"])
    for firing in record["ask"]:
        if not _holds(replay, firing):
            continue
        replay.firings.append(firing)
        if not firing["is_backfill"]:
            replay.armed[firing["schedule_id"]] = firing["next_fire_at"], firing["version"]
            _check_policy(replay, record, firing)
        _make(replay, record, firing, [job for job in firing["jobs"] if job["id"] in made])


def _make(replay: Replay, record: Record, firing: dict[str, Any], jobs: list[dict[str, Any]]) -> None:
    for job in jobs:
        place = (firing["schedule_id"], job["fire_time"])
        if place in replay.fired:
            replay.flag("I8", f"schedule {place[0]}: fire time {place[1]} made a second job", record)
        replay.fired[place] = job["id"]
    # The first has to give way before the next is made: a chain of jobs may replace each other in one go.
    for job in jobs:
        replay.create(job, record)
    for job_id in firing["cancels"] if jobs else ():
        _withdraw(replay, record, job_id)


def _holds(replay: Replay, firing: dict[str, Any]) -> bool:
    """Say whether a firing was written: only where its schedule is as it was planned from."""
    armed, version = replay.armed.get(firing["schedule_id"], (None, 0))
    return bool(version == firing["version"] and (firing["is_backfill"] or armed == firing["planned_for"]))


def _check_policy(replay: Replay, record: Record, firing: dict[str, Any]) -> None:
    """A firing makes as many jobs as the catch-up policy says, and leaves out no more."""
    known = replay.schedules[firing["schedule_id"]]
    for fire_time, fate, _ in firing["occurrences"]:
        if fire_time > replay.clock:
            replay.flag("I8", f"schedule {known['id']}: {fire_time} was {fate} before it came", record)
    fates = [fate for _, fate, _ in firing["occurrences"]]
    most = known["catch_up_limit"] if known["catch_up"] == "all" else 1
    taken = len(fates) - fates.count("missed")
    if taken > most:
        replay.flag("I8", f"schedule {known['id']}: {taken} fire times at once under {known['catch_up']}", record)
    if "missed" in fates and taken < most and known["catch_up"] != "skip":
        replay.flag("I8", f"schedule {known['id']}: left a fire time out under {known['catch_up']}", record)
    if fates != sorted(fates, key=lambda fate: fate != "missed"):
        replay.flag("I8", f"schedule {known['id']}: left out a later fire time than it took", record)


def _withdraw(replay: Replay, record: Record, job_id: int) -> None:
    expected = replay.jobs.get(job_id)
    if expected is None or expected.is_finished:
        return
    expected.trail.append(record["number"])
    expected.is_cancelled = True
    if expected.state != "running":
        replay.finish(expected, "cancelled", record["clock"], "replaced")


def check_schedules(replay: Replay, end: Record) -> None:
    """Look for fire times that made two jobs, made none, or were passed over without a right to."""
    for schedule in replay.dump["schedules"]:
        known = replay.schedules.get(schedule["id"])
        if known is None:
            replay.flag("I11", f"schedule {schedule['id']} was never put", None)
            continue
        recorded = {fire_time: (fate, job_id) for fire_time, fate, job_id in schedule["occurrences"]}
        _check_recorded(replay, schedule["id"], recorded)
        _check_missing(replay, known, schedule, recorded, end)
    for schedule_id in replay.schedules:
        if all(schedule["id"] != schedule_id for schedule in replay.dump["schedules"]):
            replay.flag("I11", f"schedule {schedule_id} has disappeared", None)


def _check_recorded(replay: Replay, schedule_id: int, recorded: dict[int, tuple[str, int | None]]) -> None:
    for fire_time, (fate, job_id) in recorded.items():
        if (fate == "fired") != (job_id is not None):
            replay.flag("I8", f"schedule {schedule_id}: {fire_time} is {fate} with job {job_id}", None)
        elif job_id is not None and replay.fired.get((schedule_id, fire_time)) != job_id:
            replay.flag("I8", f"schedule {schedule_id}: {fire_time} names job {job_id}, which it did not make", None)
    for (owner, fire_time), job_id in replay.fired.items():
        if owner == schedule_id and fire_time not in recorded:
            replay.flag("I8", f"schedule {owner}: {fire_time} made job {job_id} and was not recorded", None)


def _check_missing(
    replay: Replay,
    known: dict[str, Any],
    schedule: dict[str, Any],
    recorded: dict[int, tuple[str, int | None]],
    end: Record,
) -> None:
    upcoming = schedule["next_fire_at"]
    if upcoming is not None and upcoming + _SLACK_MICROS < end["clock"]:
        replay.flag("I8", f"schedule {known['id']} stands still: {upcoming} was due long ago", end)
    horizon = min(end["clock"] - _SLACK_MICROS, known["end_at"]) if upcoming is None else upcoming - 1
    for fire_time in _fire_times(known, horizon):
        if fire_time not in recorded and not _is_excused(replay, known, fire_time):
            replay.flag("I8", f"schedule {known['id']}: nothing became of fire time {fire_time}", end)


def _is_excused(replay: Replay, known: dict[str, Any], fire_time: int) -> bool:
    """Say whether a fire time need not be on record: of very many that were missed at once, the newest ones are."""
    return any(
        firing["schedule_id"] == known["id"]
        and firing["occurrences"]
        and (firing["next_fire_at"] is None or fire_time < firing["next_fire_at"])
        and len(firing["occurrences"]) >= _LARGEST_RECORD
        and fire_time < firing["occurrences"][0][0]
        for firing in replay.firings
    )


def _fire_times(known: dict[str, Any], horizon: int) -> Iterator[int]:
    """Give the fire times of a schedule from its first one up to a moment."""
    interval = interval_of(known["rule"])
    fire_time = known["next_fire_at"]
    while fire_time is not None and fire_time <= horizon and (known["end_at"] is None or fire_time <= known["end_at"]):
        yield fire_time
        fire_time += interval


def interval_of(rule: str) -> int:
    """Read the few rules that worlds use: all of them fire at multiples of an interval since 1970."""
    if rule == "* * * * *":
        return 60 * SECOND
    if rule.startswith("@every "):
        return int(rule.removeprefix("@every ").removesuffix("s")) * SECOND
    return int(rule.removeprefix("*/").split(" ")[0]) * SECOND
