"""A guest: the caller's own connection to the store's database, in a transaction that is the caller's.

What is stored through it exists exactly if the caller commits. We never commit, never roll back more than we did
ourselves, and never keep the connection. Whatever the caller's driver raises is the caller's, and reaches it as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from rota.core.submission import NewJob
from rota.ports.store import Inserted

#: Makes the jobs, told what time it is by the store's clock. Called anew, it takes other ids.
Make = Callable[[datetime], Sequence[NewJob]]


class Guest(Protocol):
    """Stores jobs within the caller's transaction."""

    async def insert(self, make: Make, *, bound: int | None = None) -> Sequence[Inserted]:
        """Store new jobs as `JobStore.insert` does, but all of them or none, and answer each, in order.

        If one of them is refused, or anything is raised, the transaction is left as it was. Others hear of the jobs
        soon after the commit, and not before. On a driver that blocks, this never suspends.
        """
        ...
