"""The store's clock is set while everybody works: G5 (no lease is taken for it), G6 (no schedule falls silent)."""

from __future__ import annotations

from typing import Final

from simulation.checker.court import Court
from simulation.checker.firing import SECOND, interval_of
from simulation.checker.handling import Watch
from simulation.checker.verdict import Record

#: How much early a lease may be taken: a clock that runs fast, and steps that nobody can tell from a slow answer.
_EARLY_PART: Final = 0.1
_EARLY_MICROS: Final = 2 * SECOND
#: Within which a scheduler that is up notices that the clock was set back.
_NOTICED_MICROS: Final = 12 * SECOND


def judge_taken(court: Court, record: Record) -> None:
    """A reaper takes a lease only if it has lapsed by the steady clock as well.

    Except one that was given before the reaper started, or while it was kept from the store for longer: it cannot know
    what the clock did before. Nor while the clock was wrong between two looks only.
    """
    for told in record["ask"]["settlements"]:
        twin = court.jobs.get(told["id"])
        if twin is None or "lapsed_at" not in told or told["id"] not in record["got"]:
            continue
        host = record["host"]
        if max(court.booted_at.get(host, 0), court.blind_until.get(host, 0)) > twin.leased_at:
            continue
        if any(first <= twin.leased_at <= last for first, last in court.clock_flickers):
            continue
        early = twin.leased_for * (1 - _EARLY_PART) - _EARLY_MICROS - (record["at"] - twin.leased_at)
        if early > 0:
            court.blame("G5", f"taken {early / 1e6:.3f} s before its lease lapsed by the steady clock", record, twin)


def judge_armed(court: Court, watch: Watch, record: Record) -> None:
    """While schedulers are up, no schedule is armed for a later time than the next one by the store's clock."""
    for schedule_id, (armed, _) in court.armed.items():
        told = court.schedules[schedule_id]
        interval = interval_of(told["rule"])
        upcoming = (record["clock"] // interval + 1) * interval
        has_ended = told["end_at"] is not None and upcoming > told["end_at"]
        if told["paused"] or has_ended or (armed is not None and armed <= upcoming):
            court.armed_late_since.pop(schedule_id, None)
            continue
        since = court.armed_late_since.setdefault(schedule_id, record["at"])
        if record["at"] - max(since, watch.schedulers_calm_since(record["at"])) > _NOTICED_MICROS:
            court.blame("G6", f"schedule {schedule_id} is silent: armed for {armed}, next is {upcoming}", record)
            court.armed_late_since[schedule_id] = record["at"]
