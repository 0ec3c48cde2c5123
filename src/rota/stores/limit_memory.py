"""What a process remembers about limits between claims. All of it is a hint: each claim reads the limits anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

from rota.core.ids import JobId
from rota.core.lease import Claim

#: How soon a waiting claim looks again if a limit keeps jobs from it and no time is known at which the limit opens.
#: Workers of this process are woken when a permit is free; this is for what other processes free.
LOOK_AGAIN: Final = timedelta(seconds=1)
#: No claim looks again sooner.
SHORTEST_PAUSE: Final = timedelta(milliseconds=1)
#: How many workers and leased jobs are remembered.
MOST: Final = 50_000


class LimitMemory:
    """The keys served last, whose turn it is, and which claims look again when."""

    def __init__(self) -> None:
        #: The key that was served last, by queue: the turns of the keys continue behind it.
        self.last_keys: dict[str, str] = {}
        #: Whether the next claim looks at jobs without limits first.
        self.is_ordinary_first = True
        self._pauses: dict[str, timedelta] = {}
        self._held: set[JobId] = set()

    def pause(self, wanted: Claim) -> timedelta | None:
        """Return how soon a claim that found nothing should look again because of a limit, once."""
        return self._pauses.pop(wanted.worker.boot, None) if self._pauses else None

    def note_pause(self, wanted: Claim, opens_at: int | None, now: int) -> None:
        """Note that limits kept jobs from a claim, and when they open as far as is known."""
        if len(self._pauses) >= MOST:
            self._pauses.clear()
        span = LOOK_AGAIN if opens_at is None else timedelta(microseconds=opens_at - now)
        self._pauses[wanted.worker.boot] = max(min(span, LOOK_AGAIN), SHORTEST_PAUSE)

    def note_leased(self, ids: Iterable[JobId]) -> None:
        """Note jobs that hold a permit of a limit."""
        if len(self._held) >= MOST:
            self._held.clear()
        self._held.update(ids)

    def note_settled(self, ids: Iterable[JobId]) -> bool:
        """Note jobs that have ended; return whether one of them held a permit, so that waiting workers are woken."""
        if not self._held:
            return False
        freed = self._held.intersection(ids)
        self._held -= freed
        return bool(freed)

    def note_served(self, keys: Mapping[str, str]) -> None:
        """Note the key served last in each queue."""
        if len(self.last_keys) >= MOST:
            self.last_keys.clear()
        self.last_keys.update(keys)
