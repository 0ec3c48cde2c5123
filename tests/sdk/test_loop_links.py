"""Links of single loops: a loop that submits often gets one, and closes it when the loop ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from rota import Rota
from rota.core.errors import StoreUnavailable
from rota.sdk.loop_links import SUBMISSIONS_BEFORE_LINK
from sdk.example_app import app_on, with_a_bad_queue
from servers.postgres import migrated_database, shared_server


@pytest.fixture
async def dsn() -> AsyncIterator[str]:
    async with migrated_database(shared_server()) as database:
        yield database


async def submit(app: Rota, number: int) -> None:
    note = app.tasks["note"]
    for count in range(number):
        await note.asubmit(count)


async def has_own_link(app: Rota) -> bool:
    return asyncio.get_running_loop() in app.gateway._links


async def open_own_link(app: Rota) -> None:
    """Submit until the loop has a link of its own."""
    await submit(app, SUBMISSIONS_BEFORE_LINK)
    await until_linked(app)


async def until_linked(app: Rota) -> None:
    assert app.gateway._loop_links is not None
    async with asyncio.timeout(60):
        while app.gateway._loop_links.batcher() is None:  # noqa: ASYNC110 - it comes when it comes, and nobody tells
            await asyncio.sleep(0.01)


async def stored(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        count: int = await connection.fetchval("SELECT count(*) FROM rota_job")
        return count
    finally:
        await connection.close()


async def connections(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        count: int = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'rota'"
        )
        return count
    finally:
        await connection.close()


async def until_disconnected(dsn: str) -> None:
    async with asyncio.timeout(60):
        while await connections(dsn):  # noqa: ASYNC110 - only the server knows
            await asyncio.sleep(0.05)


async def test_a_loop_that_submits_often_gets_its_own_link(dsn: str) -> None:
    app = app_on(dsn)
    await submit(app, SUBMISSIONS_BEFORE_LINK - 1)
    assert not await has_own_link(app), "not yet"
    await open_own_link(app)
    assert await has_own_link(app)
    before = await stored(dsn)
    await submit(app, 10)
    await asyncio.gather(*(submit(app, 5) for _ in range(20)))
    assert await stored(dsn) == before + 110
    app.close()
    await until_disconnected(dsn)
    assert not await has_own_link(app)


async def test_a_submission_over_its_own_link_is_refused_with_the_same_error(dsn: str) -> None:
    app = app_on(dsn)
    await open_own_link(app)
    with pytest.raises(ValueError, match="queue"):
        await with_a_bad_queue(app.tasks["note"]).asubmit(1)
    await submit(app, 1)
    app.close()


async def test_a_loop_that_ends_closes_its_link(dsn: str) -> None:
    app = app_on(dsn)
    await asyncio.to_thread(asyncio.run, open_own_link(app))
    assert {loop.is_closed() for loop in app.gateway._links} == {False}, "the portal's is left"
    await asyncio.to_thread(asyncio.run, submit(app, 3))
    assert await stored(dsn) == SUBMISSIONS_BEFORE_LINK + 3
    app.close()
    await until_disconnected(dsn)


async def test_closing_from_another_thread_closes_the_link(dsn: str) -> None:
    app = app_on(dsn)
    is_linked, may_end = threading.Event(), asyncio.Event()

    async def live() -> None:
        await open_own_link(app)
        loops.append(asyncio.get_running_loop())
        is_linked.set()
        await may_end.wait()

    loops: list[asyncio.AbstractEventLoop] = []
    living = asyncio.create_task(asyncio.to_thread(asyncio.run, live()))
    await asyncio.to_thread(is_linked.wait)
    await asyncio.to_thread(app.close)
    await until_disconnected(dsn)
    loops[0].call_soon_threadsafe(may_end.set)
    await living


def test_a_file_has_one_writer_and_no_loop_links(tmp_path: Path) -> None:
    assert Rota(f"sqlite:///{tmp_path}/rota.db").gateway._loop_links is None


async def test_loops_that_ended_are_not_kept(dsn: str) -> None:
    app = app_on(dsn)
    for _ in range(3):
        await asyncio.to_thread(asyncio.run, open_own_link(app))
    assert app.gateway._loop_links is not None
    assert len(app.gateway._loop_links._links) == 0
    assert len(app.gateway._links) == 1, "the portal's"
    app.close()


async def test_an_app_that_is_closed_by_the_last_line_of_its_loop_closes_its_link(dsn: str) -> None:
    app = app_on(dsn)

    async def live() -> None:
        await open_own_link(app)
        app.close()

    await asyncio.to_thread(asyncio.run, live())
    assert app.gateway._links == {}
    await until_disconnected(dsn)


async def test_an_app_that_is_closed_as_a_loop_begins_to_open_its_link_closes_it(dsn: str) -> None:
    app = app_on(dsn)
    assert app.gateway._loop_links is not None
    await submit(app, SUBMISSIONS_BEFORE_LINK - 1)
    assert app.gateway._loop_links.batcher() is None
    (link,) = app.gateway._loop_links._links.values()
    assert link.opening is not None, "it begins with the next turn of the loop"
    app.close()
    await until_disconnected(dsn)
    assert not await has_own_link(app)


def test_an_app_whose_store_is_away_can_be_closed() -> None:
    app = app_on("postgresql://nobody@127.0.0.1:1/none")
    before = threading.active_count()
    with pytest.raises(StoreUnavailable):
        app.tasks["note"].submit(1)
    app.close()
    assert threading.active_count() == before


def test_a_cancelled_wait_for_a_link_does_not_cancel_the_link(tmp_path: Path) -> None:
    app = app_on(str(tmp_path / "rota.db"))

    async def live() -> None:
        impatient = asyncio.create_task(app.get("0aj1yv3pad27b").aresult(timeout=1))
        await asyncio.sleep(0)
        patient = asyncio.create_task(app.tasks["note"].asubmit(1))
        await asyncio.sleep(0)
        impatient.cancel()
        assert (await patient).id

    asyncio.run(live())
    app.close()
