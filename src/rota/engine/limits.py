"""Limit verbs: set, delete, close and open limits, and what runs and waits under each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from rota.core.errors import InvalidRequest
from rota.core.ledger import LedgerEntry
from rota.core.limit import (
    ALLOWED_FIELDS,
    UNTIL_OPENED,
    Limit,
    LimitUsage,
    check_limit,
    check_limit_name,
    limit_of_key,
    task_limit,
    task_of_key,
)
from rota.engine.deps import EngineDeps
from rota.ports.client import Actor
from rota.ports.wakeup import EVERY_QUEUE
from rota.telemetry.events import LimitChanged


class JobLimits:
    """Read, set, delete, close, open."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps

    async def page(self, after: str, limit: int) -> Sequence[Limit]:
        """Return stored limits by name, those after a name."""
        # Those of open breakers come first, and are shown as breakers.
        return await self._deps.store.limits(after=max(after, _AFTER_BREAKERS), limit=limit)

    async def get(self, name: str) -> LimitUsage:
        """Return a limit with what runs and waits under it; a key without a limit of its own has one all the same."""
        check_limit_name(name)
        return await self._deps.store.limit_usage(await self.effective(name))

    async def effective(self, name: str, type_: str | None = None) -> Limit:
        """Return what limits a queue, task or key, also if nothing is stored for it."""
        kind, _, rest = name.partition(":")
        task = task_of_key(rest, rest.partition(":")[0] if type_ is None else type_)
        names = [name, task_limit(task)] if kind == "key" else [name]
        stored = {one.name: one for one in await self._deps.store.limits(names)}
        return limit_of_key(rest, task, stored) if kind == "key" else stored.get(name, Limit(name))

    async def put(self, limit: Limit, by: Actor) -> LimitUsage:
        """Set what a limit allows. It holds from the next claim on; running jobs are not affected."""
        check_limit(limit)
        if limit.is_empty:
            message = "max_running: nothing is set; set max_running, rate_limit, weight, order or on_full, or delete it"
            raise InvalidRequest(message, field="max_running")
        limit = replace(limit, set_by=by.name)
        await self._deps.store.put_limits([limit], entry=_entry("set", limit.name, _allowed(limit), by))
        self._deps.telemetry.emit(LimitChanged(limit.name, "set"))
        await self._deps.broker.announce((EVERY_QUEUE,))
        return await self.get(limit.name)

    async def change(self, name: str, changes: Mapping[str, Any], by: Actor) -> LimitUsage:
        """Change some fields of a limit, and leave the others as they are; None stands for no limit."""
        check_limit_name(name)
        stored = await self._deps.store.limits([name])
        limit = replace(stored[0] if stored else Limit(name), app=None, **changes)
        if not limit.is_empty:
            return await self.put(limit, by)
        if limit.closed_until is None:
            await self.delete(name, by)
        else:
            # It stays closed.
            entry = _entry("set", name, "", by)
            await self._deps.store.put_limits([replace(limit, set_by=by.name)], entry=entry)
        return await self.get(name)

    async def put_of_app(self, limits: Sequence[Limit], app: str) -> None:
        """Set the limits that an app's code defines. A limit that an operator or another app has set stays."""
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
        is_deleted = await self._deps.store.drop_limit(name, entry=_entry("delete", name, "", by))
        self._deps.telemetry.emit(LimitChanged(name, "delete"))
        await self._deps.broker.announce((EVERY_QUEUE,))
        return is_deleted

    async def close(self, name: str, until: datetime | None, reason: str, by: Actor) -> LimitUsage:
        """Let no job start under a limit until a time, or until it is opened. Running jobs continue."""
        check_limit_name(name)
        if until is not None and until <= self._deps.clock():
            remedy = "give a later time, or leave it out to close the limit until it is opened"
            raise InvalidRequest(f"until: {until.isoformat()} is past; {remedy}", field="until")
        limit = Limit(name, closed_until=until or UNTIL_OPENED, reason=reason, set_by=by.name)
        await self._deps.store.close_limit(limit, entry=_entry("close", name, reason, by))
        self._deps.telemetry.emit(LimitChanged(name, "close"))
        return await self.get(name)

    async def open(self, name: str, by: Actor) -> LimitUsage:
        """Open a limit that was closed."""
        check_limit_name(name)
        await self._deps.store.close_limit(Limit(name, set_by=by.name), entry=_entry("open", name, "", by))
        self._deps.telemetry.emit(LimitChanged(name, "open"))
        await self._deps.broker.announce((EVERY_QUEUE,))
        return await self.get(name)


#: Behind the name of every breaker's limit: the character after the colon.
_AFTER_BREAKERS: Final = "breaker;"


def _entry(action: str, name: str, detail: str, by: Actor) -> LedgerEntry:
    return LedgerEntry(by.name, f"limits.{action}", name, by.origin, detail, surface=by.surface)


def _allowed(limit: Limit) -> str:
    return " ".join(f"{one}={getattr(limit, one)}" for one in ALLOWED_FIELDS if getattr(limit, one) is not None)
