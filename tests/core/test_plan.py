"""Plans of schedules: catch-up, grace, overlap, cost, and that no fire time is doubled or lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.builders import numbered, schedule, unhurried, utc
from rota.core import schedule as room
from rota.core.cron import CronExpression
from rota.core.ids import JobId
from rota.core.schedule import (
    LARGEST_CATCH_UP,
    LARGEST_RECORD,
    Blackout,
    CatchUp,
    Fate,
    Firing,
    Overlap,
    Schedule,
    is_left_to_others,
    plan,
)
from rota.core.submission import Dependency, Need, Template

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
NOON = utc("2026-03-01 12:00")
PREVIOUS = JobId(500)


def planned(recurring: Schedule, now: datetime, *, active: bool = False) -> Firing:
    return plan(recurring, now, previous_is_active=active, fresh_id=numbered())


def clock(times: list[datetime]) -> str:
    return " ".join(at.strftime("%H:%M") for at in times)


def fired(firing: Firing) -> list[datetime]:
    return [each.fire_time for each in firing.occurrences if each.fate is Fate.FIRED]


OWED = [
    # rule, due since, catch-up, limit, grace, now, owed, next
    # On time: every policy fires it.
    ("0 * * * *", "12:00", "skip", 100, MINUTE, "12:00:00", "12:00", "13:00"),
    ("0 * * * *", "12:00", "latest", 100, MINUTE, "12:00:00", "12:00", "13:00"),
    ("0 * * * *", "12:00", "all", 100, MINUTE, "12:00:00", "12:00", "13:00"),
    # Late within the grace is not missed; the grace ends sharply.
    ("0 * * * *", "12:00", "skip", 100, MINUTE, "12:01:00", "12:00", "13:00"),
    ("0 * * * *", "12:00", "skip", 100, MINUTE, "12:01:00.000001", "", "13:00"),
    ("0 * * * *", "12:00", "latest", 100, MINUTE, "12:01:00.000001", "12:00", "13:00"),
    ("0 * * * *", "12:00", "skip", 100, 45 * MINUTE, "12:40", "12:00", "13:00"),
    ("0 * * * *", "12:00", "skip", 100, timedelta(0), "12:00:00", "12:00", "13:00"),
    # Down since eight.
    ("0 * * * *", "08:00", "skip", 100, MINUTE, "12:30", "", "13:00"),
    ("0 * * * *", "08:00", "skip", 100, MINUTE, "12:00:30", "12:00", "13:00"),
    ("0 * * * *", "08:00", "latest", 100, MINUTE, "12:30", "12:00", "13:00"),
    ("0 * * * *", "08:00", "all", 100, MINUTE, "12:30", "08:00 09:00 10:00 11:00 12:00", "13:00"),
    # Limited, the newest are taken.
    ("0 * * * *", "08:00", "all", 3, MINUTE, "12:30", "10:00 11:00 12:00", "13:00"),
    ("0 * * * *", "08:00", "all", 1, MINUTE, "12:30", "12:00", "13:00"),
    ("0 * * * *", "08:00", "all", 0, MINUTE, "12:30", "", "13:00"),
    # From the first second on: the grace makes no policy fire more than it says.
    ("* * * * *", "08:00", "skip", 100, 2 * MINUTE, "12:30:30", "12:30", "12:31"),
    ("* * * * *", "08:00", "latest", 100, 2 * MINUTE, "12:30:30", "12:30", "12:31"),
    ("* * * * *", "08:00", "all", 1, 2 * MINUTE, "12:30:30", "12:30", "12:31"),
    ("* * * * *", "08:00", "all", 4, 2 * MINUTE, "12:30:30", "12:27 12:28 12:29 12:30", "12:31"),
    ("* * * * *", "12:30", "latest", 100, HOUR, "12:31:30", "12:31", "12:32"),
    # Without a grace there is still the second that a scheduler may take.
    ("0 * * * *", "12:00", "skip", 100, timedelta(0), "12:00:01", "12:00", "13:00"),
    ("0 * * * *", "12:00", "skip", 100, timedelta(0), "12:00:01.000001", "", "13:00"),
]


@pytest.mark.parametrize(("rule", "since", "catch_up", "limit", "grace", "now", "owed", "following"), OWED)
def test_what_is_owed(
    rule: str, since: str, catch_up: str, limit: int, grace: timedelta, now: str, owed: str, following: str
) -> None:
    recurring = schedule(
        rule,
        catch_up=CatchUp(catch_up),
        catch_up_limit=limit,
        grace=grace,
        next_fire_at=utc(f"2026-03-01 {since}"),
    )
    firing = planned(recurring, utc(f"2026-03-01 {now}"))
    assert clock(fired(firing)) == owed
    assert firing.next_fire_at == utc(f"2026-03-01 {following}")
    assert [job.fire_time for job in firing.jobs] == fired(firing)
    known = {each.fire_time for each in firing.occurrences}
    newest = [utc(f"2026-03-01 {since}") + each * timedelta(minutes=1) for each in range(400)]
    due = [each for each in newest if each <= utc(f"2026-03-01 {now}") and (rule[0] == "*" or each.minute == 0)]
    assert known == set(due[-len(known) :])
    assert len(due) == len(known) or len(known) == len(fired(firing)) + LARGEST_RECORD
    assert {each.fate for each in firing.occurrences if each.job_id is None} <= {Fate.MISSED}


@pytest.mark.parametrize(
    ("up_since", "is_fired"), [("11:59:59", True), ("12:00:00", False), ("12:00:20", False)], ids=str
)
def test_what_came_before_the_scheduler_was_up_is_missed_under_skip(up_since: str, is_fired: bool) -> None:  # noqa: FBT001
    recurring = schedule("0 * * * *", catch_up=CatchUp.SKIP, next_fire_at=NOON)
    now = NOON + timedelta(seconds=20)
    firing = plan(recurring, now, previous_is_active=False, fresh_id=numbered(), up_since=utc(f"2026-03-01 {up_since}"))
    assert [each.fate for each in firing.occurrences] == [Fate.FIRED if is_fired else Fate.MISSED]


@pytest.mark.parametrize(
    ("catch_up", "up_since", "now", "is_left"),
    [
        (CatchUp.SKIP, 0.4, 0.5, True),
        (CatchUp.SKIP, 0.4, 1.0, True),
        (CatchUp.SKIP, 0.4, 1.1, False),
        (CatchUp.SKIP, -0.1, 0.5, False),
        (CatchUp.LATEST, 0.4, 0.5, False),
        (CatchUp.ALL, 0.4, 0.5, False),
    ],
)
def test_a_fresh_scheduler_leaves_to_others_what_they_may_be_about_to_fire(
    catch_up: CatchUp,
    up_since: float,
    now: float,
    is_left: bool,  # noqa: FBT001 - a column
) -> None:
    recurring = schedule("0 * * * *", catch_up=catch_up, next_fire_at=NOON)
    assert is_left_to_others(recurring, NOON + now * SECOND, NOON + up_since * SECOND) is is_left


def test_a_blackout_does_not_stand_for_the_latest_missed_one() -> None:
    recurring = schedule("0 * * * *", next_fire_at=NOON, blackouts=(Blackout(lasting=2 * HOUR, start=NOON + HOUR),))
    firing = planned(recurring, NOON + 2 * HOUR)
    assert [each.fate for each in firing.occurrences] == [Fate.FIRED, Fate.BLACKED_OUT, Fate.BLACKED_OUT]


def test_a_firing_holds_for_the_schedule_as_it_was_seen() -> None:
    recurring = schedule("0 * * * *", next_fire_at=NOON, version=7)
    firing = planned(recurring, NOON)
    assert (firing.schedule_id, firing.version, firing.planned_for) == (recurring.id, 7, NOON)
    assert not firing.is_backfill


def test_a_job_of_a_schedule_knows_where_it_comes_from() -> None:
    recurring = schedule("0 * * * *", next_fire_at=NOON, jitter=HOUR, template=Template("report", expires=HOUR))
    firing = planned(recurring, NOON + SECOND)
    (job,), (occurrence,) = firing.jobs, firing.occurrences
    assert (job.type, job.schedule_id, job.fire_time) == ("report", recurring.id, NOON)
    assert job.run_at == recurring.run_at(NOON) != NOON
    assert job.expires_at == recurring.run_at(NOON) + HOUR
    assert (occurrence.schedule_id, occurrence.fire_time, occurrence.job_id) == (recurring.id, NOON, job.id)


@pytest.mark.parametrize("now", [NOON - SECOND, NOON - 10 * MINUTE, NOON - timedelta(days=400)])
def test_asked_too_early_a_schedule_owes_nothing_and_stays_where_it_is(now: datetime) -> None:
    """A scheduler whose clock is behind moved the next fire time back, over times that had fired."""
    firing = planned(schedule("* * * * *", next_fire_at=NOON), now)
    assert (firing.occurrences, firing.jobs) == ((), ())
    assert firing.next_fire_at == NOON


def test_a_schedule_that_has_ended_owes_nothing() -> None:
    firing = planned(schedule("* * * * *", next_fire_at=None, end_at=NOON), NOON + HOUR)
    assert (firing.occurrences, firing.next_fire_at) == ((), None)


def test_the_last_fire_time_ends_a_schedule() -> None:
    firing = planned(schedule("0 * * * *", next_fire_at=NOON, end_at=NOON + MINUTE), NOON + SECOND)
    assert (fired(firing), firing.next_fire_at) == ([NOON], None)


def test_what_was_missed_before_the_end_is_owed_after_it() -> None:
    recurring = schedule("0 * * * *", next_fire_at=NOON, end_at=NOON + HOUR, catch_up=CatchUp.ALL)
    firing = planned(recurring, NOON + timedelta(days=3))
    assert (fired(firing), firing.next_fire_at) == ([NOON, NOON + HOUR], None)


THREE = [NOON, NOON + MINUTE, NOON + 2 * MINUTE]
F, S = Fate.FIRED, Fate.OVERLAPPED
OVERLAPS = [
    # policy, previous active, fates, waits for, cancelled
    (Overlap.ALLOW, False, [F, F, F], [None, None, None], []),
    (Overlap.ALLOW, True, [F, F, F], [None, None, None], []),
    (Overlap.SKIP, False, [F, S, S], [None], []),
    (Overlap.SKIP, True, [S, S, S], [], []),
    (Overlap.QUEUE, False, [F, F, F], [None, 1, 2], []),
    (Overlap.QUEUE, True, [F, F, F], [PREVIOUS, 1, 2], []),
    (Overlap.CANCEL_PREVIOUS, False, [F, F, F], [None, None, None], [1, 2]),
    (Overlap.CANCEL_PREVIOUS, True, [F, F, F], [None, None, None], [PREVIOUS, 1, 2]),
]


@pytest.mark.parametrize(("overlap", "active", "fates", "waits", "cancels"), OVERLAPS)
def test_a_fire_time_that_meets_an_unfinished_job(
    overlap: Overlap,
    active: bool,  # noqa: FBT001 - a column
    fates: list[Fate],
    waits: list[JobId | None],
    cancels: list[JobId],
) -> None:
    recurring = schedule(
        next_fire_at=NOON, catch_up=CatchUp.ALL, overlap=overlap, last_job_id=PREVIOUS, grace=timedelta(0)
    )
    firing = planned(recurring, THREE[-1], active=active)
    assert [each.fire_time for each in firing.occurrences] == THREE
    assert [each.fate for each in firing.occurrences] == fates
    assert [each.job_id is not None for each in firing.occurrences] == [fate is F for fate in fates]
    assert [job.after for job in firing.jobs] == [
        (Dependency(wait, Need.END),) if wait is not None else () for wait in waits
    ]
    assert list(firing.cancels) == cancels


def test_every_policy_of_overlap_is_in_the_table() -> None:
    assert {(overlap, active) for overlap, active, *_ in OVERLAPS} == {(o, a) for o in Overlap for a in (False, True)}


def test_a_fire_time_within_a_blackout_is_recorded_and_makes_no_job() -> None:
    blackouts = (Blackout(lasting=MINUTE, start=THREE[1]), Blackout(lasting=SECOND, rule="2 12 * * *"))
    recurring = schedule(next_fire_at=NOON, catch_up=CatchUp.ALL, blackouts=blackouts, overlap=Overlap.SKIP)
    firing = planned(recurring, THREE[-1] + SECOND)
    assert [each.fate for each in firing.occurrences] == [F, Fate.BLACKED_OUT, Fate.BLACKED_OUT]
    assert len(firing.jobs) == 1


def test_a_blackout_by_rule_follows_the_zone_of_the_schedule_through_a_clock_change() -> None:
    recurring = schedule(
        "*/30 * * * *",
        zone="Europe/Berlin",
        next_fire_at=utc("2026-10-24 23:00"),
        catch_up=CatchUp.ALL,
        blackouts=(Blackout(lasting=2 * HOUR, rule="0 2 * * *"),),
    )
    firing = planned(recurring, utc("2026-10-25 03:00"))
    dark = [each.fire_time for each in firing.occurrences if each.fate is Fate.BLACKED_OUT]
    assert clock(dark) == "00:00 00:30 01:00 01:30"
    assert clock(fired(firing)) == "23:00 23:30 02:00 02:30 03:00"


@dataclass(slots=True)
class CountedRule:
    """A rule that counts its calls."""

    rule: CronExpression
    asked: int = 0

    def next(self, after: datetime) -> datetime:
        self.asked += 1
        return self.rule.next(after)


COSTS = [
    # rule, catch-up, limit, asked per fire time that is taken
    ("* * * * * *", CatchUp.SKIP, 1, 5),
    ("* * * * * *", CatchUp.LATEST, 1, 5),
    ("* * * * * *", CatchUp.ALL, 100, 5),
    ("* * * * * *", CatchUp.ALL, LARGEST_CATCH_UP, 5),
    ("@every 1s", CatchUp.ALL, LARGEST_CATCH_UP, 5),
    ("*/7 * * * * *", CatchUp.ALL, LARGEST_CATCH_UP, 5),
    ("* * * * *", CatchUp.ALL, LARGEST_CATCH_UP, 5),
    ("0 0 1 * *", CatchUp.ALL, LARGEST_CATCH_UP, 60),
    ("* * 1 1 * *", CatchUp.ALL, LARGEST_CATCH_UP, 5),
]


@pytest.mark.parametrize(("rule", "catch_up", "limit", "each"), COSTS)
def test_a_year_of_sleep_costs_no_more_than_what_is_taken(
    rule: str, catch_up: CatchUp, limit: int, each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty million fire times were missed. Counted in calls of the rule, because durations vary."""
    counted = CountedRule(room.rule_of(rule))
    monkeypatch.setattr(room, "rule_of", lambda _text: counted)
    recurring = schedule(
        rule, zone="Europe/Berlin", next_fire_at=NOON, catch_up=catch_up, catch_up_limit=limit, grace=MINUTE
    )
    firing = planned(recurring, NOON + timedelta(days=365))
    assert len(firing.jobs) <= limit
    assert len(firing.occurrences) <= limit + LARGEST_RECORD
    assert counted.asked <= 200 + each * len(firing.occurrences)


