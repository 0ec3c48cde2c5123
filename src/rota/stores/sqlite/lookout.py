"""The lookout: tells when someone may have written to the file, and what for.

SQLite tells nobody, but its change counter can be read in microseconds, and on Linux the kernel tells (inotify) when
a file is written to or touched. So nobody polls there: an idle process sleeps. Two bells:

- Whoever has committed new work, or a time for something, knocks; see `Knocker`. That is heard at once, and what was
  committed is there to be read. Who hears it again and again takes a breath in between, a longer one the longer it goes
  on. Of work it is told only where somebody has ever asked for some.
- Every commit writes to the log: also one by a caller's own connection, by an older release, by someone who died before
  the knock, and those that end a job. This bell rings when a commit is written, and the counter moves when it is on the
  disk; so after it we look again and again for a while (`PAUSES`). What it is about nobody knows. So everyone is woken,
  but not more often than every `GLANCE_SECONDS`, nor that soon after a knock, and in between this bell is off: a busy
  log must not keep us busy, and most commits have been knocked for. While knock follows upon knock, everyone is woken
  every `LONGEST_UNSEEN_SECONDS`: among all that was knocked for, there may be what was not.

Where there is no bell, the counter is read every `GLANCE_SECONDS`. Our own commits ring and count too: whoever is woken
for nothing asks once more than needed. What happens between two waits is seen at the next: the kernel keeps what rang,
and the counter forgets nothing. The log is never opened for this: closing it would drop the locks that this process
holds on it (that is how POSIX locks work).
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from math import inf
from typing import Final

from rota.ports.places import ANYWHERE, EVERY_QUEUE, TIMETABLE
from rota.stores.sqlite.bell import Bell
from rota.stores.sqlite.driver import Broken, Busy, Connection
from rota.stores.sqlite.forking import mind

#: Without a bell how often to look, and with one how often to report at most that someone has written.
GLANCE_SECONDS: Final = 0.02
#: How long knocks may keep us from looking whether there is more than they tell.
LONGEST_UNSEEN_SECONDS: Final = 0.2
#: How long to wait before each look after the log was written to; a disk that takes longer is seen at the next wait.
PAUSES: Final = (0.002, 0.002, 0.004, 0.008, *(GLANCE_SECONDS,) * 10)
#: How long after a report the next one comes at the earliest, and by how much longer each time while it goes on. At
#: first for as long as a claim takes: whoever looks out again before has the loop when the claim's answer comes to it.
SHORTEST_BREATH_SECONDS: Final = 0.003
LONGEST_BREATH_SECONDS: Final = 0.01
BREATH_GROWTH: Final = 1.5
#: How soon after a breath something must come for the next breath to be longer.
BUSY_SECONDS: Final = 0.003
NOWHERE: Final[frozenset[str]] = frozenset()


class Lookout:
    """Watches one database file."""

    def __init__(self, connection: Connection, path: str) -> None:
        self.connection = connection
        self.turn = threading.Lock()
        mind(self)
        self._bell = Bell(path)
        self._seen = self._counter()
        self._stamp = self._bell.stamp()
        self._changes = 0
        self._told_at = -GLANCE_SECONDS
        #: Since when one knock after the other has kept us from looking at the counter; infinity if none has.
        self._kept_since = inf
        self._breath = SHORTEST_BREATH_SECONDS

    async def wait(self, seconds: float) -> frozenset[str]:
        """Wait until someone may have written, at most for a while; say where there may be something new."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + seconds
        # Whoever else watches may be the one to notice; the counts tell everyone who waits.
        before = self._counts()
        await asyncio.sleep(min(self._told_at + self._breath - loop.time(), seconds))
        pauses = iter(PAUSES)
        with self._bell.attended() as rung:
            while not (news := self._look(before, loop.time())):
                left = give_up_at - loop.time()
                if left <= 0:
                    return NOWHERE
                resting = self._told_at + GLANCE_SECONDS - loop.time()
                if rung is None:
                    await asyncio.sleep(min(left, GLANCE_SECONDS))
                elif resting > 0:
                    await _rings(rung, min(left, resting))
                elif not self._bell.is_written:
                    await _rings(rung, left)
                    pauses = iter(PAUSES)
                elif (pause := next(pauses, None)) is None:
                    self._bell.is_written = False
                else:
                    await _rings(rung, min(left, pause))
        self._note(loop.time())
        return news

    def hear_work(self) -> None:
        """Report new work at once, from now on. To whoever never asks for any, it is a commit like others."""
        self._bell.hear_work()

    def close(self) -> None:
        """Listen no more; the connection is left to its owner."""
        self._bell.close()

    def forsake(self) -> None:
        """Close the connection, in a forked process. The bell hangs on the parent's loop and is left alone."""
        self.connection.close()

    def _counts(self) -> tuple[int, int, int]:
        return self._bell.work, self._bell.times, self._changes

    def _look(self, before: tuple[int, int, int], now: float) -> frozenset[str]:
        """Say where something is new since `before`."""
        work, times, changes = before
        knocked = (self._bell.work != work, self._bell.times != times)
        if not any(knocked):
            # Only now: a commit that was knocked for moves the counter too, and would wake everyone.
            may_glance = now >= self._told_at + GLANCE_SECONDS
            self._bell.hear_writes(wanted=may_glance and not self._bell.is_written)
            if may_glance:
                self._glance()
        elif now >= self._kept_since + LONGEST_UNSEEN_SECONDS:
            self._glance()
        else:
            self._kept_since = min(self._kept_since, now)
        if self._changes != changes:
            return ANYWHERE
        return frozenset(place for place, is_new in zip((EVERY_QUEUE, TIMETABLE), knocked, strict=True) if is_new)

    def _glance(self) -> None:
        self._kept_since = inf
        # Before the counter: what is written after it is seen the next time.
        stamp, self._stamp = self._stamp, self._bell.stamp()
        seen = self._counter()
        if seen is not None and seen != self._seen:
            self._seen = seen
            self._changes += 1
            self._bell.is_written = False
        elif stamp != self._stamp:
            # Written while the bell was off, and not yet on the disk: nothing will ring for it.
            self._bell.is_written = True

    def _note(self, now: float) -> None:
        """Note that something is reported; the more often that is, the longer until the next time."""
        is_busy = now - self._told_at < 2 * self._breath + BUSY_SECONDS
        self._breath = min(self._breath * BREATH_GROWTH, LONGEST_BREATH_SECONDS) if is_busy else SHORTEST_BREATH_SECONDS
        self._told_at = now

    def _counter(self) -> int | None:
        """Read the change counter; None while another process repairs the log, or if it cannot be read."""
        try:
            with self.turn:
                ((version,),) = self.connection.rows("PRAGMA data_version")
        except (Busy, Broken):
            return None
        return int(version)


async def _rings(rung: asyncio.Event, seconds: float) -> None:
    # Not wait_for: on Python 3.11 it swallows a cancellation that arrives together with the bell.
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await rung.wait()
    rung.clear()
