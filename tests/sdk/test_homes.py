"""Homes: a loop that submits much is linked by itself, and lets go of its link when it ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import pytest

from rota import Rota
from rota.core.errors import StoreUnavailable
from rota.sdk import homes
from rota.sdk.homes import WORTH
from sdk.noting import app_on, with_a_bad_queue
from servers.postgres import migrated_database, shared_server


@pytest.fixture
async def dsn() -> AsyncIterator[str]:
    async with migrated_database(shared_server()) as database:
        yield database


async def submit(app: Rota, number: int) -> None:
    note = app.tasks["note"]
    for count in range(number):
        await note.asubmit(count)


async def has_a_home(app: Rota) -> bool:
    return asyncio.get_running_loop() in app.reach._links


async def move_in(app: Rota) -> None:
    """Submit until the loop has a desk of its own."""
    await submit(app, WORTH)
    await until_at_home(app)


async def until_at_home(app: Rota) -> None:
    assert app.reach._homes is not None
    async with asyncio.timeout(60):
        while app.reach._homes.desk() is None:  # noqa: ASYNC110 - it comes when it comes, and nobody tells
            await asyncio.sleep(0.01)


async def stored(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        count: int = await connection.fetchval("SELECT count(*) FROM job")
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


async def let_go(dsn: str) -> None:
    async with asyncio.timeout(60):
        while await connections(dsn):  # noqa: ASYNC110 - only the server knows
            await asyncio.sleep(0.05)


async def test_a_loop_that_submits_much_is_linked_by_itself(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(homes, "STAYS_SECONDS", 3600.0)
    app = app_on(dsn)
    await submit(app, WORTH - 1)
    assert not await has_a_home(app), "not yet worth it"
    await move_in(app)
    assert await has_a_home(app)
    before = await stored(dsn)
    await submit(app, 10)
    await asyncio.gather(*(submit(app, 5) for _ in range(20)))
    assert await stored(dsn) == before + 110
    app.close()
    await let_go(dsn)
    assert not await has_a_home(app)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop has stayed after some turns, and never submits much."""
    monkeypatch.setattr(homes, "WORTH", 10**9)
    monkeypatch.setattr(homes, "STAYS_SECONDS", 0.0)
    monkeypatch.setattr(homes, "LATE_SECONDS", 3600.0)


@pytest.mark.usefixtures("soon")
async def test_a_loop_that_stays_is_linked_by_itself_after_few(dsn: str) -> None:
    app = app_on(dsn)
    await submit(app, 1)
    assert not await has_a_home(app), "it may be gone in a moment"
    await submit(app, 1)
    await until_at_home(app)
    await submit(app, 3)
    assert await stored(dsn) == 5
    app.close()
    await let_go(dsn)


async def test_a_loop_that_is_run_now_and_then_is_not(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of some of its jobs others would hear when it runs again."""
    monkeypatch.setattr(homes, "STAYS_SECONDS", 0.2)
    monkeypatch.setattr(homes, "LATE_SECONDS", 0.01)
    app = app_on(dsn)

    def live() -> bool:
        with asyncio.Runner() as runner:
            for _ in range(2 * homes.BEATS):
                runner.run(submit(app, 1))
                # Until a beat is overdue.
                time.sleep(0.2 / homes.BEATS + 0.02)
            return runner.run(has_a_home(app))

    assert not await asyncio.to_thread(live)
    app.close()


@pytest.mark.usefixtures("soon")
async def test_only_a_few_of_many_loops_are_linked_by_themselves_for_staying(dsn: str) -> None:
    app = app_on(dsn)
    many = homes.FEW + 3
    meeting = threading.Barrier(many)

    async def stay() -> bool:
        for _ in range(5):
            await submit(app, 1)
            await asyncio.sleep(0)
            await asyncio.to_thread(meeting.wait, 60)
        return await has_a_home(app)

    with ThreadPoolExecutor(many) as threads:
        living = [threads.submit(asyncio.run, stay()) for _ in range(many)]
        at_home = [await asyncio.wrap_future(one) for one in living]
    assert sum(at_home) == homes.FEW
    app.close()
    await let_go(dsn)


async def test_its_submissions_are_refused_in_the_same_words(dsn: str) -> None:
    app = app_on(dsn)
    await move_in(app)
    with pytest.raises(ValueError, match="queue"):
        await with_a_bad_queue(app.tasks["note"]).asubmit(1)
    await submit(app, 1)
    app.close()


async def test_a_loop_that_ends_lets_go_of_its_link(dsn: str) -> None:
    app = app_on(dsn)
    await asyncio.to_thread(asyncio.run, move_in(app))
    assert {loop.is_closed() for loop in app.reach._links} == {False}, "the portal's is left"
    await asyncio.to_thread(asyncio.run, submit(app, 3))
    assert await stored(dsn) == WORTH + 3
    app.close()
    await let_go(dsn)


async def test_closing_from_another_thread_ends_a_home(dsn: str) -> None:
    app = app_on(dsn)
    has_moved, may_end = threading.Event(), asyncio.Event()

    async def live() -> None:
        await move_in(app)
        loops.append(asyncio.get_running_loop())
        has_moved.set()
        await may_end.wait()

    loops: list[asyncio.AbstractEventLoop] = []
    living = asyncio.create_task(asyncio.to_thread(asyncio.run, live()))
    await asyncio.to_thread(has_moved.wait)
    await asyncio.to_thread(app.close)
    await let_go(dsn)
    loops[0].call_soon_threadsafe(may_end.set)
    await living


def test_a_file_has_one_writer_and_no_homes(tmp_path: Path) -> None:
    assert Rota(f"sqlite:///{tmp_path}/rota.db").reach._homes is None


async def test_loops_that_ended_are_forgotten(dsn: str) -> None:
    app = app_on(dsn)
    for _ in range(3):
        await asyncio.to_thread(asyncio.run, move_in(app))
    assert app.reach._homes is not None
    assert len(app.reach._homes._homes) == 0
    assert len(app.reach._links) == 1, "the portal's"
    app.close()


async def test_an_app_that_is_closed_by_the_last_line_of_its_loop_lets_go(dsn: str) -> None:
    app = app_on(dsn)

    async def live() -> None:
        await move_in(app)
        app.close()

    await asyncio.to_thread(asyncio.run, live())
    assert app.reach._links == {}
    await let_go(dsn)


@pytest.mark.usefixtures("soon")
async def test_an_app_that_is_closed_as_a_loop_begins_to_move_in_lets_go(dsn: str) -> None:
    app = app_on(dsn)
    assert app.reach._homes is not None
    await submit(app, 1)
    (home,) = app.reach._homes._homes.values()
    async with asyncio.timeout(60):
        while not home.has_stayed:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0)
    assert app.reach._homes.desk() is None
    assert home.moving is not None, "it begins with the next turn of the loop"
    app.close()
    await let_go(dsn)
    assert not await has_a_home(app)


def test_an_app_whose_store_is_away_can_be_closed() -> None:
    app = app_on("postgresql://nobody@127.0.0.1:1/none")
    before = threading.active_count()
    with pytest.raises(StoreUnavailable):
        app.tasks["note"].submit(1)
    app.close()
    assert threading.active_count() == before


def test_one_who_stops_waiting_for_a_link_does_not_call_it_off(tmp_path: Path) -> None:
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
