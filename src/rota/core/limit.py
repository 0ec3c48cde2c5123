"""Limits: how many jobs of a queue, a task or a key may run at once, and how often they may start.

A limit is named by what it limits: `queue:<queue>`, `task:<type>` or `key:<concurrency_key>`. A permit is a job in
state `running`: nothing is counted beside the jobs themselves, so a permit cannot be lost. Rates count starts, by the
generic cell rate algorithm (GCRA): one number for each rate, the theoretical arrival time of the next start.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, NamedTuple

from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest
from rota.core.ids import JobId
from rota.core.submission import LONGEST_NAME, NewJob, Template
from rota.core.time import span_to_micros
from rota.core.value import value

#: The kinds of limits, as their names begin.
KINDS: Final = ("queue", "task", "key")
#: The most rates of one limit.
MOST_RATES: Final = 2
LARGEST_COUNT: Final = 1_000_000_000
#: Closed until an operator opens it.
UNTIL_OPENED: Final = datetime(9999, 12, 31, tzinfo=UTC)
#: How many running jobs of a limit are named.
MOST_HOLDERS: Final = 10
#: Waiting jobs of a limit are counted up to this number.
MOST_WAITING: Final = 1000
_RATE: Final = re.compile(r"(\d{1,10})\s*/\s*([0-9.]*[a-z]+)(?:\s+burst\s+(\d{1,10}))?", re.IGNORECASE)
_RATE_REMEDY: Final = "write a count and a period, as in '10/s', '100/m burst 10' or '100/s, 1000/h'"


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` starts per period on average, and at most `burst` at once."""

    count: int
    period_micros: int
    burst: int

    @property
    def interval(self) -> int:
        """Microseconds between two starts, rounded up so that the rate is never exceeded."""
        return -(-self.period_micros // self.count)

    def tokens(self, arrival: int, now: int) -> int:
        """Return how many jobs may start now. `arrival` is the theoretical arrival time of the next start."""
        return max((now - max(arrival, now) + self.burst * self.interval) // self.interval, 0)

    def opens_at(self, arrival: int) -> int:
        """Return when the next start is allowed."""
        return arrival - (self.burst - 1) * self.interval

    def after(self, arrival: int, starts: int, now: int) -> int:
        """Return the theoretical arrival time after some starts."""
        return max(arrival, now) + starts * self.interval


@lru_cache(maxsize=1024)
def parse_rates(text: str, field: str = "rate_limit") -> tuple[Rate, ...]:
    """Read one or two rates: ``10/s``, ``100/m burst 10``, ``100/s, 1000/h``."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > MOST_RATES:
        raise _refused(field, text, f"at most {MOST_RATES} rates, separated by a comma")
    return tuple(_rate(part, text, field) for part in parts)


def _rate(part: str, text: str, field: str) -> Rate:
    match = _RATE.fullmatch(part)
    if match is None:
        raise _refused(field, text, _RATE_REMEDY)
    count, unit, burst = match.groups()
    period = span_to_micros(parse_duration(unit if unit[0].isdigit() else f"1{unit}", field=field))
    rate = Rate(int(count), period, int(burst or count))
    if not 1 <= rate.count <= LARGEST_COUNT or not 1 <= rate.burst <= LARGEST_COUNT or rate.period_micros < 1:
        raise _refused(field, text, f"count and burst must lie between 1 and {LARGEST_COUNT}, the period above 0")
    return rate


def _refused(field: str, text: object, remedy: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {str(text)[:60]!a} will not do: {remedy}", field=field)


@value
class Limit:
    """A limit as it is stored. `max_running=None` and `rate_limit=None` limit nothing.

    The `per_key` fields of `task:<type>` hold for each key that the task's `per` makes and that has no limit of its
    own. `app` names the app whose code defines the limit; None if an operator set it.
    """

    name: str
    max_running: int | None = None
    rate_limit: str | None = None
    per_key_max_running: int | None = None
    per_key_rate_limit: str | None = None
    closed_until: datetime | None = None
    reason: str | None = None
    app: str | None = None
    set_by: str = ""
    set_at: datetime | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is set but that it may be closed."""
        fields = (self.max_running, self.rate_limit, self.per_key_max_running, self.per_key_rate_limit)
        return all(one is None for one in fields)

    @property
    def rates(self) -> tuple[Rate, ...]:
        return () if self.rate_limit is None else parse_rates(self.rate_limit)

    def is_closed(self, now: datetime) -> bool:
        return self.closed_until is not None and self.closed_until > now


@value
class LimitUsage:
    """A limit with what runs and waits under it now. `opens_at` is when the next job may start, if a time is known."""

    limit: Limit
    running: int
    holders: tuple[JobId, ...]
    #: Counted up to MOST_WAITING + 1.
    waiting: int
    opens_at: datetime | None = None


def queue_limit(queue: str) -> str:
    """Return the name of a queue's limit."""
    return f"queue:{queue}"


def task_limit(type_: str) -> str:
    """Return the name of a job type's limit."""
    return f"task:{type_}"


def key_limit(key: str) -> str:
    """Return the name of the limit of a concurrency key."""
    return f"key:{key}"


def key_of(type_: str, text: str) -> str:
    """Return the concurrency key that `per` makes of an argument's value."""
    return f"{type_}:{text}"


def names_of(queue: str, type_: str, key: str | None) -> tuple[str, ...]:
    """Return the names of the limits that a job passes, if they are set. A key is always limited."""
    names = (queue_limit(queue), task_limit(type_))
    return names if key is None else (*names, key_limit(key))


def limit_of_key(key: str, type_: str, limits: Mapping[str, Limit]) -> Limit:
    """Return what limits a key: its own limit, the task's limit for each key, or one job at a time."""
    name = key_limit(key)
    own = limits.get(name)
    if own is not None and not own.is_empty:
        return own
    task = limits.get(task_limit(type_))
    is_made_by_task = task is not None and key.startswith(key_of(type_, ""))
    if is_made_by_task and task is not None and (task.per_key_max_running or task.per_key_rate_limit):
        most, rates = task.per_key_max_running, task.per_key_rate_limit
    else:
        most, rates = 1, None
    closed = (None, None) if own is None else (own.closed_until, own.reason)
    return Limit(name, most, rates, closed_until=closed[0], reason=closed[1])


def check_limit(limit: Limit) -> None:
    """Refuse a limit that cannot be kept, naming the field."""
    check_limit_name(limit.name)
    for field in ("max_running", "per_key_max_running"):
        most = getattr(limit, field)
        if most is not None and not 1 <= most <= LARGEST_COUNT:
            remedy = f"it must lie between 1 and {LARGEST_COUNT}; to stop all starts, close the limit"
            raise _refused(field, most, remedy)
    for field in ("rate_limit", "per_key_rate_limit"):
        text = getattr(limit, field)
        if text is not None:
            parse_rates(text, field)
    is_task = limit.name.startswith("task:")
    if not is_task and (limit.per_key_max_running is not None or limit.per_key_rate_limit is not None):
        raise _refused("per_key_max_running", limit.name, "only limits of tasks (task:<type>) have limits per key")


def check_limit_name(name: str) -> None:
    """Refuse a name that names no queue, task or key."""
    kind, colon, rest = name.partition(":")
    if kind not in KINDS or not colon or not 1 <= len(rest) <= LONGEST_NAME:
        raise _refused("name", name, "name a limit queue:<queue>, task:<type> or key:<concurrency key>")


def limits_refused(field: str = "name") -> InvalidRequest:
    """Make the error for a limit or a concurrency key on a store that enforces no limits."""
    message = f"{field}: this store enforces no limits in this release, only SQLite does; leave it out, or use SQLite"
    return InvalidRequest(message, field=field)


def refuse_keys(jobs: Iterable[NewJob | Template]) -> None:
    """Refuse jobs with a concurrency key, or with follow-ups that have one, for a store that enforces no limits."""
    for job in jobs:
        if job.concurrency_key is not None:
            raise limits_refused("concurrency_key")
        if job.on_success is not None or job.on_failure is not None:
            refuse_keys(one for one in (job.on_success, job.on_failure) if one is not None)


class Candidate(NamedTuple):
    """A due job that some limits concern, as a claim reads it."""

    turn: int
    id: JobId
    priority: int
    queue: str
    type: str
    key: str | None


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many jobs may start under a limit now; and when more may, in microseconds, if a time is known."""

    starts: int
    opens_at: int | None = None


def allowance_of(limit: Limit, running: int, arrivals: Sequence[int], now: int) -> Allowance:
    """Return how many jobs may start under a limit. `arrivals` are the theoretical arrival times of its rates."""
    starts, opens_at = LARGEST_COUNT, None
    if limit.max_running is not None:
        starts = max(limit.max_running - running, 0)
    for rate, arrival in zip(limit.rates, arrivals, strict=False):
        starts = min(starts, rate.tokens(arrival, now))
        opens_at = max(opens_at or 0, rate.opens_at(rate.after(arrival, 0, now)))
    closed = None if limit.closed_until is None else span_to_micros(limit.closed_until - _EPOCH)
    if closed is not None and closed > now:
        return Allowance(0, closed)
    return Allowance(starts, opens_at if opens_at is not None and opens_at > now else None)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def choose(
    candidates: Sequence[Candidate],
    allowances: Mapping[str, Allowance],
    most: int,
    after: Mapping[str, str] | None = None,
) -> list[Candidate]:
    """Choose the jobs to start: keys take turns within one priority, and no limit is exceeded.

    Jobs without a key take turns as one more key, and keep their order. A job of which one limit is used up takes
    nothing from its other limits. `after` is the key served last, by queue: the turns continue behind it.
    """
    left = {name: one.starts for name, one in allowances.items()}
    groups = _groups(candidates, after or {})
    heads = [(-group[0].priority, 0, place) for place, group in enumerate(groups)]
    heapq.heapify(heads)
    positions = [0] * len(groups)
    chosen: list[Candidate] = []
    while heads and len(chosen) < most:
        _, served, place = heapq.heappop(heads)
        group, candidate = groups[place], groups[place][positions[place]]
        names = [name for name in names_of(candidate.queue, candidate.type, candidate.key) if name in left]
        is_free = all(left[name] > 0 for name in names)
        if is_free:
            chosen.append(candidate)
            for name in names:
                left[name] -= 1
        positions[place] += 1
        if positions[place] < len(group):
            heapq.heappush(heads, (-group[positions[place]].priority, served + is_free, place))
    return chosen


def _groups(candidates: Iterable[Candidate], after: Mapping[str, str]) -> list[list[Candidate]]:
    """Group candidates by key, each in claim order, beginning behind the key that was served last."""
    groups: dict[str | None, list[Candidate]] = {}
    for candidate in sorted(candidates):
        groups.setdefault(candidate.key, []).append(candidate)

    def place(key: str | None) -> tuple[bool, str]:
        last = after.get(groups[key][0].queue, "")
        return (key or "") <= last, key or ""

    return [groups[key] for key in sorted(groups, key=place)]
