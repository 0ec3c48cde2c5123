"""What the peers' jobs do: the same as Rota's."""

from __future__ import annotations

import asyncio
import time

from bench.systems.start_times import note


def nap(number: int) -> None:
    note("start", number)
    time.sleep(1)
    note("end", number)


async def doze(number: int) -> None:
    note("start", number)
    await asyncio.sleep(1)
    note("end", number)