def test_no_catch_up_makes_more_than_so_many_jobs_at_one_go() -> None:
    recurring = schedule("* * * * * *", next_fire_at=NOON, catch_up=CatchUp.ALL, catch_up_limit=10**9)
    firing = planned(recurring, NOON + timedelta(days=1))
    assert len(firing.jobs) == LARGEST_CATCH_UP
    assert fired(firing)[-1] == NOON + timedelta(days=1)


ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]
RULES = ["* * * * *", "*/7 * * * *", "0 * * * *", "30 2 * * *", "@every 17m", "*/20 * * * * *", "5,6 1-3 * * *"]
#: Close to clock changes of these zones, and far from any.
BEGINNINGS = [utc(text) for text in ("2026-03-28 20:00", "2026-10-24 20:00", "2026-04-04 10:00", "2026-07-01 00:00")]
pauses = st.lists(st.integers(0, 7200), min_size=1, max_size=12)

policies = st.builds(
    schedule,
    st.sampled_from(RULES),
    zone=st.sampled_from(ZONES),
    catch_up=st.sampled_from(CatchUp),
    catch_up_limit=st.integers(0, 20),
    grace=st.integers(0, 7200).map(lambda seconds: timedelta(seconds=seconds)),
    overlap=st.sampled_from(Overlap),
    jitter=st.sampled_from([timedelta(0), HOUR]),
    blackouts=st.sampled_from([(), (Blackout(lasting=HOUR, rule="0 1 * * *"),)]),
)


