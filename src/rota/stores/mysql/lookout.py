"""Looking out for what other processes write.

Writers ring bells, with their commits, and those are looked at, which costs one short query. It finds everything, if
late. Who can be woken (`hearing`) is told at once, and its ear looks once a second, without a word between server and
client; who cannot looks soon after something last came, and then less and less often.

There may be some that ring and wake nobody: callers who submit in their own transactions, processes of an earlier
release, other users, other servers of a cluster. Whoever finds what it was not woken for looks as often for a while as
if it heard nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from rota.ports.places import ANYWHERE
from rota.stores.mysql.driver import Connection
from rota.stores.mysql.hearing import IN_VAIN, LOOK_SECONDS, LOOKS, Ear
from rota.stores.mysql.pool import Pool
from rota.stores.mysql.statements import statement

#: How often to look when nobody wakes us: soon after something came, then less and less often.
SHORTEST_GLANCE_SECONDS: Final = 0.004
LONGEST_GLANCE_SECONDS: Final = 0.2
#: How long to wait for the next look, as a share of how long nothing has come.
GLANCE_SHARE: Final = 1 / 6
#: The same when we are woken; at last so seldom that the ear, which looks meanwhile, has always spoken before.
SHORTEST_CALM_SECONDS: Final = 0.05
LONGEST_CALM_SECONDS: Final = LOOK_SECONDS * LOOKS + 10.0
#: How much later than the bell we may be woken.
LATE_SECONDS: Final = 0.5
#: How long to look often when something came that we were not woken for.
MISTRUST_SECONDS: Final = 600.0


class Lookout:
    """Tells whoever watches that others have made work; `ours` is what the names of our own writers are like."""

    def __init__(self, readers: Pool, ours: str) -> None:
        self._readers = readers
        self._ours = ours
        self.ear = Ear(readers, ours, self._hear)
        self._bells = ""
        #: How often others were found to have rung.
        self.changes = 0
        self._change = asyncio.Event()
        #: Up to which change those who watch were told, and when; and when we last looked.
        self._told = 0
        self._told_at = float("-inf")
        self._looked_at = float("-inf")
        #: When we found by looking what nobody has woken us for so far, and until when we look often because of such.
        self._found_at: float | None = None
        self._mistrusts_until = float("-inf")
        self._is_open = True

    async def open(self) -> None:
        """Take what has been rung so far as known."""
        self._bells = await self.glance()

    async def close(self) -> None:
        """Stop."""
        self._is_open = False
        self._change.set()
        await self.ear.close()

    async def watch(self, at_most: timedelta) -> Collection[str]:
        """Wait until another process may have made work, at most for a while; it cannot be told where."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + at_most.total_seconds()
        self.ear.begin()
        # Whoever else watches may be the one to notice; the count tells everyone who waits.
        told = self._told
        # Work comes in crowds. Without a breath we would ask as fast as the server answers, and be in everyone's way.
        await asyncio.sleep(min(self._told_at + SHORTEST_GLANCE_SECONDS - loop.time(), at_most.total_seconds()))
        while self._is_open and self.changes == told and loop.time() < give_up_at:
            rest = min(self._looked_at + self._pause(loop.time()), give_up_at) - loop.time()
            if rest > 0:
                await self._rest(rest, told)
            else:
                await self._look()
        if self.changes != told:
            self._told = self.changes
            self._told_at = loop.time()
            return ANYWHERE
        await asyncio.sleep(max(give_up_at - loop.time(), 0))
        return ()

    async def glance(self) -> str:
        """Say how the bells of others stand."""
        seen: str = await self._readers.run(_bells, self._ours)
        return seen

    async def _look(self) -> None:
        self._looked_at = asyncio.get_running_loop().time()
        self._find(await self.glance())

    def _hear(self, seen: str, ending: int | None) -> None:
        # The ear has looked for us.
        self._looked_at = asyncio.get_running_loop().time()
        if ending == IN_VAIN:
            self._find(seen)
            return
        # Who finds something new without a wait has been woken a moment before.
        self._found_at = None
        self._note(seen)

    def _find(self, seen: str) -> None:
        """Note how the bells stand, and when we find something new for which nobody has woken us."""
        if self._note(seen) and self.ear.is_hearing and self._found_at is None:
            self._found_at = self._looked_at

    def _note(self, seen: str) -> bool:
        if seen == self._bells:
            return False
        self._bells = seen
        self.changes += 1
        self._change.set()
        return True

    async def _rest(self, seconds: float, told: int) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._is_open and self.changes == told:
                    self._change.clear()
                    await self._change.wait()

    def _pause(self, now: float) -> float:
        """Say how long after a look the next one is due."""
        if self._found_at is not None and now > self._found_at + LATE_SECONDS:
            self._found_at = None
            self._mistrusts_until = now + MISTRUST_SECONDS
        quiet = now - self._told_at
        if self.ear.is_hearing and now > self._mistrusts_until:
            return min(max(quiet, SHORTEST_CALM_SECONDS), LONGEST_CALM_SECONDS)
        return min(max(quiet * GLANCE_SHARE, SHORTEST_GLANCE_SECONDS), LONGEST_GLANCE_SECONDS)


async def _bells(connection: Connection, ours: str) -> Any:  # noqa: ANN401 - as the driver gives it
    ((seen,),) = await connection.rows(statement("bells"), {"ours": ours})
    return seen
