"""The port of a counter of fast rates outside the store, so that a claim need not write each of them.

The store keeps a ceiling for each rate: an arrival time that the counter may not pass. A claim that needs more raises
it for about a second, in its own transaction. Whatever becomes of the counter, the store's ceiling covers each start
that the counter has allowed: without the counter, a claim counts from the ceiling on, and the rate is not exceeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from rota.core.limit import Rate
from rota.core.value import value

#: The theoretical arrival times of the first and the second rate of a limit; 0 for one that it does not have.
Arrivals: TypeAlias = tuple[int, int]


@value
class CountedRate:
    """The rates of a limit, the arrival times that the store has for them, and how many jobs a claim starts."""

    name: str
    rates: tuple[Rate, ...]
    ceilings: Arrivals
    starts: int = 0


class RateCounter(Protocol):
    """Counts starts by the generic cell rate algorithm. `now` is the store's time, in microseconds."""

    async def look(self, counted: Sequence[CountedRate], now: int) -> Sequence[Arrivals] | None:
        """Return the arrival times of some limits; None if the store must decide. Never raises.

        Those of a limit whose ceilings the counter does not know, or of which it may have lost starts, are the
        ceilings.
        """
        ...

    async def take(self, counted: Sequence[CountedRate], now: int) -> Sequence[Arrivals] | None:
        """Take the starts of all limits, and return the ceilings that the store must have when they begin.

        None if no job may start: a limit does not allow it, or the answer is not known. Never raises.
        """
        ...
