"""The part of `explain` about limits and circuit breakers: which one keeps a due job from starting, and until when."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from shlex import quote
from typing import Any, Final

from rota.core.ids import JobId, to_text
from rota.core.job import Job
from rota.core.lifecycle import DUE_STATES, State
from rota.core.limit import (
    MOST_WAITING,
    STRICT,
    UNTIL_OPENED,
    Limit,
    LimitUsage,
    doubled,
    names_of,
    queue_limit,
)
from rota.core.submission import BREAKER
from rota.engine.deps import EngineDeps
from rota.engine.limits import JobLimits
from rota.engine.queues import Backlogs
from rota.ports.store import Census

#: How many of the jobs that are claimed before a job are counted.
MOST_AHEAD: Final = 10_000


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause: a code for programs, a sentence for people, a remedy, and the values it was read from."""

    code: str
    text: str
    fix: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)


class ExplainLimits:
    """Reads the limits that a job passes, and derives the causes."""

    def __init__(self, deps: EngineDeps, backlogs: Backlogs) -> None:
        self._deps = deps
        self._backlogs = backlogs

    async def __call__(self, job: Job, now: datetime, census: Callable[[], Awaitable[Census]]) -> list[Cause]:
        """Return why no limit lets a due job start: one cause for each limit that does not."""
        limits = JobLimits(self._deps)
        causes: list[Cause] = []
        for name in names_of(job.queue, job.type, job.concurrency_key):
            limit = await limits.effective(name, job.type)
            own = name.removeprefix(BREAKER) if name.startswith(BREAKER) else limit.breaker
            cause = None if own is None else await self._held_by_breaker(own, now)
            if cause is None and not name.startswith(BREAKER):
                cause = await self._held_by(job, limit, now, census)
            if cause is not None:
                causes.append(cause)
        return causes

    async def _held_by(
        self, job: Job, limit: Limit, now: datetime, census: Callable[[], Awaitable[Census]]
    ) -> Cause | None:
        """Return why no job may start under a limit now; None if one may."""
        usage = await self._deps.store.limit_usage(limit)
        evidence = {
            "limit": limit.name,
            "max_running": limit.max_running,
            "running": usage.running,
            "holders": [to_text(one) for one in usage.holders],
            "waiting": min(usage.waiting, MOST_WAITING),
        }
        if limit.is_closed(now):
            return _closed(limit, evidence)
        if limit.max_running is not None and usage.running >= limit.max_running:
            place, known = await self._place(job, usage, now, census)
            return _full(usage, place, {**evidence, **known})
        if usage.opens_at is not None and usage.opens_at > now:
            place, known = await self._place(job, usage, now, census)
            return _rate_limited(usage, usage.opens_at, place, {**evidence, "opens_at": usage.opens_at, **known})
        if usage.first is not None and usage.first != job.id:
            return _behind(limit.name, usage.first, evidence)
        return None

    async def _place(
        self, job: Job, usage: LimitUsage, now: datetime, census: Callable[[], Awaitable[Census]]
    ) -> tuple[str, dict[str, Any]]:
        """Return which place a job has among those that wait, and when it starts, as words and as evidence.

        A job with a key has none, because keys take turns.
        """
        if job.state is not State.PENDING or job.concurrency_key is not None:
            return f"; {min(usage.waiting, MOST_WAITING)} jobs wait for it", {}
        lanes = (await census()).lanes
        types = {job.type}
        if usage.limit.name == queue_limit(job.queue):
            types |= {one.lane.type for one in lanes if one.lane.queue == job.queue and one.state is State.PENDING}
        ahead = (await self._deps.store.ahead(job.id, sorted(types), MOST_AHEAD)).count
        if usage.opens_at is not None and usage.opens_at > now and usage.limit.rates:
            interval = max(rate.interval for rate in usage.limit.rates)
            start: datetime | None = usage.opens_at + timedelta(microseconds=ahead * interval)
        else:
            due = sum(one.count for one in lanes if one.lane.queue == job.queue and one.state in DUE_STATES)
            start = (await self._backlogs.of(job.queue, due)).expected_start(now, ahead)
        place = f"; it is number {ahead + 1:,} of those that wait"
        known: dict[str, Any] = {"position": ahead + 1}
        if start is not None:
            place += f" and starts at about {start:%H:%M:%S} UTC"
            known["expected_start"] = start
        return place, known

    async def _held_by_breaker(self, name: str, now: datetime) -> Cause | None:
        """Return that a circuit breaker is open; None if it is closed."""
        for breaker in await self._deps.store.breakers([name]):
            if not breaker.is_open:
                return None
            usage = await self._deps.store.limit_usage(breaker.limit, now=now)
            opens_at = usage.opens_at or now
            why = f": {breaker.reason}" if breaker.reason else ""
            until = (
                "it is closed" if opens_at == UNTIL_OPENED else f"{opens_at:%Y-%m-%d %H:%M:%S} UTC, when it is tried"
            )
            text = f"the circuit breaker {name!r} has been open since {breaker.since:%H:%M:%S} UTC until {until}{why}"
            evidence = {
                "breaker": name,
                "since": breaker.since,
                "next_probe_at": None if opens_at == UNTIL_OPENED else opens_at,
                "state": str(breaker.state(now)),
                "is_forced": breaker.is_forced,
                "reason": breaker.reason,
            }
            fix = f"repair the dependency; to start its jobs now: rota breakers close {quote(name)}"
            return Cause("circuit_open_until", text, fix, evidence)
        return None


