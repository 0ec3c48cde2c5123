"""Supervision of background loops: an unexpected error is logged with its traceback, and the loop is run again.

A loop handles expected failures (the store is away) itself. This is for unexpected ones: a driver that raises a new
kind of error, or a bug. Without it the loop would end, or end the process, although the next pass may succeed.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from rota.backoff import JitteredBackoff

LONGEST_PAUSE_SECONDS: Final = 5.0
#: A loop that ran for this long before it failed is not failing again and again.
HEALTHY_SECONDS: Final = 30.0
_log = logging.getLogger("rota.supervision")


async def supervised(
    name: str, run: Callable[[], Awaitable[None]], *, rng: Callable[[], float] = random.random
) -> None:
    """Run a loop until it returns or is cancelled; after an error, run it again after a pause."""
    backoff = JitteredBackoff(rng, longest=LONGEST_PAUSE_SECONDS)
    loop = asyncio.get_running_loop()
    while True:
        begun = loop.time()
        try:
            await run()
        except Exception:  # noqa: BLE001 - any failure may pass
            if loop.time() - begun >= HEALTHY_SECONDS:
                backoff.reset()
            pause = backoff.next()
            _log.exception("%s failed unexpectedly and is run again in %.2f s", name, pause)
            await asyncio.sleep(pause)
        else:
            return
