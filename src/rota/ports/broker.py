"""The broker: how a worker learns that there is work.

A broker carries hints and ids, never the truth. All of it may be lost at any time: work is then found later, not never.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Protocol

from rota.core.identity import JobId


class Broker(Protocol):
    """Brings workers and work together."""

    async def announce(self, queues: Collection[str]) -> None:
        """Tell whoever waits for one of these queues that there is work. Cheap; never raises; may be forgotten."""
        ...

    async def receive(self, queues: Collection[str], limit: int, wait: timedelta) -> Sequence[JobId] | None:
        """Wait until there may be work in one of these queues, at most for `wait`.

        Gives the ids that were handed over, or None when the store is to be asked what there is. An announcement made
        after the call began, or since the last call returned, ends the wait.
        """
        ...

    async def acknowledge(self, ids: Sequence[JobId]) -> None:
        """Let go of ids that were settled. Unknown ids are ignored."""
        ...

    async def close(self) -> None:
        """Let go of the connection."""
        ...
