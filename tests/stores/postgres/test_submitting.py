"""A lone job is stored by one of two statements, with a notice and without: the same row, and the same no."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from building import new_job
from rota.core.submission import NewJob
from rota.ports.store import Inserted, Receipt
from rota.stores.postgres import PostgresStore, submitting

NOW = 1_800_000_000_000_000
NOTICE = '["somebody", ["default", "mail", 5]]'


async def put(store: PostgresStore, job: NewJob, notice: str | None) -> Inserted | None:
    return await store._database.alone(submitting.insert_one, job, NOW, notice)


async def row(dsn: str, job: NewJob) -> dict[str, Any]:
    connection = await asyncpg.connect(dsn)
    try:
        (found,) = await connection.fetch("SELECT * FROM job WHERE id = $1", job.id)
        return {name: value for name, value in found.items() if name != "id"}
    finally:
        await connection.close()


async def test_with_a_notice_or_without_a_job_is_stored_alike(store: PostgresStore, dsn: str) -> None:
    fields = {"queue": "slow", "priority": 3, "max_attempts": 7, "payload": '{"to": "ann"}'}
    quietly, aloud = new_job("bill", **fields), new_job("bill", **fields)
    answers = [await put(store, quietly, None), await put(store, aloud, NOTICE)]
    assert [(one.receipt, one.state) for one in answers if one] == [(Receipt.CREATED, "pending")] * 2
    assert await row(dsn, quietly) == await row(dsn, aloud)
    assert (await row(dsn, quietly))["queue"] == "slow"


@pytest.mark.parametrize("notice", [None, NOTICE])
async def test_what_needs_a_closer_look_is_left_alone(store: PostgresStore, dsn: str, notice: str | None) -> None:
    taken, finished, bounded = new_job(), new_job(), new_job(queue="narrow")
    await store.insert([taken])
    connection = await asyncpg.connect(dsn)
    await connection.execute("INSERT INTO queue (name, max_depth, version) VALUES ('narrow', 1, 1)")
    await connection.execute(
        "INSERT INTO job_done (id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts,"
        " delivery, payload, finished_at) VALUES ($1, 'mail', 'default', 5, 'completed', 1, 1, 1, 1, 1,"
        " 'at_least_once', 'null', 1)",
        finished.id,
    )
    assert [await put(store, job, notice) for job in (taken, finished, bounded)] == [None] * 3
    assert await connection.fetchval("SELECT count(*) FROM job") == 1
    await connection.close()
