"""Claims whose rates are counted outside the store; see `rota.ports.rates`.

Only fast rates are: of a slow one, each start raises the ceiling, so the store is written all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from rota.core.limit import Candidate, Limit, limits_passed
from rota.ports.rates import Arrivals, CountedRate, RateCounter
from rota.stores.limited_lanes import LimitedClaim

#: The longest interval between two starts of a rate that is counted outside the store: 100 a second.
LONGEST_INTERVAL_MICROS: Final = 10_000


async def look_at_rates(claim: LimitedClaim, names: Iterable[str]) -> None:
    """Take the arrival times of fast rates from the counter, if there is one; else from the store's ceilings. To be
    called before the claim reads what these limits allow.
    """
    counter = claim.memory.rate_counter
    if counter is None:
        return
    counted = [
        CountedRate(name, limit.rates, claim.arrivals.get(name, (0, 0)))
        for name in names
        if (limit := claim.limits.get(name)) is not None and _is_fast(limit) and name not in claim.counted
    ]
    arrivals = await counter.look(counted, claim.now) if counted else None
    if arrivals is None:
        return
    for one, times in zip(counted, arrivals, strict=True):
        claim.counted[one.name] = one
        claim.arrivals[one.name] = times


async def arrivals_of(counter: RateCounter | None, limit: Limit, ceilings: Arrivals, now: int) -> Arrivals:
    """Return the arrival times of one limit: the counter's if it counts this limit, else the store's."""
    if counter is None or not _is_fast(limit):
        return ceilings
    arrivals = await counter.look([CountedRate(limit.name, limit.rates, ceilings)], now)
    return ceilings if arrivals is None else arrivals[0]


async def take_from_rates(claim: LimitedClaim, chosen: Iterable[Candidate]) -> list[tuple[str, int, int]] | None:
    """Take the chosen jobs from the rates that are counted outside, and return the ceilings that change.

    None if they may not start: another claim was faster, or the counter has gone away.
    """
    counter = claim.memory.rate_counter
    if counter is None or not claim.counted:
        return []
    starts = Counter(
        name
        for one in chosen
        for name in limits_passed(one.queue, one.type, one.key, claim.limits)
        if name in claim.counted
    )
    counted = [replace(claim.counted[name], starts=count) for name, count in sorted(starts.items())]
    if not counted:
        return []
    ceilings = await counter.take(counted, claim.now)
    if ceilings is None:
        claim.look_again_soon()
        return None
    return [(one.name, *ceiling) for one, ceiling in zip(counted, ceilings, strict=True) if ceiling != one.ceilings]


def _is_fast(limit: Limit) -> bool:
    return bool(limit.rates) and all(rate.interval <= LONGEST_INTERVAL_MICROS for rate in limit.rates)
