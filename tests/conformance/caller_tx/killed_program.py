"""A program that submits in a transaction, prints that, and waits to be killed."""

from __future__ import annotations

import asyncio
import sys

from conformance.caller_tx.callers import BY_NAME
from rota import Rota


async def main(name: str, place: str) -> None:
    app = Rota(place)

    @app.task
    def ship(number: int) -> int:
        return number

    async with BY_NAME[name].connect(place) as caller:
        await caller.start()
        await caller.buy(1)
        handle = await caller.submit(ship, 1, idempotency_key="k", tags=["t"])
        sys.stdout.write(f"{handle.id}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
