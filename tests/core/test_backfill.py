"""Backfill: making the jobs of past fire times."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.builders import numbered, schedule, utc
from rota.core.errors import InvalidRequest
from rota.core.schedule import LARGEST_CATCH_UP, Blackout, Fate, Firing, Overlap, Schedule, backfill
from rota.core.submission import Dependency, Need, Template

NOW = utc("2026-03-08 12:00")
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
WEEK = [utc(f"2026-03-0{day} 03:00") for day in range(1, 8)]
NIGHTLY = schedule("0 3 * * *", next_fire_at=utc("2026-03-09 03:00"), version=4)


def filled(recurring: Schedule, start: str = "2026-03-01", end: str = "2026-03-08") -> Firing:
    return backfill(recurring, utc(start), utc(end), NOW, fresh_id=numbered())


def test_every_fire_time_of_the_range_makes_a_job() -> None:
    firing = filled(NIGHTLY)
    assert [each.fire_time for each in firing.occurrences] == WEEK
    assert [job.fire_time for job in firing.jobs] == WEEK
    assert {each.fate for each in firing.occurrences} == {Fate.FIRED}


RANGES = [
    ("2026-03-01 03:00", "2026-03-01 03:00", 1),
    ("2026-03-01 03:00:00.000001", "2026-03-02 02:59:59.999999", 0),
    ("2026-03-01 02:59:59.999999", "2026-03-02 03:00", 2),
    ("2026-03-02", "2026-03-01", 0),
]


@pytest.mark.parametrize(("start", "end", "number"), RANGES)
def test_both_ends_of_the_range_belong_to_it(start: str, end: str, number: int) -> None:
    assert len(filled(NIGHTLY, start, end).jobs) == number


def test_a_backfill_leaves_the_next_fire_time_alone() -> None:
    firing = filled(NIGHTLY)
    assert firing.is_backfill
    assert (firing.version, firing.next_fire_at, firing.cancels) == (4, None, ())


def test_a_backfill_stays_within_the_schedules_life_and_its_blackouts() -> None:
    recurring = schedule(
        "0 3 * * *", start_at=WEEK[1], end_at=WEEK[4], blackouts=(Blackout(lasting=HOUR, start=WEEK[2]),)
    )
    firing = filled(recurring)
    assert [each.fire_time for each in firing.occurrences] == WEEK[1:5]
    assert [job.fire_time for job in firing.jobs] == [WEEK[1], WEEK[3], WEEK[4]]


def test_a_range_of_too_many_fire_times_is_refused_before_anything_is_made() -> None:
    recurring = schedule("* * * * *")
    assert len(filled(recurring, "2026-03-01 00:00", "2026-03-01 16:39").jobs) == LARGEST_CATCH_UP
    with pytest.raises(InvalidRequest, match="shorter range") as refusal:
        filled(recurring, "2026-03-01 00:00", "2026-03-01 16:40")
    assert refusal.value.field == "to"


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE, Overlap.CANCEL_PREVIOUS])
def test_jobs_that_must_not_overlap_are_all_made_and_run_one_after_the_other(overlap: Overlap) -> None:
    """Skipping what overlaps made one job of a whole range, and recorded the others as dealt with for ever."""
    firing = filled(schedule("0 3 * * *", overlap=overlap))
    ids = [job.id for job in firing.jobs]
    assert [job.fire_time for job in firing.jobs] == WEEK
    assert [job.after for job in firing.jobs] == [(), *((Dependency(each, Need.END),) for each in ids[:-1])]


def test_jobs_that_may_overlap_do_not_wait_for_each_other() -> None:
    assert {job.after for job in filled(schedule("0 3 * * *", overlap=Overlap.ALLOW)).jobs} == {()}


def test_what_is_filled_in_runs_from_now_on_and_not_ahead_of_everything_else() -> None:
    """Due since last year, it would have had its turn before all that is due today, whatever the priority; and with
    a time to expire, it would have expired before it was made.
    """
    recurring = schedule("0 3 * * *", template=Template("report", expires=HOUR))
    for job in filled(recurring).jobs:
        assert (job.run_at, job.expires_at) == (NOW, NOW + HOUR)


def test_what_is_filled_in_ahead_of_its_fire_time_waits_for_it() -> None:
    """Due at once, like what is past, tomorrow's job would have run today, and not tomorrow: a fire time makes one."""
    jobs = filled(NIGHTLY, "2026-03-09", "2026-03-11").jobs
    assert [job.fire_time for job in jobs] == [utc("2026-03-09 03:00"), utc("2026-03-10 03:00")]
    assert [job.run_at for job in jobs] == [job.fire_time for job in jobs]
