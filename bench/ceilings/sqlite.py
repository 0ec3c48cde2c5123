"""The ceilings of SQLite."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue

from bench.ceilings.rows import jobs
from rota._loop import new_loop
from rota.core.lifecycle import State
from rota.stores.rows import new_job_row, plain_job_row
from rota.stores.sqlite.statements import statement


def opened(path: Path) -> sqlite3.Connection:
    """Open a file whose commits survive a power cut."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


class Bare:
    """sqlite3 with nothing of ours but the shape of the rows."""

    def __init__(self, path: Path) -> None:
        self.connection = opened(path)
        columns = statement("insert_job").split("(")[1].split(")")[0]
        plain = ", ".join(name.strip() for name in columns.split(",") if name.strip() != "id")
        self.connection.execute(f"CREATE TABLE rota_job (id INTEGER PRIMARY KEY, {plain})")
        self.now = datetime.now(UTC)
        self.next = 1

    def rows(self, count: int) -> list[tuple[object, ...]]:
        made = [new_job_row(job, State.PENDING, self.now, 1) for job in jobs(self.next, count)]
        self.next += count
        return made

    def plain_rows(self, count: int) -> list[tuple[object, ...]]:
        made = [plain_job_row(job, 1) for job in jobs(self.next, count)]
        self.next += count
        return made

    def single_commits(self, count: int) -> float:
        rows = self.plain_rows(count)
        begun = time.perf_counter()
        for row in rows:
            self.connection.execute(statement("insert_plain"), row)
        return count / (time.perf_counter() - begun)

    def handed_commits(self, count: int) -> float:
        """Do the same for a loop, which must not wait for a disk: another thread commits, by the least that takes."""
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(self._handed(self.plain_rows(count)))

    async def _handed(self, rows: list[tuple[object, ...]]) -> float:
        loop = asyncio.get_running_loop()
        handed: SimpleQueue[tuple[tuple[object, ...], asyncio.Future[None]] | None] = SimpleQueue()

        def commit() -> None:
            while (order := handed.get()) is not None:
                row, done = order
                try:
                    self.connection.execute(statement("insert_plain"), row)
                except sqlite3.Error as error:
                    loop.call_soon_threadsafe(done.set_exception, error)
                else:
                    loop.call_soon_threadsafe(done.set_result, None)

        thread = threading.Thread(target=commit)
        thread.start()
        begun = time.perf_counter()
        try:
            for row in rows:
                done = loop.create_future()
                handed.put((row, done))
                await done
            return len(rows) / (time.perf_counter() - begun)
        finally:
            handed.put(None)
            thread.join()

    def batched_rows(self, count: int, *, plain: bool = False, batch: int = 500) -> float:
        make, name = (self.plain_rows, "insert_plain") if plain else (self.rows, "insert_job")
        batches = [make(batch) for _ in range(count // batch)]
        begun = time.perf_counter()
        for rows in batches:
            self.connection.execute("BEGIN")
            self.connection.executemany(statement(name), rows)
            self.connection.execute("COMMIT")
        return count / (time.perf_counter() - begun)
