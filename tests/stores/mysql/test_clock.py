"""The server's clock: read seldom, followed closely."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from rota.stores.mysql import clock
from rota.stores.mysql.clock import ServerClock
from rota.stores.mysql.driver import MysqlConnection, connect
from rota.stores.mysql.location import location_of

SECOND = 1_000_000


class Monotonic:
    """A steady clock that tests move."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> Monotonic:
    made = Monotonic()
    monkeypatch.setattr(clock, "time", made)
    return made


@pytest.fixture
async def connection(url: str) -> AsyncIterator[MysqlConnection]:
    connection = await connect(location_of(url), "test", autocommit=True)
    yield connection
    await connection.close()


async def set_server(connection: MysqlConnection, seconds: float) -> None:
    """A session's clock can be set; `utc_timestamp` follows it."""
    await connection.run(f"SET SESSION timestamp = {seconds}")


async def test_between_two_questions_our_own_clock_counts_on(connection: MysqlConnection, ours: Monotonic) -> None:
    server = ServerClock()
    await set_server(connection, 1_000.25)
    assert await server.now(connection) == 1_000_250_000
    await set_server(connection, 5_000)
    ours.seconds += 0.5
    assert await server.now(connection) == 1_000_750_000


async def test_a_step_of_the_servers_clock_is_followed_within_the_second(
    connection: MysqlConnection, ours: Monotonic
) -> None:
    server = ServerClock()
    await set_server(connection, 1_000)
    await server.now(connection)
    for moment in (5_000, 900):
        await set_server(connection, moment)
        ours.seconds += clock.TRUSTED_SECONDS
        assert await server.now(connection) == moment * SECOND


async def test_an_answer_that_took_long_is_not_counted_on(connection: MysqlConnection, ours: Monotonic) -> None:
    server = ServerClock()
    await set_server(connection, 1_000)
    rows = connection.rows

    async def slowly(sql: str, parameters: Mapping[str, Any] | None) -> object:
        found = await rows(sql, parameters)
        ours.seconds += 0.5
        return found

    connection.rows = slowly  # type: ignore[method-assign, assignment]
    assert await server.now(connection) == 1_000 * SECOND
    await set_server(connection, 2_000)
    assert await server.now(connection) == 2_000 * SECOND