def lived_through(recurring: Schedule, beginning: datetime, waits: list[int]) -> tuple[Counter[datetime], datetime]:
    """Tick at moments so many seconds apart; count each fire time that was dealt with."""
    recurring = replace(recurring, next_fire_at=recurring.next_after(beginning))
    now, dealt_with = beginning, Counter[datetime]()
    for seconds in waits:
        now += timedelta(seconds=seconds)
        firing = planned(recurring, now)
        dealt_with.update(each.fire_time for each in firing.occurrences)
        assert firing.next_fire_at is not None
        assert firing.next_fire_at > now
        recurring = replace(recurring, next_fire_at=firing.next_fire_at)
    return dealt_with, now


def everything(recurring: Schedule, beginning: datetime, end: datetime) -> list[datetime]:
    times, at = [], recurring.next_after(beginning)
    while at is not None and at <= end:
        times.append(at)
        at = recurring.next_after(at)
    return times


@unhurried
@given(policies, st.sampled_from(BEGINNINGS), pauses)
def test_ticks_at_any_moments_deal_with_a_fire_time_at_most_once(
    recurring: Schedule, beginning: datetime, waits: list[int]
) -> None:
    dealt_with, now = lived_through(recurring, beginning, waits)
    assert set(dealt_with.values()) <= {1}
    assert list(dealt_with) == sorted(dealt_with)
    assert set(dealt_with) <= set(everything(recurring, beginning, now))


