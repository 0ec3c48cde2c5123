"""Statements for the partition of one day: which ids they take, and that old ones are forgotten."""

from __future__ import annotations

from datetime import datetime

import asyncpg
import pytest

from builders import BASE, DAY, HOUR, ManualClock, claim, means, new_job
from rota.core.decision import decide
from rota.core.ids import JobId, compose
from rota.core.outcome import Succeeded
from rota.core.time import to_micros
from rota.ports.store import Receipt
from rota.stores.postgres import PostgresStore
from rota.stores.postgres.partitions import TodayPartition, partition_of
from rota.stores.postgres.statements import ALL_IDS, id_range

TODAY = partition_of(BASE)
OF_TODAY = id_range(TODAY.lowest, TODAY.beyond - 1)


def id_at(moment: datetime) -> JobId:
    return JobId(compose(to_micros(moment) // 1000, 7))


@pytest.mark.parametrize(
    ("first", "last", "ending"),
    [
        (TODAY.lowest, TODAY.beyond - 1, OF_TODAY),
        (id_at(BASE), id_at(BASE), OF_TODAY),
        (TODAY.lowest - 1, id_at(BASE), ALL_IDS),
        (id_at(BASE), TODAY.beyond, ALL_IDS),
        (7, 7, ALL_IDS),
    ],
)
def test_only_a_range_of_today_gets_the_statement_of_today(first: JobId, last: JobId, ending: str) -> None:
    assert TodayPartition(ManualClock()).id_range(first, last) == ending


def test_a_new_day_has_a_new_statement() -> None:
    clock = ManualClock()
    archive = TodayPartition(clock)
    tomorrow = partition_of(BASE + DAY)
    assert archive.id_range(id_at(BASE), id_at(BASE)) == OF_TODAY
    assert archive.id_range(id_at(BASE + DAY), id_at(BASE + DAY)) == ALL_IDS, "it may be anybody's id"
    clock.moment += DAY
    assert archive.id_range(id_at(BASE + DAY), id_at(BASE + DAY)) == id_range(tomorrow.lowest, tomorrow.beyond - 1)
    assert archive.id_range(id_at(BASE), id_at(BASE)) == ALL_IDS


async def test_a_session_forgets_the_statements_of_past_days(dsn: str) -> None:
    clock = ManualClock()
    store = await PostgresStore.open(dsn, clock=clock)
    with await store._database.writers.acquire() as session:
        kept = []
        for _ in range(3):
            clock.moment += DAY
            job = new_job(id=id_at(clock.moment))
            ending = store._today.id_range(job.id, job.id)
            await session.rows("insert_one" + ending, 0, 0, job.id, "mail", "default", 5, 0, 1, "", "null", None, None)
            named = await session.fetch("SELECT statement FROM pg_prepared_statements WHERE statement LIKE 'INSERT%'")
            kept.append([row[0] for row in named])
    await store.close()
    assert [len(texts) for texts in kept] == [1, 1, 1]
    assert len({text for texts in kept for text in texts}) == 3


async def test_a_partition_added_late_hides_no_finished_job(dsn: str) -> None:
    """Its jobs went to the rest of the archive, and the statement was planned when there was no other place."""
    store = await PostgresStore.open(dsn, clock=ManualClock())
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"DROP TABLE {TODAY.name}")
    early, late = new_job(), new_job()
    for job in (early, late):
        assert [answer.receipt for answer in await store.insert([job])] == [Receipt.CREATED]
        held = await store.claim(claim())
        await store.settle([decide(one, Succeeded(), means(BASE + HOUR)) for one in held])
        if job is early:
            assert [answer.receipt for answer in await store.insert([job])] == [Receipt.ID_TAKEN]
            # Emptied, or the day could not be added.
            await connection.execute("DELETE FROM rota_job_done_rest")
            bounds = f"FOR VALUES FROM ({TODAY.lowest}) TO ({TODAY.beyond})"
            await connection.execute(f"CREATE TABLE {TODAY.name} PARTITION OF rota_job_done {bounds}")
    assert [answer.receipt for answer in await store.insert([late])] == [Receipt.ID_TAKEN]
    await connection.close()
    await store.close()
