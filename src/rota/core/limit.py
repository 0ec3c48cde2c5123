"""Limits: how many jobs of a queue, a task or a key may run at once, and how often they may start.

A limit is named by what it limits: `queue:<queue>`, `task:<type>` or `key:<concurrency_key>`. A permit is a job in
state `running`: nothing is counted beside the jobs themselves, so a permit cannot be lost. Rates count starts, by the
generic cell rate algorithm (GCRA): one number for each rate, the theoretical arrival time of the next start.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest
from rota.core.ids import JobId
from rota.core.job import AGING_MICROS
from rota.core.submission import BREAKER, LONGEST_NAME
from rota.core.time import span_to_micros, to_micros
from rota.core.value import value

#: The kinds of limits, as their names begin.
KINDS: Final = ("queue", "task", "key")
#: The most rates of one limit.
MOST_RATES: Final = 2
LARGEST_COUNT: Final = 1_000_000_000
#: Closed until an operator opens it.
UNTIL_OPENED: Final = datetime(9999, 12, 31, tzinfo=UTC)
#: A difference between the times of two claims that is no delay but a step of the clock.
CLOCK_STEP_MICROS: Final = 15_000_000
#: How many running jobs of a limit are named.
MOST_HOLDERS: Final = 10
#: Waiting jobs of a limit are counted up to this number.
MOST_WAITING: Final = 1000
_LAST_CHARACTER: Final = "\U0010ffff"
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
        return (now + self.burst * self.interval - self.after(arrival, 0, now)) // self.interval

    def opens_at(self, arrival: int, now: int) -> int:
        """Return when the next start is allowed."""
        return self.after(arrival, 0, now) - (self.burst - 1) * self.interval

    def after(self, arrival: int, starts: int, now: int) -> int:
        """Return the theoretical arrival time after some starts.

        No arrival is further ahead than a whole burst: if it is, the clock was set back or the rate was raised.
        """
        return min(max(arrival, now), self.latest(now)) + starts * self.interval

    def latest(self, now: int) -> int:
        """Return the latest possible arrival time: that of a burst that has just started."""
        return now + self.burst * self.interval

    def is_too_far_ahead(self, arrival: int, now: int) -> bool:
        """Whether an arrival lies so far ahead that the clock must have been set back since it was written."""
        return arrival > self.latest(now) + CLOCK_STEP_MICROS


@lru_cache(maxsize=1024)
def parse_rates(text: str, field: str = "rate_limit") -> tuple[Rate, ...]:
    """Read one or two rates: ``10/s``, ``100/m burst 10``, ``100/s, 1000/h``."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > MOST_RATES:
        raise _refused(field, text, f"at most {MOST_RATES} rates, separated by a comma")
    return tuple(_rate(part, text, field) for part in parts)


def doubled(text: str) -> str:
    """Return rates that let twice as many jobs start, as text."""
    return _RATE.sub(lambda match: f"{2 * int(match[1])}{match[0][len(match[1]) :]}", text)


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


#: The fields by which a limit allows more or less.
ALLOWED_FIELDS: Final = (
    "max_running",
    "rate_limit",
    "per_key_max_running",
    "per_key_rate_limit",
    "weight",
    "order",
    "on_full",
)
#: Jobs of a key start in the order of submission, each after the one before it has ended.
STRICT: Final = "strict"
LARGEST_WEIGHT: Final = 1000


class OnFull(StrEnum):
    """The policy for a new job whose key has as many running and waiting jobs as may run at once."""

    #: It waits.
    WAIT = "wait"
    #: No job is made; the answer is the key's oldest job.
    DROP = "drop"
    #: The key's oldest jobs are cancelled, or asked to stop if they run, so that there is room; the new one waits.
    CANCEL_OLDEST = "cancel_oldest"
    #: The new job is cancelled at once, and stays on record.
    CANCEL_NEWEST = "cancel_newest"
    #: The key's waiting jobs are cancelled, running ones go on; the new one waits.
    REPLACE = "replace"


