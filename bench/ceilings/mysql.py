"""The ceilings of MariaDB."""

from __future__ import annotations

import time

import asyncmy

from bench.ceilings.rows import jobs
from rota.stores.mysql.location import MysqlLocation
from rota.stores.mysql.statements import statement
from rota.stores.rows import Row, plain_job_row


class Bare:
    """asyncmy with nothing of ours but the shape of the rows.

    The fastest that this driver has: a prepared statement, all rows of a batch in one packet, no column named that
    stays empty. What a row holds is made before the clock starts.
    """

    def __init__(self, connection: asyncmy.Connection, number: int) -> None:
        self.connection = connection
        self.cursor = connection.cursor()
        self.table = f"bare_{number}"
        self.sql = statement("insert_plain_jobs").replace("INTO rota_job", f"INTO {self.table}")
        self.next = 1

    @classmethod
    async def open(cls, location: MysqlLocation, number: int = 1) -> Bare:
        """Connect as bare as can be, every statement its own durable commit."""
        return cls(await asyncmy.connect(**location.driver_arguments(), autocommit=True, stmt_cache_size=128), number)

    async def close(self) -> None:
        await self.connection.ensure_closed()

    async def create(self) -> None:
        """A table of the same columns, without keys but the primary one, constraints, and room for what comes later."""
        await self.cursor.execute(f"CREATE TABLE {self.table} AS SELECT * FROM rota_job LIMIT 0")
        await self.cursor.execute(f"ALTER TABLE {self.table} DROP COLUMN room, ADD PRIMARY KEY (id)")

    def rows(self, count: int) -> list[Row]:
        made = [plain_job_row(job, 1) for job in jobs(self.next, count)]
        self.next += count
        return made

    async def single_commits(self, count: int) -> float:
        rows = self.rows(count)
        begun = time.perf_counter()
        for row in rows:
            await self.cursor.execute(self.sql, row)
        return count / (time.perf_counter() - begun)

    async def batched_rows(self, count: int, batch: int = 500) -> float:
        batches = [self.rows(batch) for _ in range(count // batch)]
        begun = time.perf_counter()
        for rows in batches:
            await self.cursor.executemany(self.sql, rows)
        return count / (time.perf_counter() - begun)
