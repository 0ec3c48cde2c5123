"""The coordinator: who leads, who is alive, who holds a named lock.

Leadership saves work; it is never what prevents a double effect (the fence is). If the coordinator is away, jobs run.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from rota.core.fleet import Leadership, Member, Role


class Coordinator(Protocol):
    """Lets many processes act as one."""

    async def campaign(self, name: str, holder: str, lasting: timedelta) -> Leadership | None:
        """Take or keep the lead if it is free, and say who leads; None when nobody can tell.

        The leader trusts its lead from the moment the request was sent, not from when the reply arrived.
        """
        ...

    async def resign(self, name: str, holder: str) -> None:
        """Give the lead up at once."""
        ...

    async def enlist(self, member: Member, lasting: timedelta) -> None:
        """Record that a process is alive; the record vanishes `lasting` after the last call."""
        ...

    async def roll(self, role: Role | None = None) -> Sequence[Member]:
        """Give the processes that are alive."""
        ...

    async def close(self) -> None:
        """Let go of the connection, leads and records."""
        ...
