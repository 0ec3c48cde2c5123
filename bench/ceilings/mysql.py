"""The ceilings of MariaDB."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from bench.ceilings.rows import jobs
from rota.core.lifecycle import State
from rota.stores.mysql.driver import Connection
from rota.stores.mysql.statements import statement
from rota.stores.rows import new_job_row


class Bare:
    """asyncmy with nothing of ours but the shape of the rows."""

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection = connection
        self.table = f"bare_{number}"
        self.sql = statement("insert").replace("INTO job", f"INTO {self.table}")
        self.now = datetime.now(UTC)
        self.next = 1

    async def create(self) -> None:
        """A table of the same columns, without keys but the primary one and without constraints."""
        await self.connection.run(f"CREATE TABLE {self.table} AS SELECT * FROM job LIMIT 0")
        await self.connection.run(f"ALTER TABLE {self.table} ADD PRIMARY KEY (id)")

    def rows(self, count: int) -> list[tuple[object, ...]]:
        made = [new_job_row(job, State.PENDING, self.now, 1) for job in jobs(self.next, count)]
        self.next += count
        return made

    async def single_commits(self, count: int) -> float:
        rows = self.rows(count)
        begun = time.perf_counter()
        for row in rows:
            await self.connection.many(self.sql, [row])
        return count / (time.perf_counter() - begun)

    async def batched_rows(self, count: int, batch: int = 500) -> float:
        batches = [self.rows(batch) for _ in range(count // batch)]
        begun = time.perf_counter()
        for rows in batches:
            await self.connection.many(self.sql, rows)
        return count / (time.perf_counter() - begun)
