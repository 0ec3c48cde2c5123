"""The side: submitting to a file past the portal, straight from whoever calls.

A file has one writer for all threads and loops of the process (see `rota.stores.sqlite.desk`), so nobody needs the
portal's loop to get there. A thread does its own work, or shares the work of those who are there already. A loop must
not be held up by a disk: it has a desk, where what its tasks hand in is gathered, and the writer wakes it once for each
batch.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final
from weakref import WeakKeyDictionary

from rota.core.submission import NewJob
from rota.desk import MergingDesk
from rota.ports.guest import at_once
from rota.ports.store import Inserted
from rota.runtime import SideDoor
from rota.sdk.portal import Portal, running_loop

#: How long closing waits for another thread's loop to finish what it was handed.
LONGEST_GOODBYE_SECONDS: Final = 5.0

Desk = MergingDesk[NewJob, Inserted]


class Side:
    """Submits by a side door, from any thread and any loop."""

    def __init__(self, door: SideDoor, portal: Portal) -> None:
        self._door = door
        self._portal = portal
        self._guard = threading.Lock()
        self._desks: WeakKeyDictionary[asyncio.AbstractEventLoop, Desk] = WeakKeyDictionary()

    def post(self, jobs: Sequence[NewJob]) -> Sequence[Inserted]:
        """Submit jobs from code that is not async."""
        self._portal.require_elsewhere()
        return at_once(self._door.submit_by_hand(jobs))

    def desk(self) -> Desk:
        """Give the running loop's desk."""
        loop = asyncio.get_running_loop()
        desk = self._desks.get(loop)
        if desk is None:
            desk = MergingDesk(self._door.submit, prompt=True)
            with self._guard:
                self._desks[loop] = desk
        return desk

    def close(self) -> None:
        """Have everything served that was handed in."""
        with self._guard:
            desks = dict(self._desks)
            self._desks.clear()
        for loop, desk in desks.items():
            if loop is running_loop():
                # It does not turn while we are here.
                desk.finish(self._door.submit_by_hand)
            elif loop.is_running():
                # It may end meanwhile, or be busy for long; what comes too late is refused by the store.
                with suppress(Exception):
                    asyncio.run_coroutine_threadsafe(desk.close(), loop).result(LONGEST_GOODBYE_SECONDS)
