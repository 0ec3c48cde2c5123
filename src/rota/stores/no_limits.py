"""The verbs of limits for a store that has none: setting a limit is refused, and no job is limited."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from rota.core.ids import JobId
from rota.core.lease import Claim
from rota.core.ledger import LedgerEntry
from rota.core.limit import Limit, LimitUsage, limits_refused


class NoLimits:
    """Refuses limits by name, and reports none."""

    @property
    def supports_limits(self) -> bool:
        return False

    def limit_pause(self, wanted: Claim) -> timedelta | None:
        del wanted
        return None

    def frees_permit(self, ids: Collection[JobId]) -> bool:
        del ids
        return False

    async def put_limits(
        self, limits_: Sequence[Limit], *, entry: LedgerEntry | None = None, now: datetime | None = None
    ) -> Sequence[str]:
        del limits_, entry, now
        raise limits_refused()

    async def close_limit(self, limit: Limit, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> None:
        del limit, entry, now
        raise limits_refused()

    async def drop_limit(self, name: str, *, entry: LedgerEntry | None = None, now: datetime | None = None) -> bool:
        del name, entry, now
        return False

    async def limits(
        self, names: Sequence[str] | None = None, *, after: str = "", limit: int = 1000
    ) -> Sequence[Limit]:
        del names, after, limit
        return ()

    async def limit_usage(self, limit: Limit, *, now: datetime | None = None) -> LimitUsage:
        del now
        return LimitUsage(limit, 0, (), 0)
