"""Circuit breakers: jobs of a dependency that fails wait, without using attempts, until it works again.

A breaker counts the calls of its dependency in a window. It opens if at least `least` calls were counted and the share
`failures` of them failed. While it is open it is a closed limit, `breaker:<name>`: no job starts under it. After
`open_for` it lets `probes` jobs start in each further `open_for`, which is a rate. The first probe that succeeds closes
the breaker, one that fails closes the limit for another `open_for`. So a probe that is lost needs no record: the next
one starts when the rate allows it.

An attempt counts by when it started. Attempts that started before the last change of state say nothing about the
dependency since then, and are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from rota.core.duration import format_duration
from rota.core.errors import InvalidRequest
from rota.core.limit import LARGEST_COUNT, UNTIL_OPENED, Limit, breaker_limit
from rota.core.retry import Backoff
from rota.core.submission import BREAKER, LONGEST_NAME
from rota.core.time import span_to_micros
from rota.core.value import value

#: A window is divided into this many parts: counts leave it one part at a time.
SLOTS: Final = 10
SHORTEST_WINDOW: Final = timedelta(seconds=1)
LONGEST_WINDOW: Final = timedelta(hours=1)
#: A process may know the state of a breaker for half a second, so a probe must not start sooner after it opened.
SHORTEST_OPEN: Final = timedelta(seconds=1)
LONGEST_OPEN: Final = timedelta(days=1)
#: Breakers that no app defines are forgotten after this time without a change of state.
KEEP_UNDEFINED: Final = timedelta(days=7)


#: Why a job cannot have both a concurrency key and a breaker of its own.
BREAKER_IS_KEY: Final = "a job has one key, and its own breaker is one; leave out the key, or give the task a breaker"


class BreakerState(StrEnum):
    """Closed lets all jobs start, open none, half-open the probes."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True)
class BreakerRule:
    """When a breaker opens, for how long, and how many jobs then try whether the dependency works again."""

    failures: float = 0.5
    window: timedelta = timedelta(seconds=30)
    least: int = 10
    open_for: timedelta = timedelta(seconds=30)
    probes: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.failures <= 1:
            raise _refused("failures", self.failures, "give a share above 0 and at most 1, as in failures=0.5")
        if not SHORTEST_WINDOW <= self.window <= LONGEST_WINDOW:
            raise _refused("window", format_duration(self.window), "it must lie between 1 s and 1 h")
        if not 1 <= self.least <= LARGEST_COUNT:
            raise _refused("least", self.least, f"it must lie between 1 and {LARGEST_COUNT}")
        if not SHORTEST_OPEN <= self.open_for <= LONGEST_OPEN:
            raise _refused("open_for", format_duration(self.open_for), "it must lie between 1 s and 1 d")
        if not 1 <= self.probes <= 1000:  # noqa: PLR2004 - as the message says
            raise _refused("probes", self.probes, "it must lie between 1 and 1000")

    @property
    def probe_rate(self) -> str:
        """The rate of the limit while the breaker is open."""
        return f"{self.probes}/{span_to_micros(self.open_for)}us"


DEFAULT_RULE: Final = BreakerRule()


def _refused(field: str, given: object, remedy: str) -> InvalidRequest:
    return InvalidRequest(f"breaker.{field}: {given!r} will not do: {remedy}", field=f"breaker.{field}")


@value
class CircuitBreaker:
    """A breaker as it is stored.

    `tasks` are pairs of an app and a job type whose jobs wait while it is open. `is_forced`: an operator has opened it
    until `open_until`, or keeps it closed whatever fails. `since` is when it was opened or closed last.
    """

    name: str
    rule: BreakerRule = DEFAULT_RULE
    tasks: tuple[tuple[str, str], ...] = ()
    is_open: bool = False
    is_forced: bool = False
    since: datetime | None = None
    open_until: datetime | None = None
    reason: str | None = None
    set_by: str = ""
    #: How often it has opened.
    opened: int = 0
    #: Grows with each change; a change of another version is refused.
    version: int = 0

    @property
    def types(self) -> tuple[str, ...]:
        """The job types that it concerns, sorted."""
        return tuple(sorted({type_ for _, type_ in self.tasks}))

    def state(self, now: datetime) -> BreakerState:
        if not self.is_open:
            return BreakerState.CLOSED
        return BreakerState.OPEN if self.limit.is_closed(now) else BreakerState.HALF_OPEN

    @property
    def limit(self) -> Limit:
        """The limit that jobs pass while it is open."""
        return Limit(
            breaker_limit(self.name),
            rate_limit=self.rule.probe_rate,
            closed_until=self.open_until,
            reason=self.reason,
            set_by=self.set_by if self.is_forced else "",
        )

    def concerns(self, type_: str, key: str | None) -> bool:
        """Whether jobs of a type, or with a concurrency key, wait for it."""
        return key == breaker_limit(self.name) or any(type_ == one for _, one in self.tasks)

    def counts(self, started_at: datetime | None, now: datetime) -> bool:
        """Whether an attempt started after the last change of state; if that is in the future, the clock was set back.

        While it is open, such an attempt is a probe.
        """
        return self.since is None or self.since > now or (started_at is not None and started_at >= self.since)


