"""The archive and its parts: who stores a job looks into the one in which its id would be, and into no other.

The archive is cut by days, and a plan that is made without knowing any ids takes a lock of every day at every job: with
a month of them, up to a third of what the server does to store one. Only what stands in the text of a statement makes
the planner leave parts out. So such statements are made for the ids of a day, as is said behind their names (see
`statements`).

The look itself cannot be spared, not even for an id that was made just now: another process may have made the same one
by chance, with a clock that is a little ahead, and its job may have ended. And nobody has to be believed: a statement
stores no id beyond those it was made for, and leaves it for a closer look. If the archive has no such day, or gets or
loses one, the server plans anew, with the part that ids of that day are in then.
"""

from __future__ import annotations

from rota.core.identity import LARGEST, JobId
from rota.ports.clock import Clock
from rota.stores.postgres.retiring import day_of
from rota.stores.postgres.statements import ANYWHERE, among


class Archive:
    """Knows its part of today, of which nearly all new jobs are. For ids of other days nothing is made."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._first, self._last = 1, 0
        self._ending = ANYWHERE

    def holding(self, first: JobId, last: JobId) -> str:
        """Give the end of a statement's name that is made for all ids from one to another."""
        if first < self._first or last > self._last:
            self._turn_over()
            if first < self._first or last > self._last:
                return ANYWHERE
        return self._ending

    def _turn_over(self) -> None:
        today = day_of(self._clock())
        self._first, self._last = today.lowest, min(today.beyond - 1, LARGEST)
        self._ending = among(self._first, self._last)
