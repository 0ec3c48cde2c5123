"""Look-ahead: when a waiting worker should claim a job ahead of its time.

A worker that waits for work and can start jobs on time claims a scheduled job `AHEAD` of its time. The store's
timetable says when the next job is due. It is read after a wake-up for `TIMETABLE`, after a claim ahead, and now and
then, unless a scheduler in the same process has just read it; and only while a worker waits, so a busy worker never
reads it.

All of this is a hint. A job that is not foreseen (submitted just before its time, or the store was away) becomes due at
its time and is claimed then. The timetable's next job may be for other workers: then the claim ahead finds nothing, and
the pause before the next one doubles, so that other workers' jobs cost about one claim a second. An overdue job that
no scheduler promotes hides the next one: then the timetable is read again, after a longer pause each time.
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
from rota.ports.broker import Subscription
from rota.ports.store import Timetable
from rota.ports.wakeup import TIMETABLE

AHEAD_SECONDS: Final = AHEAD.total_seconds()
#: The delay before the timetable is read after a wake-up: several changes then cost one read.
READ_DELAY_SECONDS: Final = 0.02
#: The shortest pause between two reads of the timetable, however often it changes.
PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 1.0
#: The pause after a claim ahead: the next job is not known then, and the timetable must be read soon.
SHORT_PAUSE_SECONDS: Final = AHEAD_SECONDS / 4
#: The shortest pause between two claims ahead; doubled each time one finds nothing.
GAP_SECONDS: Final = AHEAD_SECONDS / 2
LONGEST_GAP_SECONDS: Final = 1.0
#: How often the timetable is read without a wake-up.
LONGEST_READ_PAUSE_SECONDS: Final = 10.0


class Lookahead:
    """When the next scheduled job should be claimed, as far as is known. Times are of the loop's clock."""

    def __init__(self, timetable: Callable[[], Awaitable[Timetable]]) -> None:
        self._timetable = timetable
        #: Whether a scheduled job is near and no claim ahead was sent since.
        self.is_near = False
        #: Whether a wake-up has come since the last read of the timetable began.
        self._is_changed = False
        self._claim_at = inf
        self._claimed_at = -inf
        self._read_at = -inf
        self._may_read_at = -inf
        self._pause = PAUSE_SECONDS
        self._gap = GAP_SECONDS

    async def wait(self, subscription: Subscription, seconds: float) -> None:
        """Wait for a wake-up or until a scheduled job is near, at most for some seconds."""
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
            # Never zero: in a simulation, time passes only while all tasks sleep.
            left = max(min(give_up_at, self._claim_at, self._read_at) - now, 1e-6)
            topics = await subscription.wait(timedelta(seconds=left))
            if TIMETABLE in topics:
                self._is_changed = True
                self._read_at = min(self._read_at, max(loop.time() + READ_DELAY_SECONDS, self._may_read_at))
            if any(topic is not TIMETABLE for topic in topics):
                return

    def note_claim(self, jobs: Sequence[Job], limit: int) -> None:
        """Note the result of a claim ahead: if it gave all there is, nothing is near."""
        self.is_near = bool(jobs) and (len(jobs) >= limit or not jobs[-1].is_ahead)
        self._gap = GAP_SECONDS if jobs else min(self._gap * 2, LONGEST_GAP_SECONDS)
        if not jobs:
            self._read_at = max(self._read_at, self._claimed_at + self._gap - AHEAD_SECONDS)

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        # Set before the read, so that other waiting claims do not read at the same time.
        self._may_read_at = loop.time() + max(PAUSE_SECONDS, self._gap - AHEAD_SECONDS)
        self._read_at = loop.time() + LONGEST_READ_PAUSE_SECONDS
        self._is_changed = False
        try:
            timetable = await self._timetable()
        except RotaError:
            return
        self._learn(timetable, loop.time())

    def observe(self, timetable: Timetable) -> None:
        """Take over a timetable that a scheduler of this process has read, which saves the next regular read of it."""
        now = asyncio.get_running_loop().time()
        is_overdue = timetable.job is not None and timetable.job <= timetable.now
        if not self._is_changed and not is_overdue and self._claimed_at + LONGEST_GAP_SECONDS < now < self._read_at:
            self._read_at = now + LONGEST_READ_PAUSE_SECONDS
            known = self._claim_at
            self._learn(timetable, now)
            # It may be older than what is known here. A time that is too early costs one claim.
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
