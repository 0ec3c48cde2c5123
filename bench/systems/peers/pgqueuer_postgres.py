"""PgQueuer on PostgreSQL, with asyncpg and uvloop. Run as a program, it is a worker with the given concurrency."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import timedelta

import asyncpg
import pgqueuer
import uvloop
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from bench.systems.peers import handlers
from bench.systems.protocol import Commands, Role, System, processes, python, variable
from bench.systems.start_times import TEXT, mark

STORE = variable("STORE")


def payload_of(number: int) -> bytes:
    return f"{number} {TEXT}".encode()


def number_of(payload: bytes) -> int:
    return int(payload.partition(b" ")[0])


class Client(System):
    package = "pgqueuer"
    keeps = "a log of its states; neither payload nor result"
    loses = "nothing: a killed worker's jobs run again after 30 s"
    can_submit_many = True

    async def prepare(self) -> None:
        connection = await asyncpg.connect(STORE)
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()

    async def open(self) -> None:
        self.connection = await asyncpg.connect(STORE)
        self.watcher = await asyncpg.connect(STORE)
        self.queries = Queries(AsyncpgDriver(self.connection))

    async def close(self) -> None:
        await self.connection.close()
        await self.watcher.close()

    async def submit(self, number: int) -> None:
        await self.queries.enqueue("touch", payload_of(number))

    async def submit_many(self, numbers: Sequence[int]) -> None:
        payloads = [payload_of(number) for number in numbers]
        await self.queries.enqueue(["touch"] * len(payloads), payloads, [0] * len(payloads))

    async def submit_at(self, number: int, when: float) -> None:
        later = timedelta(seconds=when - time.time())
        await self.queries.enqueue("touch", payload_of(number), execute_after=later)

    async def submit_sleeping(self, number: int) -> None:
        await self.queries.enqueue("nap", payload_of(number))

    async def finished(self) -> int:
        return int(await self.watcher.fetchval("SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'"))

    def worker_commands(self, role: Role) -> Commands:
        if role == "alone":
            return []
        number, batch = (1, "10") if role == "crash" else (processes(), "200")
        return [python("-m", "bench.systems.peers.pgqueuer_postgres", batch) for _ in range(number)]


async def work(batch: int) -> None:
    queue = pgqueuer.PgQueuer(AsyncpgDriver(await asyncpg.connect(STORE)))

    @queue.entrypoint("touch")
    async def touch(job: pgqueuer.models.Job) -> None:
        mark(number_of(job.payload))

    @queue.entrypoint("nap")
    async def nap(job: pgqueuer.models.Job) -> None:
        await handlers.doze(number_of(job.payload))

    await queue.run(batch_size=batch)


if __name__ == "__main__":
    uvloop.run(work(int(sys.argv[1])))
