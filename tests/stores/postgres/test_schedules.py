from __future__ import annotations

from collections.abc import Sequence

import asyncpg
import pytest

from builders import BASE, at, fresh_id, schedule
from rota.core.schedule import plan
from rota.core.time import to_micros
from rota.stores.postgres import PostgresStore
from rota.stores.postgres.schedules import fire
from rota.stores.postgres.session import Session
from rota.stores.rows import Row


class Counting(Session):
    """Counts the statements that the server gets."""

    __slots__ = ("asked",)

    def __init__(self, connection: asyncpg.Connection) -> None:
        super().__init__(connection, take_back=_leave_it, is_pooled=False)
        self.asked = 0

    async def rows(self, name: str, *arguments: object, seconds: float | None = None) -> Sequence[Row]:
        self.asked += 1
        return await super().rows(name, *arguments, seconds=seconds)


def _leave_it(_session: Session, *, is_sound: bool) -> None:
    assert is_sound


@pytest.mark.parametrize("number", [2, 200])
async def test_many_schedules_ask_the_server_no_more_often_than_few(
    dsn: str, store: PostgresStore, number: int
) -> None:
    """One by one, ten thousand schedules that were due in the same second took the better part of a minute."""
    await store.put_schedules([schedule(f"s{one}") for one in range(number)], now=BASE)
    found = await store.schedules(limit=number)
    connection = await asyncpg.connect(dsn)
    session = Counting(connection)
    firings = [plan(one, at(61), previous_is_active=False, fresh_id=fresh_id) for one in found]
    async with connection.transaction():
        assert len(await fire(session, firings, to_micros(at(61)))) == number
    await connection.close()
    assert session.asked <= 5
