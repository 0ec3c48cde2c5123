"""Keeping a duty loop alive: whatever it raises is logged with its traceback, and after a pause it is run again.

A loop handles the failures that it expects (the store is away) by itself. This is for those that nobody expected: a
driver that raises an error of a new kind, or a mistake of ours. Without it the loop would end for good, or take the
process with it, although the next pass may well succeed.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from rota.core.patience import Patience

LONGEST_PAUSE_SECONDS: Final = 5.0
#: A loop that ran for this long before it failed is not failing again and again.
HEALTHY_SECONDS: Final = 30.0
_log = logging.getLogger("rota.supervision")


async def supervised(
    name: str, run: Callable[[], Awaitable[None]], *, dice: Callable[[], float] = random.random
) -> None:
    """Run a loop until it returns or is cancelled; run it again, after a pause, whenever it raises."""
    patience = Patience(dice, longest=LONGEST_PAUSE_SECONDS)
    loop = asyncio.get_running_loop()
    while True:
        begun = loop.time()
        try:
            await run()
        except Exception:  # noqa: BLE001 - any failure may pass
            if loop.time() - begun >= HEALTHY_SECONDS:
                patience.reset()
            pause = patience.next()
            _log.exception("%s failed unexpectedly and is run again in %.2f s", name, pause)
            await asyncio.sleep(pause)
        else:
            return
