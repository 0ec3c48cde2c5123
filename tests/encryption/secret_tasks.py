"""Tasks that put a secret wherever a handler can put one."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from rota import GiveUp, Rota, current

app = Rota()


@app.task
def keep(value: Any) -> Any:  # noqa: ANN401 - whatever the job before it gave
    return value


@app.task
async def show(secret: str) -> dict[str, str]:
    """Return it, and put it into progress, log and a step on the way."""
    job = current()
    job.progress(1, 2, secret)
    job.log(f"got {secret}")
    step = await job.astep("tell", _told(secret))
    await asyncio.sleep(0.7)
    return {"answer": step}


def _told(secret: str) -> Any:  # noqa: ANN401 - a function for a step
    async def tell() -> str:
        return f"told {secret}"

    return tell


@app.task(executor="process")
def show_in_a_process(secret: str) -> str:
    current().log(f"got {secret}")
    return secret


@app.task(retry=1, on_failure=keep)
def fail(secret: str) -> None:
    try:
        raise ValueError(f"no such customer: {secret}")
    except ValueError as error:
        raise GiveUp(f"gave up on {secret}") from error


@app.task
def double(number: int) -> int:
    logging.getLogger("tasks").info("doubling")
    return 2 * number
