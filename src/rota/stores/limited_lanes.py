"""Limited claims, the part that all stores share: from running jobs and candidates to the jobs that may start.

A claim that meets limits locks them, counts what runs, reads candidates, chooses, leases the chosen jobs and writes the
rates, all in one transaction. Reading and writing is each store's own; what follows from it is decided here.

The count comes after the locks, with a view of the data that is no older: the claim that held a lock before has
committed, and what it leased is counted. A claim that does not get a lock leaves the lanes of that limit alone, and
waits for nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, NamedTuple, TypeAlias

from rota.core.lease import Claim
from rota.core.limit import (
    LARGEST_COUNT,
    STRICT,
    Allowance,
    Candidate,
    Limit,
    allowance_of,
    breaker_limit,
    choose,
    key_limit,
    key_of,
    limit_of_key,
    limits_passed,
    names_of,
    queue_limit,
    task_limit,
    task_of_key,
)
from rota.core.submission import BREAKER
from rota.ports.rates import CountedRate
from rota.stores.lane_merge import LaneKey
from rota.stores.limit_memory import LOOK_AGAIN, NEXT_TRY, LimitMemory
from rota.stores.rows import Row
from rota.stores.system_rows import limit_of

#: The row that is locked for all keys: most keys have none of their own.
ALL_KEYS: Final = "key:"
#: How many keys of one lane a claim reads.
MOST_KEYS_SEEN: Final = 1024
#: A claim reads the jobs of at least this many keys that have a permit to give, so that the keys take turns.
FEWEST_KEYS: Final = 16
#: How many jobs of each key are read with the keys. Of keys that may start more, jobs are read by other statements.
JOBS_WITH_KEY: Final = 2
#: How many columns of keys_with_work are about the key itself.
KEY_COLUMNS: Final = 17
#: The most keys that are read at once.
MOST_KEYS_AT_ONCE: Final = 256


class KeyPage(NamedTuple):
    """A request for keys in their order: those behind one, and up to another if it is given."""

    after: str
    last: str | None = None

    def within(self, rows: Iterable[Row]) -> list[Row]:
        """Return those rows whose keys, their first columns, belong to the page."""
        return [row for row in rows if self.last is None or row[0] <= self.last]


#: Yields the pages of one round, is sent the rows of each.
KeyPages: TypeAlias = Generator[KeyPage, Sequence[Row], None]


def next_page(pages: KeyPages, rows: Sequence[Row]) -> KeyPage | None:
    """Return the page behind some keys; None at the end of the round."""
    try:
        return pages.send(rows)
    except StopIteration:
        return None


class ClaimConditions(NamedTuple):
    """Restrictions of a claim: paused queues, limits of queues and types by name, and whether jobs with a key wait."""

    now: int
    paused: Collection[str]
    limited: Collection[str]
    has_keys: bool
    #: Whether the row is there that is locked for all keys.
    has_key_row: bool = True
    #: The lanes in which jobs with a key wait, as far as the store reads them with the conditions.
    keyed: Sequence[LaneKey] = ()

    @property
    def is_limited(self) -> bool:
        return bool(self.limited) or self.has_keys


def conditions_of(rows: Iterable[tuple[int, str]], now: int = 0) -> ClaimConditions:
    """Read the rows of claim_conditions, by their numbers."""
    paused, limited, keyed, has_keys, has_key_row = set(), set(), [], False, False
    for kind, text in rows:
        match kind:
            case 0:
                now = int(text)
            case 1:
                paused.add(text)
            case 2:
                limited.add(text)
            case 3:
                has_keys = True
                if text:
                    queue, type_ = json.loads(text)
                    keyed.append((queue, type_))
            case _:
                has_key_row = True
    return ClaimConditions(now, paused, limited, has_keys, has_key_row, keyed)


@dataclass(slots=True)
class LimitedClaim:
    """The limits of one claim: what each allows, and what the claim takes from it."""

    claim: Claim
    now: int
    limits: dict[str, Limit]
    memory: LimitMemory
    running: dict[str, int] = field(default_factory=dict)
    arrivals: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: Rates that are counted outside the store: their `arrivals` are the counter's.
    counted: dict[str, CountedRate] = field(default_factory=dict)
    allowances: dict[str, Allowance] = field(default_factory=dict)
    #: The remaining allowance of a limit, by its running jobs and arrivals.
    alike: dict[tuple[str, int, tuple[int, int]], Allowance] = field(default_factory=dict)
    candidates: list[Candidate] = field(default_factory=list)
    #: Limits of tasks that have made keys of jobs of another type; None if there is none.
    task_limits: dict[str, Limit | None] = field(default_factory=dict)
    #: What limits keys without a limit of their own, by the task whose `per` makes them.
    shared: dict[str, Limit] = field(default_factory=dict)
    #: The last key of each lane of which the claim has not seen all keys.
    seen_up_to: dict[LaneKey, str] = field(default_factory=dict)
    #: Limits that another claim holds just now.
    missed: Collection[str] = ()
    #: Whether a limit kept a job from this claim, and when it opens as far as is known.
    is_held: bool = False
    opens_at: int | None = None

    def is_ours(self, lane: LaneKey) -> bool:
        """Whether no other claim holds a limit of a lane just now."""
        return not is_limited(lane, self.missed)

    def allows(self, queue: str, type_: str, key: str | None) -> int:
        """Return how many jobs of a lane, or of a key in it, may start, at most as many as the claim requests."""
        starts = self.claim.limit
        for name in limits_passed(queue, type_, key, self.limits):
            one = self._allowance(name)
            starts = min(starts, one.starts)
            if not one.starts:
                self._note_held(one)
        return starts

    def most_running(self, name: str) -> int:
        """Return how many jobs may run at once under a limit of a queue or a task, if it is locked."""
        most = self.limits[name].max_running if name in self.limits else None
        return LARGEST_COUNT if most is None else most

    def open_lanes(self, lanes: Iterable[LaneKey]) -> list[tuple[str, str, int]]:
        """Return the lanes of which jobs may start, and how many."""
        allowances = [(*lane, self.allows(*lane, None)) for lane in lanes if self.is_ours(lane)]
        return [one for one in allowances if one[2] > 0]

    def add_lane_jobs(self, rows: Iterable[Row]) -> None:
        """Add jobs without a key that may start: turn, id, priority, queue, type."""
        for turn, job_id, priority, queue, type_ in rows:
            self.candidates.append(Candidate(turn, job_id, priority, queue, type_, None))

    def key_pages(self, lane: LaneKey) -> KeyPages:
        """Page once through the keys of a lane, beginning behind the key served last, up to the limit of a claim."""
        served, seen = self.memory.last_keys.get(lane, ""), 0
        for after, last in ((served, None), ("", served)):
            page: KeyPage | None = KeyPage(after, last) if last != "" else None
            while page is not None:
                if seen >= MOST_KEYS_SEEN:
                    # The next claim goes on here, or keys behind many full ones would never start.
                    self.seen_up_to[lane] = page.after
                    return
                rows = yield page
                seen += len(rows)
                page = KeyPage(rows[-1][0], last) if len(rows) == self.keys_at_once else None

    def other_tasks(self, lane: LaneKey, rows: Iterable[Row]) -> list[str]:
        """Return the limits of tasks that have made keys of jobs of another type, as far as they are not known yet."""
        prefix = key_of(lane[1], "")
        others = {
            row[0].partition(":")[0] for row in rows if ":" in row[0] and not row[0].startswith((prefix, BREAKER))
        }
        names = sorted(map(task_limit, others))
        return [name for name in names if name not in self.limits and name not in self.task_limits]

    def note_tasks(self, names: Iterable[str], limits: Iterable[Limit]) -> None:
        """Note limits of tasks that have made keys of jobs of another type: they hold for these keys only."""
        self.task_limits.update(dict.fromkeys(names))
        self.task_limits.update((limit.name, limit) for limit in limits)

    def note_keys(self, lane: LaneKey, rows: Sequence[Row]) -> list[str]:
        """Note what limits some keys of a lane, and return the names of their limits.

        A row has a key, the columns of the limit that is stored for it, if any, and the times of its rates, if any.
        """
        keys = [row[0] for row in rows]
        tasks = {name: limit for name, limit in self.task_limits.items() if limit is not None}
        stored = {**tasks, **self.limits, **{row[1]: limit_of(row[1:-2]) for row in rows if row[1] is not None}}
        self.arrivals.update((key_limit(row[0]), (row[-2], row[-1])) for row in rows if row[-1] is not None)
        for key in keys:
            name = key_limit(key)
            if name not in self.limits:
                self.limits[name] = self._limit_of(key, lane[1], stored)
        return list(map(key_limit, keys))

    def open_keys(self, lane: LaneKey, keys: Sequence[str]) -> list[tuple[str, int]]:
        """Return those keys of a lane of which jobs may start, and how many. What limits them must have been noted."""
        most = self.allows(*lane, None)
        allowances = [(key, min(most, self._starts_of(lane, key))) for key in keys] if most else []
        return [one for one in allowances if one[1] > 0]

    def _starts_of(self, lane: LaneKey, key: str) -> int:
        """Return how many jobs of a key may start, whatever the limits of its lane allow."""
        name = key_limit(key)
        if self.limits[name].breaker is not None:
            return self.allows(*lane, key)
        one = self._allowance(name)
        if not one.starts:
            self._note_held(one)
        return one.starts

    def _limit_of(self, key: str, type_: str, stored: Mapping[str, Limit]) -> Limit:
        """Return what limits a key. Keys of one task without limits of their own share one, named after the first."""
        if key_limit(key) in stored:
            return limit_of_key(key, type_, stored)
        task = task_of_key(key, type_) if ":" in key else ""
        if task not in self.shared:
            self.shared[task] = limit_of_key(key, type_, stored)
        return self.shared[task]

    def split_strict(self, keys: Iterable[tuple[str, int]]) -> tuple[list[str], list[tuple[str, int]]]:
        """Split keys into those whose jobs start in the order of submission, and the others."""
        strict: list[str] = []
        others: list[tuple[str, int]] = []
        for key, most in keys:
            if self.limits[key_limit(key)].order == STRICT:
                strict.append(key)
                # Its first job may be none that runs here, so that no permit is freed when it ends.
                self.is_held = True
            else:
                others.append((key, most))
        return strict, others

    def add_key_jobs(self, lane: LaneKey, rows: Iterable[Row]) -> None:
        """Add jobs of keys that may start: turn, id, priority, key."""
        for turn, job_id, priority, key in rows:
            self.candidates.append(Candidate(turn, job_id, priority, *lane, key))

    def without_missed(self, rows: Iterable[Row], missed: Collection[str]) -> list[Row]:
        """Return those rows of keys whose breakers no other claim holds just now; `missed` names the others."""
        if missed:
            self.missed = {*self.missed, *missed}
        return [row for row in rows if key_limit(row[0]) not in missed]

    @property
    def keys_at_once(self) -> int:
        """How many keys of a lane are read at once."""
        return min(max(FEWEST_KEYS, self.claim.limit), MOST_KEYS_AT_ONCE)

    @property
    def most_keys(self) -> int:
        """How many keys with a permit to give a claim reads in one lane."""
        return max(FEWEST_KEYS, self.claim.limit)

    def _allowance(self, name: str) -> Allowance:
        if name not in self.allowances:
            # Keys that share a limit and of which nothing runs share what is left, too.
            limit, running, arrivals = self.limits[name], self.running.get(name, 0), self.arrivals.get(name, (0, 0))
            alike = (limit.name, running, arrivals)
            if alike not in self.alike:
                self.alike[alike] = allowance_of(limit, running, arrivals, self.now)
            self.allowances[name] = self.alike[alike]
        return self.allowances[name]

    def _note_held(self, allowance: Allowance) -> None:
        self.is_held = True
        if allowance.opens_at is not None:
            self.opens_at = min(self.opens_at or allowance.opens_at, allowance.opens_at)

    def choose(self) -> list[Candidate]:
        """Choose the jobs to start, and note what the next claims need to know."""
        memory = self.memory
        chosen = choose(self.candidates, self.limits, self.allowances, self.claim.limit, memory.turns, self.now)
        served = {(one.queue, one.type): one.key for one in chosen if one.key is not None}
        memory.note_served({**self.seen_up_to, **served})
        memory.note_leased(one.id for one in chosen)
        if not chosen:
            self._note_pause()
        return chosen

    def look_again_soon(self) -> None:
        """Have the claim repeated: the jobs that it chose may not start after all."""
        self.memory.note_pause(self.claim, NEXT_TRY)

    def _note_pause(self) -> None:
        """Have the claim repeated: soon if another one has locked a limit, or when a limit opens."""
        if self.missed:
            self.memory.note_pause(self.claim, NEXT_TRY)
            return
        span = LOOK_AGAIN if self.opens_at is None else timedelta(microseconds=self.opens_at - self.now)
        self.memory.note_held(self.claim, span.total_seconds())
        if self.is_held or self.candidates:
            self.memory.note_pause(self.claim, span)

    def new_arrivals(self, chosen: Iterable[Candidate]) -> list[tuple[str, int, int]]:
        """Return the theoretical arrival times of the rates from which the chosen jobs have taken.

        Those that a clock that was set back has left far ahead are returned too: otherwise nothing would start until
        the clock has caught up.
        """
        starts = {name: 0 for name in self.arrivals if self._is_too_far_ahead(name)}
        if all(limit.rate_limit is None for limit in self.limits.values()):
            chosen = ()
        for one in chosen:
            for name in limits_passed(one.queue, one.type, one.key, self.limits):
                if self.limits[name].rates and name not in self.counted:
                    starts[name] = starts.get(name, 0) + 1
        rows = []
        for name, count in sorted(starts.items()):
            arrivals = list(self.arrivals.get(name, (0, 0)))
            for place, rate in enumerate(self.limits[name].rates):
                arrivals[place] = rate.after(arrivals[place], count, self.now)
            rows.append((name, arrivals[0], arrivals[1]))
        return rows

    def _is_too_far_ahead(self, name: str) -> bool:
        rates = self.limits[name].rates if name in self.limits else ()
        return any(rate.is_too_far_ahead(one, self.now) for rate, one in zip(rates, self.arrivals[name], strict=False))


def first_jobs(row: Row) -> list[Row]:
    """Return the first jobs of a key, from a row of keys_with_work: turn, id, priority and key."""
    jobs = (row[KEY_COLUMNS : KEY_COLUMNS + 3], row[KEY_COLUMNS + 3 :])
    return [(*job, row[0]) for job in jobs if job[1] is not None]


def running_by_name(counts: Iterable[Row]) -> dict[str, int]:
    """Count running jobs by the names of the limits that they pass, from rows of queue, type, key and count."""
    running: dict[str, int] = {}
    for queue, type_, key, count in counts:
        for name in names_of(queue, type_, key or None):
            running[name] = running.get(name, 0) + count
    return running


def exceeded(stored: Iterable[Limit], counts: Sequence[Row]) -> list[str]:
    """Return a sentence for each limit of which more jobs run than it allows."""
    running = running_by_name(counts)
    limits = {limit.name: limit for limit in stored}
    for _, type_, key, _ in counts:
        if key:
            effective = limit_of_key(key, type_, limits)
            limits[effective.name] = effective
    return [
        f"limit {name}: {running[name]} jobs run and max_running is {limit.max_running}"
        for name, limit in sorted(limits.items())
        if limit.max_running is not None and running.get(name, 0) > limit.max_running
    ]


def breaker_names(limits: Iterable[Limit]) -> list[str]:
    """Return the names of the limits of open breakers for which jobs of tasks wait, in the order they are locked."""
    return sorted({breaker_limit(one.breaker) for one in limits if one.breaker is not None})


def waits_for_missed(limits: Mapping[str, Limit]) -> set[str]:
    """Return the limits of tasks whose breaker another claim holds just now."""
    return {
        limit.name
        for limit in limits.values()
        if limit.breaker is not None and breaker_limit(limit.breaker) not in limits
    }


def is_limited(lane: LaneKey, names: Collection[str]) -> bool:
    """Whether a queue or a type has a limit."""
    return bool(names) and (queue_limit(lane[0]) in names or task_limit(lane[1]) in names)


def limit_names(lanes: Iterable[LaneKey]) -> list[str]:
    """Return the names of the limits of queues and types of some lanes, in the order in which they are locked."""
    return sorted({name for queue, type_ in lanes for name in (queue_limit(queue), task_limit(type_))})