@value
class Limit:
    """A limit as it is stored. `max_running=None` and `rate_limit=None` limit nothing.

    The `per_key` fields of `task:<type>` hold for each key that the task's `per` makes and that has no limit of its
    own; so do the `weight` and the `order` of a task. `weight` is a key's share of the starts if others wait as well.
    With `order` STRICT a key's jobs start in the order of submission, and each only after the one before it has ended.
    `on_full`, an OnFull, is for keys too.
    `app` names the app whose code defines the limit; None if an operator set it. `breaker` names an open circuit
    breaker of a task: its jobs pass the limit of the breaker too.
    """

    name: str
    max_running: int | None = None
    rate_limit: str | None = None
    per_key_max_running: int | None = None
    per_key_rate_limit: str | None = None
    weight: int | None = None
    order: str | None = None
    on_full: str | None = None
    closed_until: datetime | None = None
    reason: str | None = None
    app: str | None = None
    set_by: str = ""
    set_at: datetime | None = None
    breaker: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is set but that it may be closed."""
        return all(getattr(self, field) is None for field in ALLOWED_FIELDS)

    @property
    def rates(self) -> tuple[Rate, ...]:
        return () if self.rate_limit is None else parse_rates(self.rate_limit)

    def is_closed(self, now: datetime) -> bool:
        return self.closed_micros(to_micros(now)) is not None

    def closed_micros(self, now: int) -> int | None:
        """Return until when no job starts, in microseconds; None if jobs may start.

        A breaker that opened by itself is closed for one period of its rate. If it is closed for longer, the clock was
        set back, and the period is over.
        """
        until = None if self.closed_until is None else to_micros(self.closed_until)
        if until is None or until <= now:
            return None
        is_set_back = self.name.startswith(BREAKER) and not self.set_by and until - now > self.rates[0].period_micros
        return None if is_set_back else until


@value
class LimitUsage:
    """A limit with what runs and waits under it now. `opens_at` is when the next job may start, if a time is known."""

    limit: Limit
    running: int
    holders: tuple[JobId, ...]
    #: Counted up to MOST_WAITING + 1.
    waiting: int
    opens_at: datetime | None = None
    #: In strict order: the job that goes first, whatever its state; the others wait for its end.
    first: JobId | None = None


def queue_limit(queue: str) -> str:
    """Return the name of a queue's limit."""
    return f"queue:{queue}"


def task_limit(type_: str) -> str:
    """Return the name of a job type's limit."""
    return f"task:{type_}"


def key_limit(key: str) -> str:
    """Return the name of the limit of a concurrency key; a breaker's key is the name of its limit."""
    return key if key.startswith(BREAKER) else f"key:{key}"


def breaker_limit(name: str) -> str:
    """Return the name of the limit of an open breaker, which is also the concurrency key of jobs with that breaker."""
    return f"{BREAKER}{name}"


def key_of(type_: str, text: str) -> str:
    """Return the concurrency key that `per` makes of an argument's value."""
    return f"{type_}:{text}"


class LatestArrivals(NamedTuple):
    """The latest arrival times of two rates, for all limits between two names."""

    first_name: str
    last_name: str
    first_arrival: int
    second_arrival: int


def latest_arrivals(limit: Limit, now: int) -> list[LatestArrivals]:
    """Return the latest arrival times that a limit leaves once it is set: a rate that is raised holds at once.

    Without this, a rate of one an hour that becomes ten a second would start nothing for the rest of the hour.
    """
    ranges = [LatestArrivals(limit.name, limit.name, *_latest(limit.rates, now))]
    if limit.name.startswith("task:"):
        prefix = key_limit(key_of(limit.name.removeprefix("task:"), ""))
        rates = () if limit.per_key_rate_limit is None else parse_rates(limit.per_key_rate_limit)
        ranges.append(LatestArrivals(prefix, prefix + _LAST_CHARACTER, *_latest(rates, now)))
    return ranges


def _latest(rates: Sequence[Rate], now: int) -> list[int]:
    arrivals = [rate.latest(now) for rate in rates]
    return arrivals + [now] * (MOST_RATES - len(arrivals))


