"""Procrastinate on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import procrastinate
import psycopg

from bench.systems.peers import handlers
from bench.systems.protocol import Commands, Role, System, processes, python, variable
from bench.systems.start_times import TEXT, mark

STORE = variable("STORE")
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=STORE))


@app.task(name="touch")
async def touch(number: int, text: str) -> int:  # noqa: ARG001 - carried for its size
    return mark(number)


@app.task(name="nap")
async def nap(number: int) -> None:
    await handlers.doze(number)


class Client(System):
    package = "procrastinate"
    keeps = "the job and a log of its states; no result"
    loses = "nothing of what was acknowledged; a killed worker's jobs stay as they are"
    can_submit_many = True

    async def prepare(self) -> None:
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        await app.open_async()
        self.watcher = psycopg.connect(STORE, autocommit=True)

    async def close(self) -> None:
        self.watcher.close()
        await app.close_async()

    async def submit(self, number: int) -> None:
        await touch.defer_async(number=number, text=TEXT)

    async def submit_many(self, numbers: Sequence[int]) -> None:
        await touch.batch_defer_async(*({"number": number, "text": TEXT} for number in numbers))

    async def submit_at(self, number: int, when: float) -> None:
        later = touch.configure(schedule_at=datetime.fromtimestamp(when, UTC))
        await later.defer_async(number=number, text=TEXT)

    async def submit_sleeping(self, number: int) -> None:
        await nap.defer_async(number=number)

    def finished(self) -> int:
        row = self.watcher.execute("SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'").fetchone()
        return 0 if row is None else int(row[0])

    def worker_commands(self, role: Role) -> Commands:
        if role == "alone":
            return []
        app_of_it = "--app=bench.systems.peers.procrastinate_postgres.app"
        worker = python("-m", "procrastinate", app_of_it, "worker", "--concurrency=20")
        return [worker for _ in range(1 if role == "crash" else processes())]
