"""The ceilings of PostgreSQL."""

from __future__ import annotations

import time
from itertools import count

import asyncpg

from bench.ceilings.rows import PAYLOAD

COLUMNS = {
    "id": "bigint", "type": "text", "queue": "text", "priority": "smallint", "run_at": "bigint",
    "max_attempts": "bigint", "expires_at": "bigint", "timeout": "bigint", "delivery": "text", "backoff": "text",
    "payload": "text", "idempotency_key": "text", "concurrency_key": "text", "tags": "text", "meta": "text",
    "blockers": "integer", "on_success": "text", "on_failure": "text", "parent_id": "bigint", "schedule_id": "bigint",
    "fire_time": "bigint", "state": "text", "turn": "bigint", "created_at": "bigint", "updated_at": "bigint",
}  # fmt: skip
_numbers = count(1)


def rows(number: int) -> list[tuple[object, ...]]:
    fixed = ("mail", "default", 5, 1, 3, None, None, "at_least_once", None, PAYLOAD)
    return [(next(_numbers), *fixed, *(None,) * 4, 0, *(None,) * 5, "pending", 1, 1, 1) for _ in range(number)]


class Bare:
    """asyncpg with nothing of ours but the shape of the rows."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection
        names = ", ".join(COLUMNS)
        places = ", ".join(f"${number}" for number in range(1, len(COLUMNS) + 1))
        arrays = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(COLUMNS.values(), 1))
        self.one = f"INSERT INTO bare ({names}) VALUES ({places})"
        self.many = f"INSERT INTO bare ({names}) SELECT * FROM unnest({arrays})"

    async def prepare(self) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        await self.connection.execute(f"DROP TABLE IF EXISTS bare; CREATE TABLE bare ({columns}, PRIMARY KEY (id))")

    async def single_commits(self, number: int) -> float:
        made = rows(number)
        begun = time.perf_counter()
        for row in made:
            await self.connection.execute(self.one, *row)
        return number / (time.perf_counter() - begun)

    async def batched_rows(self, number: int, batch: int = 500) -> float:
        batches = [[list(column) for column in zip(*rows(batch), strict=True)] for _ in range(number // batch)]
        begun = time.perf_counter()
        for columns in batches:
            await self.connection.execute(self.many, *columns)
        return number / (time.perf_counter() - begun)