def names_of(queue: str, type_: str, key: str | None) -> tuple[str, ...]:
    """Return the names of the limits that a job passes, if they are set. A key is always limited."""
    names = (queue_limit(queue), task_limit(type_))
    return names if key is None else (*names, key_limit(key))


def task_of_key(key: str, type_: str) -> str:
    """Return the task whose `per` makes a key, whatever the type of the job that has it."""
    return type_ if key.startswith(key_of(type_, "")) else key.partition(":")[0]


def scope_of(name: str) -> tuple[str, str]:
    """Return what a limit is for, and its name there; that of a breaker is for the jobs that have it as their key."""
    kind, _, rest = name.partition(":")
    return ("key", name) if name.startswith(BREAKER) else (kind, rest)


def limits_passed(queue: str, type_: str, key: str | None, limits: Mapping[str, Limit]) -> list[str]:
    """Return those limits that a job passes: of its queue, task and key, and of its task's open breaker."""
    names = [name for name in names_of(queue, type_, key) if name in limits]
    if all(limits[name].breaker is None for name in names):
        return names
    open_breakers = {breaker_limit(one) for name in names if (one := limits[name].breaker) is not None}
    return names + sorted(name for name in open_breakers if name in limits and name not in names)


def limit_of_key(key: str, type_: str, limits: Mapping[str, Limit]) -> Limit:
    """Return what limits a key: its own limit, the task's limit for each key, or one job at a time."""
    name = key_limit(key)
    own = limits.get(name, Limit(name))
    if key.startswith(BREAKER):
        return own
    task = limits.get(task_limit(task_of_key(key, type_))) if ":" in key else None
    if own.max_running or own.rate_limit:
        most, rates = own.max_running, own.rate_limit
    elif task is not None and (task.per_key_max_running or task.per_key_rate_limit):
        most, rates = task.per_key_max_running, task.per_key_rate_limit
    else:
        most, rates = 1, None
    weight = own.weight or (None if task is None else task.weight)
    order = own.order or (None if task is None else task.order)
    on_full = own.on_full or (None if task is None else task.on_full)
    most = 1 if order == STRICT else most
    return replace(own, max_running=most, rate_limit=rates, weight=weight, order=order, on_full=on_full)


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
    if limit.weight is not None and not 1 <= limit.weight <= LARGEST_WEIGHT:
        raise _refused("weight", limit.weight, f"it must lie between 1 and {LARGEST_WEIGHT}")
    if limit.order not in {None, STRICT}:
        raise _refused("order", limit.order, f"write {STRICT!r}, or leave it out")
    if limit.on_full is not None and limit.on_full not in set(OnFull):
        raise _refused("on_full", limit.on_full, f"it must be one of {', '.join(OnFull)}")
    _check_kind(limit)


def _check_kind(limit: Limit) -> None:
    """Refuse what a limit of this kind would ignore."""
    for field in ("weight", "order", "on_full"):
        if limit.name.startswith("queue:") and getattr(limit, field) is not None:
            remedy = f"{limit.name!r} is a queue; only keys, and tasks for their keys, have {_WORDS[field]}"
            raise _refused(field, getattr(limit, field), remedy)
    field = "max_running" if limit.name.startswith("key:") else "per_key_max_running"
    if limit.order == STRICT and (getattr(limit, field) or 1) != 1:
        raise _refused(field, getattr(limit, field), "jobs in strict order run one at a time; leave it out")
    prefix = "" if limit.name.startswith("key:") else "per_key_"
    if limit.on_full is not None and getattr(limit, f"{prefix}rate_limit") and not getattr(limit, field):
        raise _refused("on_full", limit.on_full, f"a key is full only if {field} is set; set it as well")
    is_task = limit.name.startswith("task:")
    if not is_task and (limit.per_key_max_running is not None or limit.per_key_rate_limit is not None):
        raise _refused("per_key_max_running", limit.name, "only limits of tasks (task:<type>) have limits per key")


