"""Lists and counts for people: on connections of their own, and not for long."""

from __future__ import annotations

import asyncio

import pytest

from builders import ids_of, new_jobs
from rota.core.errors import StoreUnavailable
from rota.ports.store import JobQuery
from rota.stores.base import queries
from rota.stores.mysql import MysqlStore
from rota.stores.mysql.driver import MysqlConnection


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have every count read for a minute, and note each."""
    counts: list[int] = []

    async def count_at_length(connection: MysqlConnection, *_: object) -> None:
        counts.append(1)
        await connection.rows("SELECT SLEEP(60)")

    monkeypatch.setattr(queries, "census", count_at_length)
    return counts


async def test_slow_counts_are_ended_by_the_server_and_hold_up_no_reader(store: MysqlStore, slow: list[int]) -> None:
    jobs = new_jobs(1)
    await store.insert(jobs)
    counts = [asyncio.create_task(store.census()) for _ in range(2)]
    async with asyncio.timeout(5):
        while len(slow) < 2:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0)
    async with asyncio.timeout(3):
        await store.timetable()
        assert ids_of(await store.get(ids_of(jobs))) == ids_of(jobs)
    assert not any(one.done() for one in counts)
    for error in await asyncio.gather(*counts, return_exceptions=True):
        assert isinstance(error, StoreUnavailable)
        assert "max_statement_time" in str(error)
    assert len(slow) == 2
    assert ids_of(await store.find(JobQuery())) == ids_of(jobs)


async def test_a_read_without_an_answer_is_run_once_more_at_most(store: MysqlStore) -> None:
    runs: list[int] = []

    async def read_at_length(connection: MysqlConnection) -> None:
        runs.append(1)
        with connection.allowing(0.3):
            await connection.rows("SELECT SLEEP(2)")

    with pytest.raises(StoreUnavailable, match="no response"):
        await store._readers.run(read_at_length)
    assert len(runs) == 2
