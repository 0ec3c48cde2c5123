"""The verbs of limits and circuit breakers for the reference store, which has none."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from rota.core.breaker import CallCount, CircuitBreaker
from rota.core.ids import JobId
from rota.core.lease import Claim
from rota.core.ledger import LedgerEntry
from rota.core.limit import Limit, LimitUsage
from rota.ports.rates import RateCounter


class NoLimits:
    """Keeps no limits."""

    def limit_pause(self, claim: Claim) -> timedelta | None:
        del claim
        return None

    def count_rates_with(self, counter: RateCounter) -> None:
        raise NotImplementedError

    def frees_permit(self, ids: Collection[JobId]) -> bool:
        del ids
        return False

    async def put_limits(
        self, limits_: Sequence[Limit], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[str]:
        raise NotImplementedError

    async def close_limit(self, limit: Limit, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> None:
        raise NotImplementedError

    async def drop_limit(self, name: str, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        raise NotImplementedError

    async def limits(
        self, names: Sequence[str] | None = None, *, after: str = "", limit: int = 1000
    ) -> Sequence[Limit]:
        del names, after, limit
        return ()

    async def breakers(
        self, names: Sequence[str] | None = None, *, after: str = "", limit: int = 1000
    ) -> Sequence[CircuitBreaker]:
        del names, after, limit
        return ()

    async def put_breaker(
        self, breaker: CircuitBreaker, *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> bool:
        raise NotImplementedError

    async def count_calls(
        self, source: str, counts: Sequence[CallCount], *, now: datetime | None = None
    ) -> Sequence[CallCount]:
        raise NotImplementedError

    async def calls(self, counts: Sequence[CallCount], *, now: datetime | None = None) -> Sequence[CallCount]:
        raise NotImplementedError

    async def limit_usage(self, limit: Limit, *, now: datetime | None = None) -> LimitUsage:
        del now
        return LimitUsage(limit, 0, (), 0)
