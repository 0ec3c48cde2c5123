"""The broker: how a worker learns that there is work.

A broker carries hints and ids, never the truth. All of it may be lost at any time: work is then found later, not never.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Final, Protocol

from rota.core.identity import JobId

#: Announced, in place of a queue, when something was written that has its time: whoever keeps the time may listen.
TIMETABLE: Final = "\0timetable"


class Attendance(Protocol):
    """Someone who listens for work in some queues."""

    async def wait(self, limit: int, at_most: timedelta) -> Sequence[JobId] | None:
        """Wait until there may be work, at most for a while.

        Gives ids that were handed over, or None when the store is to be asked what there is. What was announced since
        the attendance began, or since the last wait ended, ends the wait at once.
        """
        ...


class Broker(Protocol):
    """Brings workers and work together."""

    def attend(self, queues: Collection[str]) -> AbstractContextManager[Attendance]:
        """Begin to listen for work in these queues. Whoever asks the store after this and then waits misses nothing."""
        ...

    async def announce(self, queues: Collection[str]) -> None:
        """Tell whoever listens to one of these queues that there is work. Cheap; never raises; may be forgotten."""
        ...

    async def acknowledge(self, ids: Sequence[JobId]) -> None:
        """Let go of ids that were settled. Unknown ids are ignored."""
        ...

    async def close(self) -> None:
        """Let go of the connection."""
        ...