_WORDS: Final = {
    "weight": "a weight",
    "order": "an order",
    "on_full": "an on_full; to bound a queue, set its max_depth",
}


def check_limit_name(name: str, field: str = "name") -> None:
    """Refuse a name that names no queue, task or key."""
    kind, colon, rest = name.partition(":")
    if kind == "breaker":
        remedy = "it is a circuit breaker; use `rota breakers` or /v1/breakers"
        raise InvalidRequest(f"{field}: {name[:60]!a} is no limit: {remedy}", field=field)
    if kind not in KINDS or not colon or not 1 <= len(rest) <= LONGEST_NAME:
        raise _refused(field, name, "name a limit queue:<queue>, task:<type> or key:<concurrency key>")


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
        opens_at = max(opens_at or 0, rate.opens_at(arrival, now))
    closed = limit.closed_micros(now)
    if closed is not None:
        return Allowance(0, closed)
    return Allowance(starts, opens_at if opens_at is not None and opens_at > now else None)


class Turns:
    """Start-time fair queueing of keys: which key starts next, by starts divided by weight.

    A key that comes anew begins at the present virtual time: it gets no more than its share afterwards, and its first
    job starts within one round of the keys that wait. Jobs without a key are one more key.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._next: dict[str, float] = {}

    def start_of(self, key: str) -> float:
        """Return the virtual time at which the next job of a key may start."""
        return max(self._next.get(key, self._now), self._now)

    def note_start(self, key: str, start: float, weight: int) -> None:
        """Note that a job of a key has started."""
        self._now = max(self._now, start)
        if len(self._next) >= MOST_TURNS:
            self._next = {one: time for one, time in self._next.items() if time > self._now}
        self._next[key] = start + 1 / weight


#: How many keys are remembered; with more that wait, those served before begin anew.
MOST_TURNS: Final = 100_000
#: A job that has waited so long is as urgent as the most urgent ones, as in claims without limits.
_HIGHEST_LEVEL: Final = 10


def level_of(candidate: Candidate, now: int) -> int:
    """Return how urgent a job is: its priority, or the highest once no new job of that would go first."""
    return _HIGHEST_LEVEL if now - candidate.turn >= _HIGHEST_LEVEL * AGING_MICROS else candidate.priority


def choose(
    candidates: Sequence[Candidate],
    limits: Mapping[str, Limit],
    allowances: Mapping[str, Allowance],
    most: int,
    turns: Turns,
    now: int,
) -> list[Candidate]:
    """Choose the jobs to start: the most urgent first, keys take turns among equals, and no limit is exceeded.

    Jobs without a key take turns as one more key, and keep their order. A job of which one limit is used up takes
    nothing from its other limits.
    """
    left = {name: one.starts for name, one in allowances.items()}
    groups: dict[str, list[Candidate]] = {}
    for candidate in sorted(candidates, reverse=True):
        groups.setdefault(candidate.key or "", []).append(candidate)
    # The last of a group is its first job. Equals start in the order in which the keys were read.
    places = {candidate.key or "": place for place, candidate in reversed(list(enumerate(candidates)))}
    heads = [(-level_of(group[-1], now), turns.start_of(key), places[key], key) for key, group in groups.items()]
    heapq.heapify(heads)
    chosen: list[Candidate] = []
    # The limits that jobs pass: the same for all of one queue, type and key.
    passed: dict[tuple[str, str, str | None], list[str]] = {}
    while heads and len(chosen) < most:
        _, start, place, key = heapq.heappop(heads)
        group = groups[key]
        candidate = group.pop()
        names = passed.get(candidate[3:])
        if names is None:
            names = [name for name in limits_passed(*candidate[3:], limits) if name in left]
            passed[candidate[3:]] = names
        if all(left[name] > 0 for name in names):
            chosen.append(candidate)
            for name in names:
                left[name] -= 1
            limit = limits.get(key_limit(key)) if key else None
            turns.note_start(key, start, (limit.weight or 1) if limit is not None else 1)
        if group:
            heapq.heappush(heads, (-level_of(group[-1], now), turns.start_of(key), place, key))
    return chosen
