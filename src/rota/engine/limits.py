"""Limit verbs: set, delete, close and open limits, and what runs and waits under each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from rota.core.errors import InvalidRequest
from rota.core.ledger import LedgerEntry
from rota.core.limit import (
    UNTIL_OPENED,
    Limit,
    LimitUsage,
    check_limit,
    check_limit_name,
    limit_of_key,
    limits_refused,
    task_limit,
)
from rota.engine.deps import EngineDeps
from rota.ports.client import Actor
from rota.ports.wakeup import EVERY_QUEUE


class JobLimits:
    """Read, set, delete, close, open."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps

    async def page(self, after: str, limit: int) -> Sequence[Limit]:
        """Return stored limits by name, those after a name."""
        return await self._deps.store.limits(after=after, limit=limit)

    async def get(self, name: str) -> LimitUsage:
        """Return a limit with what runs and waits under it; a key without a limit of its own has one all the same."""
        check_limit_name(name)
        self._require_support()
        return await self._deps.store.limit_usage(await self.effective(name))

    async def effective(self, name: str, type_: str | None = None) -> Limit:
        """Return what limits a queue, task or key, also if nothing is stored for it."""
        kind, _, rest = name.partition(":")
        task = rest.partition(":")[0] if type_ is None else type_
        names = [name, task_limit(task)] if kind == "key" else [name]
        stored = {one.name: one for one in await self._deps.store.limits(names)}
        return limit_of_key(rest, task, stored) if kind == "key" else stored.get(name, Limit(name))

    async def put(self, limit: Limit, by: Actor) -> LimitUsage:
        """Set what a limit allows. It holds from the next claim on; running jobs are not affected."""
        check_limit(limit)
        if limit.is_empty:
            message = "max_running: nothing is set; set max_running or rate_limit, or delete the limit"
            raise InvalidRequest(message, field="max_running")
        limit = replace(limit, set_by=by.name)
        await self._deps.store.put_limits([limit], entry=_entry("set", limit.name, _allowed(limit), by))
        await self._deps.broker.announce((EVERY_QUEUE,))
        return await self.get(limit.name)

    async def put_of_app(self, limits: Sequence[Limit], app: str) -> None:
        """Set the limits that an app's code defines. A limit that an operator or another app has set stays."""
        if limits:
            self._require_support()
        stored = {one.name: one for one in await self._deps.store.limits([one.name for one in limits])}
        for limit in limits:
            check_limit(limit)
            known = stored.get(limit.name)
            is_ours = known is None or known.is_empty or known.app == app
            if is_ours and (known is None or _allowed(known) != _allowed(limit)):
                by = Actor(f"app {app}")
                entry = _entry("set", limit.name, _allowed(limit), by)
                await self._deps.store.put_limits([replace(limit, app=app, set_by=by.name)], entry=entry)

    async def delete(self, name: str, by: Actor) -> bool:
        """Delete a limit; return whether there was one."""
        check_limit_name(name)
        self._require_support()
        is_deleted = await self._deps.store.drop_limit(name, entry=_entry("delete", name, "", by))
        await self._deps.broker.announce((EVERY_QUEUE,))
        return is_deleted

    async def close(self, name: str, until: datetime | None, reason: str, by: Actor) -> LimitUsage:
        """Let no job start under a limit until a time, or until it is opened. Running jobs continue."""
        check_limit_name(name)
        limit = Limit(name, closed_until=until or UNTIL_OPENED, reason=reason, set_by=by.name)
        await self._deps.store.close_limit(limit, entry=_entry("close", name, reason, by))
        return await self.get(name)

    async def open(self, name: str, by: Actor) -> LimitUsage:
        """Open a limit that was closed."""
        check_limit_name(name)
        await self._deps.store.close_limit(Limit(name, set_by=by.name), entry=_entry("open", name, "", by))
        await self._deps.broker.announce((EVERY_QUEUE,))
        return await self.get(name)

    def _require_support(self) -> None:
        if not self._deps.store.supports_limits:
            raise limits_refused()


def _entry(action: str, name: str, detail: str, by: Actor) -> LedgerEntry:
    return LedgerEntry(by.name, f"limits.{action}", name, by.origin, detail)


def _allowed(limit: Limit) -> str:
    fields = ("max_running", "rate_limit", "per_key_max_running", "per_key_rate_limit")
    return " ".join(f"{one}={getattr(limit, one)}" for one in fields if getattr(limit, one) is not None)
