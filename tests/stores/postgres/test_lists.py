"""Lists and counts for people: on separate connections, with a time limit."""

from __future__ import annotations

import asyncio

import pytest

from builders import new_jobs
from rota.core.errors import StoreUnavailable
from rota.ports.store import JobQuery
from rota.stores.postgres import PostgresStore
from rota.stores.postgres import session as sessions
from rota.stores.postgres.database import LISTERS
from rota.stores.postgres.session import Session


async def _read_at_length(session: Session) -> None:
    await session.fetch("SELECT pg_sleep(60)")


async def test_a_list_that_takes_long_is_ended_by_the_server(store: PostgresStore) -> None:
    """Two seconds, and not once more: it would take as long again."""
    began = asyncio.get_running_loop().time()
    with pytest.raises(StoreUnavailable, match="statement timeout"):
        await store._database.read_list(_read_at_length)
    assert asyncio.get_running_loop().time() - began < 6


async def test_long_lists_delay_neither_health_checks_nor_claims(store: PostgresStore) -> None:
    jobs = new_jobs(1)
    await store.insert(jobs)
    lists = [asyncio.create_task(store._database.read_list(_read_at_length)) for _ in range(3 * LISTERS)]
    while len(store._database.listers.lent) < LISTERS:  # noqa: ASYNC110 - no event
        await asyncio.sleep(0)
    async with asyncio.timeout(1.5):
        await store.timetable()
        await store.get([job.id for job in jobs])
    assert not any(one.done() for one in lists)
    for one in lists:
        one.cancel()
    await asyncio.gather(*lists, return_exceptions=True)
    assert len(await store.find(JobQuery())) == 1


async def test_a_count_that_the_server_ends_drops_no_other_connection(store: PostgresStore) -> None:
    """The server answered, late and with an error: it is not gone, and no caller has to connect again."""
    await store.insert(new_jobs(1))
    writers = list(store._database.writers._idle)
    assert writers
    silences: list[None] = []
    store._database.on_no_response = lambda: silences.append(None)
    with pytest.raises(StoreUnavailable, match="statement timeout"):
        await store._database.count(_read_at_length)
    assert silences == []
    assert store._database.writers._idle == writers


async def test_a_prepared_statement_that_the_server_ends_drops_no_other_connection(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "statement", lambda *_: "SELECT pg_sleep($1)")
    silences: list[None] = []
    store._database.on_no_response = lambda: silences.append(None)

    async def read_prepared(session: Session) -> None:
        await session.rows("slow", 60.0)

    with pytest.raises(StoreUnavailable, match="statement timeout"):
        await store._database.count(read_prepared)
    assert silences == []
