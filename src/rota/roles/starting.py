"""Waiting for the database at start: whole deployments start at once, and a database takes longer than a process.

A store on a server that is away is tried again, after longer and longer pauses, until `start_timeout` is over. Any
failure to reach it counts as away, also a refused login: a new server has no users yet. What can never work (a URL that
cannot be read, a driver that is missing, a newer schema) and a store in a file are not waited for.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, TypeVar

from rota.core.errors import StoreUnavailable
from rota.core.patience import Patience
from rota.runtime.store import is_server

T = TypeVar("T")
SHORTEST_PAUSE_SECONDS: Final = 0.25
LONGEST_PAUSE_SECONDS: Final = 5.0
_log = logging.getLogger("rota")


async def wait_for_store(
    url: str,
    open_store: Callable[[], Awaitable[T]],
    at_most: timedelta,
    *,
    dice: Callable[[], float] = random.random,
) -> T:
    """Open a store; while its server is away, try again until the time is over. May be cancelled at any moment."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + (at_most.total_seconds() if is_server(url) else 0.0)
    patience = Patience(dice, shortest=SHORTEST_PAUSE_SECONDS, longest=LONGEST_PAUSE_SECONDS)
    while True:
        try:
            return await open_store()
        except StoreUnavailable as error:
            left = give_up_at - loop.time()
            if left <= 0:
                raise
            pause = min(patience.next(), left)
            _log.warning("the store is away; trying again in %.1f s, for %.0f s more: %s", pause, left, error)
        await asyncio.sleep(pause)
