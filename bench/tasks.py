"""The tasks that workers run in benchmarks. Started as `rota worker --app bench.tasks:app`."""

from __future__ import annotations

import time

from rota import Rota

app = Rota()
#: How long `blocks` takes, and how many turns `burns` takes for about 20 ms of a core.
BLOCK_SECONDS = 0.01
TURNS = 400_000


@app.task
async def suspends() -> int:
    """Do nothing, on the loop."""
    return 1


@app.task
async def passes_on(_value: object) -> int:
    """Do nothing with the result of the job before it, or the results of those, on the loop."""
    return 1


@app.task
def returns() -> int:
    """Do nothing, on a thread."""
    return 1


@app.task
def blocks() -> int:
    """Wait as for an answer from elsewhere, on a thread."""
    time.sleep(BLOCK_SECONDS)
    return 1


def burn(turns: int) -> int:
    """Keep a core busy."""
    total = 0
    for number in range(turns):
        total += number
    return total


@app.task(executor="process")
def burns() -> int:
    """Keep a core busy, in a process."""
    return burn(TURNS)