@unhurried
@given(policies, st.sampled_from(BEGINNINGS), pauses)
def test_with_catch_up_of_all_ticks_at_any_moments_deal_with_every_fire_time_exactly_once(
    recurring: Schedule, beginning: datetime, waits: list[int]
) -> None:
    recurring = replace(recurring, catch_up=CatchUp.ALL, catch_up_limit=LARGEST_CATCH_UP)
    dealt_with, now = lived_through(recurring, beginning, waits)
    assert set(dealt_with.values()) <= {1}
    assert list(dealt_with) == everything(recurring, beginning, now)


#: Rules that fire in bursts, with long pauses between them.
BURSTS = ["*/5 1,13 * * *", "0,1,2,30 0 * * *", "* 5 * * 1", "*/10 * 7 3 * *", "0 0 1,2,15 * *", "59 23 28-31 * *"]


@unhurried
@given(st.sampled_from(BURSTS), st.sampled_from(ZONES), st.integers(1, 10 * 86_400), st.integers(1, 40))
def test_a_limited_catch_up_takes_the_newest_of_all_that_was_missed(
    rule: str, zone: str, seconds: int, limit: int
) -> None:
    """Found by leaping back from now, they must be those that walking forward would have found."""
    beginning = utc("2026-02-27 00:00")
    recurring = schedule(rule, zone=zone, catch_up=CatchUp.ALL, catch_up_limit=limit, grace=timedelta(0))
    recurring = replace(recurring, next_fire_at=recurring.next_after(beginning))
    now = beginning + timedelta(seconds=seconds)
    assert fired(planned(recurring, now)) == everything(recurring, beginning, now)[-limit:]


