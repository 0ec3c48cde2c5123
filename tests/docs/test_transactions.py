"""Every snippet about submitting in a transaction runs as it is written, on a real database with another address."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conformance.caller_tx.callers import ASYNCMY, ASYNCPG, DRIVERS, OWN_TABLE, PYMYSQL, SQLITE3, Way, mysql_options
from rota import Rota
from rota.ports.store import JobQuery
from rota.runtime.store import open_store

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "submit-in-a-transaction.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def way_of(snippet: str) -> Way:
    if "postgresql" in snippet:
        return ASYNCPG
    return SQLITE3 if "sqlite3" in snippet else ASYNCMY if "asyncmy" in snippet else PYMYSQL


def addressed(snippet: str, place: str) -> str:
    """Let a snippet use the test's database."""
    bare = place.removeprefix("postgresql://")
    snippet = snippet.replace("shop.db", place).replace("shop@localhost/shop", bare)
    if "mysql" in place:
        options = mysql_options(place)
        snippet = snippet.replace('"localhost"', repr(options["host"])).replace("3306", str(options["port"]))
        snippet = snippet.replace('user="shop"', f"user={options['user']!r}")
        snippet = snippet.replace('database="shop"', f"database={options['database']!r}")
    return snippet


@pytest.fixture(params=SNIPPETS, ids=lambda snippet: snippet.strip().splitlines()[0])
def snippet(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
async def place(snippet: str, tmp_path: Path) -> AsyncIterator[str]:
    way = way_of(snippet)
    async for place in way.store.place(tmp_path):
        await (await open_store(place)).close()
        async with way.connect(place) as caller:
            await caller.start()
            await caller.execute(OWN_TABLE)
            await caller.commit()
            yield place
            await caller.start()
            await caller.execute("DROP TABLE purchase")
            await caller.commit()


@contextmanager
def shop(place: str) -> Iterator[dict[str, Any]]:
    """Return what the snippets take for granted."""
    app = Rota(place)

    @app.task
    def send_receipt(order: int) -> str:
        return f"sent the receipt of order {order}"

    yield {"app": app, "send_receipt": send_receipt, "order": 42}
    app.close()


async def test_a_snippet_leaves_one_order_and_one_job(snippet: str, place: str) -> None:
    with shop(place) as names:
        exec(compile(addressed(snippet, place), "snippet", "exec"), names)  # noqa: S102 - our own page
        if "buy" in names:
            done = names["buy"](42)
            if inspect.isawaitable(done):
                await done
        names["app"].close()
        if "engine" in names:
            names["engine"].dispose()
    store = await open_store(place)
    (job,) = await store.find(JobQuery())
    await store.close()
    assert (job.type, job.payload) == ("send_receipt", '{"args":[42],"kwargs":{}}')
    async with way_of(snippet).connect(place) as caller:
        await caller.start()
        assert await caller.fetch("SELECT number FROM purchase") == [(42,)]
        await caller.rollback()


def test_every_driver_is_shown() -> None:
    shown = {found for snippet in SNIPPETS for found in re.findall(r"^(?:import|from) (\w+)", snippet, re.MULTILINE)}
    assert shown >= {way.name.removesuffix("-async") for way in DRIVERS} | {"sqlalchemy"}