@value
class CallCount:
    """Calls of a dependency, or starts of a task, and how many of them failed, in a window of their own."""

    name: str
    window: timedelta
    calls: int = 0
    failures: int = 0

    def slot(self, now: int) -> int:
        """Return the start of the part of the window, in microseconds."""
        width = self.slot_width
        return now - now % width

    @property
    def slot_width(self) -> int:
        return span_to_micros(self.window) // SLOTS

    def first_slot(self, now: int) -> int:
        """Return the start of the first part that counts."""
        return self.slot(now) - (SLOTS - 1) * self.slot_width


def check_breaker_name(name: str, field: str = "breaker") -> None:
    """Refuse a name that cannot be stored."""
    if not 1 <= len(name) <= LONGEST_NAME - len(BREAKER) or not name.isprintable():
        remedy = f"give 1 to {LONGEST_NAME - len(BREAKER)} printable characters, as in 'stripe'"
        raise InvalidRequest(f"{field}: {name[:60]!a} cannot be the name of a breaker; {remedy}", field=field)


# Changes of state


def after_failure(breaker: CircuitBreaker, count: CallCount, now: datetime) -> CircuitBreaker | None:
    """Open a breaker of which too many calls failed; None if it stays closed."""
    rule = breaker.rule
    is_kept = breaker.is_open or breaker.is_forced
    if is_kept or count.calls < rule.least or count.failures < rule.failures * count.calls:
        return None
    return replace(
        breaker,
        is_open=True,
        since=now,
        open_until=now + rule.open_for,
        reason=f"{count.failures} of {count.calls} calls failed within {format_duration(rule.window)}",
        set_by="",
        opened=breaker.opened + 1,
    )


def after_probe(breaker: CircuitBreaker, now: datetime, *, has_failed: bool) -> CircuitBreaker | None:
    """Close an open breaker because a probe succeeded, or keep it open for longer; None if nothing changes."""
    if not breaker.is_open:
        return None
    if not has_failed:
        return closed(breaker, now)
    until = now + breaker.rule.open_for
    if breaker.is_forced and breaker.open_until is not None and breaker.open_until >= until:
        return None
    # A probe came to its end under the rule, so the rule counts from now on.
    return replace(breaker, open_until=until, reason="a probe failed", is_forced=False, set_by="")


def forced_open(breaker: CircuitBreaker, until: datetime | None, reason: str, by: str, now: datetime) -> CircuitBreaker:
    """Open a breaker for an operator, until a time or until it is closed."""
    return replace(
        breaker,
        is_open=True,
        is_forced=True,
        since=now,
        open_until=until or UNTIL_OPENED,
        reason=reason or f"opened by {by}",
        set_by=by,
        opened=breaker.opened + (not breaker.is_open),
    )


def forced_closed(breaker: CircuitBreaker, reason: str, by: str, now: datetime) -> CircuitBreaker:
    """Close a breaker for an operator, and keep it closed whatever fails."""
    return replace(closed(breaker, now), is_forced=True, reason=reason or f"kept closed by {by}", set_by=by)


def closed(breaker: CircuitBreaker, now: datetime) -> CircuitBreaker:
    """Close a breaker and let it decide by itself."""
    return replace(breaker, is_open=False, is_forced=False, since=now, open_until=None, reason=None, set_by="")


def budget_delay(rule: Backoff, starts: int, retries: int, rng: float) -> timedelta:
    """Return how much later a retry starts because earlier ones have used up the budget of retries.

    `retries` counts those of the window before this one. A budget is a share of the starts in the window, and at
    least LEAST_RETRIES. Each time that it is used up, the next retries start one window later, spread over it by `rng`.
    """
    if rule.budget is None:
        return timedelta(0)
    later = retries // max(int(rule.budget * starts), LEAST_RETRIES)
    return rule.budget_window * (later + rng) if later else timedelta(0)


#: The retries that a window always allows: a share of a few starts would be none.
LEAST_RETRIES: Final = 10


def tasks_of(app: str, types: Iterable[str], known: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the tasks of a breaker with those that an app defines now, and those of other apps as they are."""
    others = {one for one in known if one[0] != app}
    return tuple(sorted(others | {(app, type_) for type_ in types}))