@unhurried
@given(policies, st.sampled_from(BEGINNINGS), st.integers(0, 100_000), st.booleans())
def test_two_schedulers_plan_the_same_but_for_the_ids(
    recurring: Schedule,
    beginning: datetime,
    seconds: int,
    active: bool,  # noqa: FBT001 - drawn
) -> None:
    recurring = replace(recurring, next_fire_at=recurring.next_after(beginning), last_job_id=PREVIOUS)
    now = beginning + timedelta(seconds=seconds)
    one, other = (
        plan(recurring, now, previous_is_active=active, fresh_id=numbered(start)) for start in (1_000, 900_000)
    )
    assert renumbered(one, 1_000) == renumbered(other, 900_000)


def renumbered(firing: Firing, start: int) -> Firing:
    """Count a firing's own jobs from nought, wherever they are spoken of."""

    def named(job_id: JobId) -> JobId:
        return JobId(job_id - start) if job_id >= start else job_id

    def waiting(waits: tuple[Dependency, ...]) -> tuple[Dependency, ...]:
        return tuple(replace(wait, on=named(wait.on)) for wait in waits)

    return replace(
        firing,
        jobs=tuple(replace(job, id=named(job.id), after=waiting(job.after)) for job in firing.jobs),
        occurrences=tuple(
            replace(each, job_id=None if each.job_id is None else named(each.job_id)) for each in firing.occurrences
        ),
        cancels=tuple(named(job_id) for job_id in firing.cancels),
    )
