"""The store's clock is set while processes run: G5 (no lease is taken because of it), G6 (no schedule stops)."""

from __future__ import annotations

from typing import Final

from simulation.checker.fire_times import SECOND, interval_of
from simulation.checker.handlers import ActiveFaults
from simulation.checker.replay import Replay
from simulation.checker.violations import Record

#: How much early a lease may be taken: a clock that runs fast, and steps that cannot be told from a slow answer.
_EARLY_PART: Final = 0.1
_EARLY_MICROS: Final = 2 * SECOND
#: Within which a scheduler that is up notices that the clock was set back.
_NOTICED_MICROS: Final = 12 * SECOND


def check_taken(replay: Replay, record: Record) -> None:
    """A reaper takes a lease only if it has lapsed by the steady clock as well.

    Except one that was given before the reaper started, or while it was kept from the store for longer: it cannot know
    what the clock did before. Nor while the clock was wrong between two looks only.
    """
    for settlement in record["ask"]["settlements"]:
        expected = replay.jobs.get(settlement["id"])
        if expected is None or "lapsed_at" not in settlement or settlement["id"] not in record["got"]:
            continue
        host = record["host"]
        if max(replay.booted_at.get(host, 0), replay.blind_until.get(host, 0)) > expected.leased_at:
            continue
        if any(first <= expected.leased_at <= last for first, last in replay.clock_flickers):
            continue
        early = expected.leased_for * (1 - _EARLY_PART) - _EARLY_MICROS - (record["at"] - expected.leased_at)
        if early > 0:
            replay.flag(
                "G5", f"taken {early / 1e6:.3f} s before its lease lapsed by the steady clock", record, expected
            )


def check_armed(replay: Replay, watch: ActiveFaults, record: Record) -> None:
    """While schedulers are up, no schedule is armed for a later time than the next one by the store's clock."""
    for schedule_id, (armed, _) in replay.armed.items():
        settlement = replay.schedules[schedule_id]
        interval = interval_of(settlement["rule"])
        upcoming = (record["clock"] // interval + 1) * interval
        has_ended = settlement["end_at"] is not None and upcoming > settlement["end_at"]
        if settlement["paused"] or has_ended or (armed is not None and armed <= upcoming):
            replay.armed_late_since.pop(schedule_id, None)
            continue
        since = replay.armed_late_since.setdefault(schedule_id, record["at"])
        if record["at"] - max(since, watch.schedulers_calm_since(record["at"])) > _NOTICED_MICROS:
            replay.flag("G6", f"schedule {schedule_id} is silent: armed for {armed}, next is {upcoming}", record)
            replay.armed_late_since[schedule_id] = record["at"]
