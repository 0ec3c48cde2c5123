"""Statements that are made for a day: which ids are of it, and what becomes of those of the day before."""

from __future__ import annotations

from datetime import datetime

import asyncpg
import pytest

from building import BASE, DAY, HOUR, ManualClock, claim, means, new_job
from rota.core.decision import decide
from rota.core.identity import JobId, compose
from rota.core.instant import to_micros
from rota.core.outcome import Succeeded
from rota.ports.store import Receipt
from rota.stores.postgres import PostgresStore
from rota.stores.postgres.archive import Archive
from rota.stores.postgres.retiring import day_of
from rota.stores.postgres.statements import ANYWHERE, among

TODAY = day_of(BASE)
OF_TODAY = among(TODAY.lowest, TODAY.beyond - 1)


def id_at(moment: datetime) -> JobId:
    return JobId(compose(to_micros(moment) // 1000, 7))


@pytest.mark.parametrize(
    ("first", "last", "ending"),
    [
        (TODAY.lowest, TODAY.beyond - 1, OF_TODAY),
        (id_at(BASE), id_at(BASE), OF_TODAY),
        (TODAY.lowest - 1, id_at(BASE), ANYWHERE),
        (id_at(BASE), TODAY.beyond, ANYWHERE),
        (7, 7, ANYWHERE),
    ],
)
def test_only_what_is_all_of_today_is_looked_for_there(first: JobId, last: JobId, ending: str) -> None:
    assert Archive(ManualClock()).holding(first, last) == ending


def test_with_a_new_day_comes_a_new_part() -> None:
    clock = ManualClock()
    archive = Archive(clock)
    tomorrow = day_of(BASE + DAY)
    assert archive.holding(id_at(BASE), id_at(BASE)) == OF_TODAY
    assert archive.holding(id_at(BASE + DAY), id_at(BASE + DAY)) == ANYWHERE, "it may be anybody's id"
    clock.moment += DAY
    assert archive.holding(id_at(BASE + DAY), id_at(BASE + DAY)) == among(tomorrow.lowest, tomorrow.beyond - 1)
    assert archive.holding(id_at(BASE), id_at(BASE)) == ANYWHERE


async def test_a_session_keeps_no_statements_of_days_gone_by(dsn: str) -> None:
    clock = ManualClock()
    store = await PostgresStore.open(dsn, clock=clock)
    with await store._database.writers.lend() as session:
        kept = []
        for _ in range(3):
            clock.moment += DAY
            job = new_job(id=id_at(clock.moment))
            ending = store._archive.holding(job.id, job.id)
            await session.rows("insert_one" + ending, 0, 0, job.id, "mail", "default", 5, 0, 1, "", "null", None, None)
            named = await session.fetch("SELECT statement FROM pg_prepared_statements WHERE statement LIKE 'INSERT%'")
            kept.append([row[0] for row in named])
    await store.close()
    assert [len(texts) for texts in kept] == [1, 1, 1]
    assert len({text for texts in kept for text in texts}) == 3


async def test_a_day_that_comes_late_hides_no_job_that_has_ended(dsn: str) -> None:
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
            await connection.execute("DELETE FROM job_done_rest")
            bounds = f"FOR VALUES FROM ({TODAY.lowest}) TO ({TODAY.beyond})"
            await connection.execute(f"CREATE TABLE {TODAY.name} PARTITION OF job_done {bounds}")
    assert [answer.receipt for answer in await store.insert([late])] == [Receipt.ID_TAKEN]
    await connection.close()
    await store.close()
