"""Breaker verbs: what state circuit breakers are in, and an operator's changes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from rota.core.breaker import (
    BreakerState,
    CallCount,
    CircuitBreaker,
    check_breaker_name,
    closed,
    forced_closed,
    forced_open,
    tasks_of,
)
from rota.core.errors import InvalidRequest, StoreUnavailable
from rota.core.ledger import LedgerEntry
from rota.core.limit import MOST_WAITING, Limit, breaker_limit, task_limit
from rota.engine.deps import EngineDeps
from rota.ports.client import Actor
from rota.ports.wakeup import EVERY_QUEUE
from rota.telemetry.events import BreakerChanged

#: How often a change is decided again because another process has changed the breaker.
MOST_TRIES: Final = 10
#: More breakers than any deployment has.
MOST_STORED: Final = 100_000


@dataclass(frozen=True, slots=True)
class BreakerReport:
    """A breaker with its state now, and the calls counted within its window."""

    breaker: CircuitBreaker
    state: BreakerState
    count: CallCount
    #: Due jobs that wait while it is open, counted up to one more than MOST_WAITING; None in a list.
    waiting: int | None = None


class CircuitBreakers:
    """Read, force open, force closed, reset."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps

    async def page(self, after: str, limit: int) -> Sequence[BreakerReport]:
        """Return breakers by name, those after a name."""
        return await self._reports(await self._deps.store.breakers(after=after, limit=limit))

    async def get(self, name: str) -> BreakerReport | None:
        """Return a breaker and how many jobs wait for it; None if it is not known."""
        reports = await self._reports(await self._deps.store.breakers([name]))
        if not reports:
            return None
        waiting = await self._waiting(reports[0].breaker) if reports[0].breaker.is_open else 0
        return replace(reports[0], waiting=waiting)

    async def _waiting(self, breaker: CircuitBreaker) -> int:
        waiting = 0
        for name in (*map(task_limit, breaker.types), breaker_limit(breaker.name)):
            if waiting <= MOST_WAITING:
                waiting += (await self._deps.store.limit_usage(Limit(name))).waiting
        return min(waiting, MOST_WAITING + 1)

    async def _reports(self, breakers: Sequence[CircuitBreaker]) -> list[BreakerReport]:
        if not breakers:
            return []
        now = await self._deps.store.time()
        counts = await self._deps.store.calls([CallCount(breaker_limit(one.name), one.rule.window) for one in breakers])
        return [BreakerReport(one, one.state(now), count) for one, count in zip(breakers, counts, strict=True)]

    async def open(self, name: str, until: datetime | None, reason: str, by: Actor) -> BreakerReport:
        """Let no job of a breaker start until a time, or until it is closed. Running jobs continue."""
        now = await self._deps.store.time()
        if until is not None and until <= now:
            remedy = "give a later time, or leave it out to keep the breaker open until it is closed"
            raise InvalidRequest(f"until: {until.isoformat()} is past; {remedy}", field="until")
        return await self._change(name, "open", by, reason, lambda one: forced_open(one, until, reason, by.name, now))

    async def close(self, name: str, reason: str, by: Actor) -> BreakerReport:
        """Close a breaker, and keep it closed whatever fails, until it is reset."""
        now = await self._deps.store.time()
        return await self._change(name, "close", by, reason, lambda one: forced_closed(one, reason, by.name, now))

    async def reset(self, name: str, by: Actor) -> BreakerReport:
        """Close a breaker, forget the calls that were counted, and let it open by itself again."""
        now = await self._deps.store.time()
        return await self._change(name, "reset", by, "", lambda one: closed(one, now))

    async def put_of_app(self, breakers: Sequence[CircuitBreaker], app: str) -> None:
        """Store the breakers that an app's code defines, and remove its tasks from those that it no longer uses."""
        defined = {one.name: one for one in breakers}
        for _ in range(MOST_TRIES):
            stored = {one.name: one for one in await self._deps.store.breakers(limit=MOST_STORED)}
            changes = [
                change
                for name in sorted({*stored, *defined})
                if (change := _defined(stored.get(name), defined.get(name), app)) is not None
            ]
            if all([await self._deps.store.put_breaker(one) for one in changes]):
                return
            # Another process has changed one of them just now.

    async def _change(
        self, name: str, action: str, by: Actor, reason: str, change: Callable[[CircuitBreaker], CircuitBreaker]
    ) -> BreakerReport:
        check_breaker_name(name, "name")
        entry = LedgerEntry(by.name, f"breakers.{action}", name, by.origin, reason, surface=by.surface)
        for _ in range(MOST_TRIES):
            known = next(iter(await self._deps.store.breakers([name])), CircuitBreaker(name))
            if await self._deps.store.put_breaker(change(known), entry=entry):
                self._deps.telemetry.emit(BreakerChanged(name, _ACTIONS[action], reason))
                await self._deps.broker.announce((EVERY_QUEUE,))
                report = await self.get(name)
                if report is not None:
                    return report
        raise StoreUnavailable(f"breaker {name!r}: other processes change it all the time; try again")


def _defined(known: CircuitBreaker | None, own: CircuitBreaker | None, app: str) -> CircuitBreaker | None:
    """Return a breaker with the rule and the tasks that an app defines, None if nothing changes."""
    if own is None:
        assert known is not None
        changed = replace(known, tasks=tasks_of(app, (), known.tasks))
    else:
        before = known or CircuitBreaker(own.name)
        changed = replace(before, rule=own.rule, tasks=tasks_of(app, own.types, before.tasks))
    return None if changed == known else changed


_ACTIONS: Final = {"open": "forced_open", "close": "forced_closed", "reset": "reset"}
