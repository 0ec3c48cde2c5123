"""A process that opens a database, prints the ids of the jobs it reads, and ends."""

from __future__ import annotations

import asyncio
import sys

from conformance.stores.adapters import BY_NAME
from conformance.stores.concurrent_process import clock
from rota.ports.store import JobQuery


async def main(name: str, place: str) -> None:
    store = await BY_NAME[name].open(place, clock)
    jobs = await store.find(JobQuery())
    await store.close()
    for job in reversed(jobs):
        sys.stdout.write(f"{job.id}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
