"""Scans of upkeep start at a low-water mark, and miss nothing for long."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from builders import SECOND, claim, ids_of, new_job, new_jobs
from rota.core.lifecycle import Event
from rota.stores.postgres import PostgresStore
from rota.stores.postgres.lanes import LOWEST
from rota.stores.postgres.low_water import FULL_SCAN_SECONDS, MARGIN, ScanStart

NOW = 10**15


class Watch:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_the_first_scan_is_a_full_one() -> None:
    assert ScanStart(Watch()).start() == LOWEST


def test_a_scan_starts_at_the_first_entry_of_the_last_one() -> None:
    edge = ScanStart(Watch())
    edge.learn(LOWEST, NOW - 3 * MARGIN, NOW)
    assert edge.start() == NOW - 3 * MARGIN


def test_a_scan_starts_a_minute_ago_at_the_latest() -> None:
    edge = ScanStart(Watch())
    edge.learn(LOWEST, NOW + 5, NOW)
    assert edge.start() == NOW - MARGIN
    edge.learn(NOW - MARGIN, None, NOW + 1)
    assert edge.start() == NOW + 1 - MARGIN


def test_there_is_a_full_scan_now_and_then() -> None:
    watch = Watch()
    edge = ScanStart(watch)
    edge.learn(LOWEST, None, NOW)
    watch.seconds = FULL_SCAN_SECONDS - 1
    edge.learn(edge.start(), None, NOW + 1)
    watch.seconds = FULL_SCAN_SECONDS
    assert edge.start() == LOWEST


def test_after_the_server_clock_was_set_back_there_is_a_full_scan() -> None:
    edge = ScanStart(Watch())
    edge.learn(LOWEST, None, NOW)
    edge.learn(NOW - MARGIN, None, NOW - 1)
    assert edge.start() == LOWEST
    edge.learn(LOWEST, None, NOW)
    assert edge.start() == NOW - MARGIN


async def test_jobs_that_lapse_or_become_due_after_a_scan_are_found_by_the_next(store: PostgresStore) -> None:
    assert (await store.timetable()).first is None
    soon = new_job(run_at=datetime.now(UTC) + SECOND)
    await store.insert([*new_jobs(2), soon])
    held = await store.claim(claim(lease=timedelta(milliseconds=1)))
    assert (await store.timetable()).first is not None
    async with asyncio.timeout(20):
        while not (promoted := await store.promote(10)):
            pass
    assert promoted == {"default": 1}
    assert sorted(ids_of(await store.lost(10))) == sorted(ids_of(held))


async def test_a_very_late_settlement_is_found_by_a_full_scan(store: PostgresStore) -> None:
    """Its run time is long past, far to the left of where anyone looks."""
    await store.insert([new_job()])
    (held,) = await store.claim(claim())
    await store.timetable()
    late = held.settled(Event.SNOOZE, run_at=datetime.now(UTC) - timedelta(hours=1))
    await store.settle([late])
    assert await store.promote(10) == {}
    store._due_start._full_scan_at -= FULL_SCAN_SECONDS
    assert await store.promote(10) == {"default": 1}


async def test_a_scan_at_a_given_time_is_a_full_one(store: PostgresStore) -> None:
    await store.timetable()
    moment = datetime.now(UTC) - timedelta(days=300)
    await store.insert(new_jobs(1), now=moment)
    await store.claim(claim(lease=SECOND), now=moment)
    assert len(await store.lost(10, now=moment + 2 * SECOND)) == 1