def _closed(limit: Limit, evidence: Mapping[str, Any]) -> Cause:
    why = f": {limit.reason}" if limit.reason else ""
    until = "it is opened" if limit.closed_until == UNTIL_OPENED else f"{limit.closed_until:%Y-%m-%d %H:%M:%S} UTC"
    text = f"the limit {limit.name} is closed until {until}{why}"
    return Cause("limit_closed_until", text, f"open it: rota limits open {quote(limit.name)}", evidence)


def _full(usage: LimitUsage, place: str, evidence: Mapping[str, Any]) -> Cause:
    limit = usage.limit
    holders = [to_text(one) for one in usage.holders]
    running = f"{usage.running} run: {', '.join(holders)}"
    text = f"the limit {limit.name} lets {limit.max_running} run at once, and {running}{place}"
    if limit.order == STRICT:
        fix = f"jobs in strict order run one at a time; see what the one that runs does: rota jobs explain {holders[0]}"
    else:
        fix = f"wait for one of them to end, or raise the limit: {_set(replace(limit, max_running=usage.running + 1))}"
    return Cause("concurrency_limit", text, fix, evidence)


def _set(limit: Limit) -> str:
    """Return the command that sets what runs and starts under a limit; a key may have both from its task."""
    command = f"rota limits set {quote(limit.name)}"
    if limit.max_running is not None:
        command += f" --max-running {limit.max_running}"
    return command if limit.rate_limit is None else f"{command} --rate-limit {quote(limit.rate_limit)}"


def _rate_limited(usage: LimitUsage, opens_at: datetime, place: str, evidence: Mapping[str, Any]) -> Cause:
    limit = usage.limit
    text = f"the limit {limit.name} starts {limit.rate_limit}; the next may start at {opens_at:%H:%M:%S.%f} UTC{place}"
    fix = f"wait, or raise the rate: {_set(replace(limit, rate_limit=doubled(limit.rate_limit or '')))}"
    return Cause("rate_limited_until", text, fix, evidence)


def _behind(name: str, first: JobId, evidence: Mapping[str, Any]) -> Cause:
    """Return that a job in strict order waits for the end of the one before all others."""
    text = f"the jobs of {name} start in the order of submission, and {to_text(first)}, which goes first, has not ended"
    fix = f"see why it has not ended: rota jobs explain {to_text(first)}"
    return Cause("concurrency_limit", text, fix, {**evidence, "waits_for": to_text(first)})
