from __future__ import annotations

from dataclasses import replace

from builders import BASE, after, at, fresh_id, schedule
from rota.core.schedule import Firing, backfill, plan
from rota.stores.firings import groups

PLAIN = [plan(schedule(name), at(61), previous_is_active=False, fresh_id=fresh_id) for name in ("a", "b", "c")]


def sizes(*firings: Firing) -> list[int]:
    return [len(group) for group in groups(firings)]


def test_plain_firings_of_different_schedules_stay_together() -> None:
    assert list(groups(PLAIN)) == [PLAIN]
    assert list(groups([])) == []


def test_two_firings_of_one_schedule_come_one_after_the_other() -> None:
    first, second, third = PLAIN
    assert sizes(first, second, first, third) == [2, 2]


def test_a_firing_that_replaces_a_job_is_alone() -> None:
    first, second, third = PLAIN
    assert sizes(first, replace(second, cancels=(fresh_id(),)), third) == [1, 1, 1]


def test_a_firing_whose_job_waits_for_another_is_alone() -> None:
    first, second, third = PLAIN
    waiting = replace(second, jobs=(replace(second.jobs[0], after=after(fresh_id())),))
    assert sizes(first, waiting, third) == [1, 1, 1]


def test_a_backfill_is_alone() -> None:
    first, second, _ = PLAIN
    assert sizes(first, backfill(schedule("d"), BASE, at(120), at(121), fresh_id=fresh_id), second) == [1, 1, 1]
