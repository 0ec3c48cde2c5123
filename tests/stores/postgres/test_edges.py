"""Edges: upkeep starts to look where something can be, and misses nothing for long."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from building import SECOND, claim, ids_of, new_job, new_jobs
from rota.core.lifecycle import Event
from rota.stores.postgres import PostgresStore
from rota.stores.postgres.edges import MARGIN, WHOLE_SECONDS, Edge
from rota.stores.postgres.lanes import LOWEST

NOW = 10**15


class Watch:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_the_first_look_is_a_whole_one() -> None:
    assert Edge(Watch()).start() == LOWEST


def test_a_look_starts_where_the_last_one_found_the_edge() -> None:
    edge = Edge(Watch())
    edge.learn(LOWEST, NOW - 3 * MARGIN, NOW)
    assert edge.start() == NOW - 3 * MARGIN


def test_a_look_starts_a_minute_ago_at_the_latest() -> None:
    edge = Edge(Watch())
    edge.learn(LOWEST, NOW + 5, NOW)
    assert edge.start() == NOW - MARGIN
    edge.learn(NOW - MARGIN, None, NOW + 1)
    assert edge.start() == NOW + 1 - MARGIN


def test_now_and_then_everything_is_looked_at() -> None:
    watch = Watch()
    edge = Edge(watch)
    edge.learn(LOWEST, None, NOW)
    watch.seconds = WHOLE_SECONDS - 1
    edge.learn(edge.start(), None, NOW + 1)
    watch.seconds = WHOLE_SECONDS
    assert edge.start() == LOWEST


def test_when_the_servers_clock_was_set_back_everything_is_looked_at_again() -> None:
    edge = Edge(Watch())
    edge.learn(LOWEST, None, NOW)
    edge.learn(NOW - MARGIN, None, NOW - 1)
    assert edge.start() == LOWEST
    edge.learn(LOWEST, None, NOW)
    assert edge.start() == NOW - MARGIN


async def test_what_ends_and_becomes_due_after_a_look_is_found_by_the_next(store: PostgresStore) -> None:
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


async def test_a_settlement_that_comes_very_late_is_found_by_a_whole_look(store: PostgresStore) -> None:
    """Its run time is long past, far to the left of where anyone looks."""
    await store.insert([new_job()])
    (held,) = await store.claim(claim())
    await store.timetable()
    late = held.settled(Event.SNOOZE, run_at=datetime.now(UTC) - timedelta(hours=1))
    await store.settle([late])
    assert await store.promote(10) == {}
    store._due_edge._whole_at -= WHOLE_SECONDS
    assert await store.promote(10) == {"default": 1}


async def test_a_time_that_is_given_is_looked_at_from_the_beginning(store: PostgresStore) -> None:
    await store.timetable()
    moment = datetime.now(UTC) - timedelta(days=300)
    await store.insert(new_jobs(1), now=moment)
    await store.claim(claim(lease=SECOND), now=moment)
    assert len(await store.lost(10, now=moment + 2 * SECOND)) == 1
