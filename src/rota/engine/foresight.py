"""Foresight: when it is worth to claim ahead of time.

Whoever waits for work and can keep time also wants to know when the next job comes up: `AHEAD` before that, it claims.
When that is, the store's timetable says. It is read when somebody has written into it, after a claim ahead, and now and
then, unless a scheduler in the same process has just read it; and only while somebody waits who has nothing else to do,
so that a busy worker never asks.

All of it is a hint. What is not foreseen (it was submitted too shortly before its time, or the store was away) becomes
due at its time and is claimed then. What the timetable shows may be for others: then a claim ahead finds nothing, and
the next look comes later each time, so that a stream of jobs elsewhere costs us about one a second. What is overdue
(nobody promotes it, or not yet) hides what comes behind it: then we ask again, after a longer while each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from math import inf
from typing import Final

from rota.core.errors import RotaError
from rota.core.job import Job
from rota.core.lease import AHEAD
from rota.ports.broker import Attendance
from rota.ports.places import TIMETABLE
from rota.ports.store import Timetable

AHEAD_SECONDS: Final = AHEAD.total_seconds()
#: A breath before the timetable is read: what is written meanwhile shares the look.
BREATH_SECONDS: Final = 0.02
#: How long after a look at the timetable the next one comes at the earliest, however often somebody writes into it.
PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 1.0
#: After a claim ahead what comes next is not known: the sooner we know, the longer ahead we are.
SHORT_PAUSE_SECONDS: Final = AHEAD_SECONDS / 4
#: How long after a claim ahead the next one comes at the earliest; twice as long each time that one finds nothing.
GAP_SECONDS: Final = AHEAD_SECONDS / 2
LONGEST_GAP_SECONDS: Final = 1.0
#: How often to look although nobody has told us to.
LONGEST_UNSEEN_SECONDS: Final = 10.0


class Foresight:
    """When something comes up, as far as is known. The times are of the loop's clock."""

    def __init__(self, timetable: Callable[[], Awaitable[Timetable]]) -> None:
        self._timetable = timetable
        #: Whether something comes up for which nobody has looked yet.
        self.is_near = False
        #: Whether somebody has written into the timetable since we last began to read it.
        self._is_told = False
        self._claim_at = inf
        self._claimed_at = -inf
        self._read_at = -inf
        self._may_read_at = -inf
        self._pause = PAUSE_SECONDS
        self._gap = GAP_SECONDS

    async def wait(self, attendance: Attendance, seconds: float) -> None:
        """Wait until there may be work or something comes up, at most for a while."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + seconds
        while (now := loop.time()) < give_up_at:
            if now >= self._claim_at:
                self.is_near = True
                self._claim_at, self._claimed_at, self._read_at = inf, now, now + SHORT_PAUSE_SECONDS
                return
            if now >= self._read_at:
                await self._read()
                continue
            # Never no time at all: in a simulation it passes only while everyone sleeps.
            left = max(min(give_up_at, self._claim_at, self._read_at) - now, 1e-6)
            told = await attendance.wait(timedelta(seconds=left))
            if TIMETABLE in told:
                self._is_told = True
                self._read_at = min(self._read_at, max(loop.time() + BREATH_SECONDS, self._may_read_at))
            if any(place != TIMETABLE for place in told):
                return

    def seen(self, jobs: Sequence[Job], limit: int) -> None:
        """Learn what a claim ahead gave: if that was all there is, nothing is near."""
        self.is_near = bool(jobs) and (len(jobs) >= limit or not jobs[-1].is_ahead)
        self._gap = GAP_SECONDS if jobs else min(self._gap * 2, LONGEST_GAP_SECONDS)
        if not jobs:
            self._read_at = max(self._read_at, self._claimed_at + self._gap - AHEAD_SECONDS)

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        # Before we ask: whoever else waits need not ask at the same time.
        self._may_read_at = loop.time() + max(PAUSE_SECONDS, self._gap - AHEAD_SECONDS)
        self._read_at = loop.time() + LONGEST_UNSEEN_SECONDS
        self._is_told = False
        try:
            timetable = await self._timetable()
        except RotaError:
            return
        self._learn(timetable, loop.time())

    def hear(self, timetable: Timetable) -> None:
        """Learn what somebody else in this process has read: it spares us a look, but none that we have a cause for."""
        now = asyncio.get_running_loop().time()
        is_overdue = timetable.job is not None and timetable.job <= timetable.now
        if not self._is_told and not is_overdue and self._claimed_at + LONGEST_GAP_SECONDS < now < self._read_at:
            self._read_at = now + LONGEST_UNSEEN_SECONDS
            known = self._claim_at
            self._learn(timetable, now)
            # It may have been read before what we know of was written. A time that is too early costs a look.
            self._claim_at = min(self._claim_at, known)

    def _learn(self, timetable: Timetable, now: float) -> None:
        self._claim_at = inf
        if timetable.job is None:
            return
        if timetable.job <= timetable.now:
            self._read_at = now + self._pause
            self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)
            return
        self._pause = PAUSE_SECONDS
        left = (timetable.job - timetable.now).total_seconds()
        self._claim_at = max(now + left - AHEAD_SECONDS, self._claimed_at + self._gap)
