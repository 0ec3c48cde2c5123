"""Hearing of other processes' work: by the kernel's bell, without polling, and without it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from building import new_job
from rota.stores.rows import Row
from rota.stores.sqlite import SqliteStore, lookout
from rota.stores.sqlite.driver import Parameters, StandardConnection

LONG = timedelta(seconds=20)


class Counting(StandardConnection):
    """Counts the looks at the change counter."""

    looks = 0

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        Counting.looks += "data_version" in sql
        return super().rows(sql, parameters)


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[SqliteStore, SqliteStore]]:
    """Give two stores on one file, as two processes would have."""
    Counting.looks = 0
    one = await SqliteStore.open(tmp_path / "rota.db", connect=Counting)
    other = await SqliteStore.open(tmp_path / "rota.db")
    await one.watch(timedelta(seconds=0.01))
    yield one, other
    await other.close()
    await one.close()


async def test_nobody_looks_while_nothing_happens(pair: tuple[SqliteStore, SqliteStore]) -> None:
    one, _ = pair
    before = Counting.looks
    assert not await one.watch(timedelta(seconds=0.5))
    assert Counting.looks - before <= 3


async def test_another_process_s_commit_is_heard_at_once(pair: tuple[SqliteStore, SqliteStore]) -> None:
    one, other = pair
    delays = []
    for _ in range(20):
        # Reports come at most so often; what comes after a rest comes at once.
        assert not await one.watch(timedelta(seconds=2 * lookout.GLANCE_SECONDS))
        watching = asyncio.ensure_future(one.watch(LONG))
        await asyncio.sleep(0)
        await other.insert([new_job()])
        committed_at = time.perf_counter()
        assert await watching
        delays.append(time.perf_counter() - committed_at)
    # The median, and against a glance: one slow wake-up says nothing.
    assert sorted(delays)[10] < lookout.GLANCE_SECONDS / 2


async def test_without_a_bell_one_looks_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookout, "_listen", lambda _path: None)
    one, other = [await SqliteStore.open(tmp_path / "rota.db") for _ in range(2)]
    await one.watch(timedelta(seconds=0.01))
    watching = asyncio.ensure_future(one.watch(LONG))
    await asyncio.sleep(0)
    await other.insert([new_job()])
    assert await watching
    await other.close()
    await one.close()


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_our_own_commits_wake_us_now_and_then_and_leave_no_descriptor_behind(
    pair: tuple[SqliteStore, SqliteStore],
) -> None:
    one, _ = pair
    before = descriptors()
    woken, begun = 0, time.monotonic()
    for _ in range(20):
        await asyncio.gather(*(one.insert([new_job()]) for _ in range(5)))
        woken += await one.watch(timedelta(seconds=0.05))
    assert woken <= 2 + (time.monotonic() - begun) / lookout.GLANCE_SECONDS
    assert descriptors() == before
