"""Limited claims, the part that all stores share: from running jobs and candidates to the jobs that may start.

A claim that meets limits locks them, counts what runs, reads candidates, chooses, leases the chosen jobs and writes the
rates, all in one transaction. Reading and writing is each store's own; what follows from it is decided here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from rota.core.lease import Claim
from rota.core.limit import (
    Allowance,
    Candidate,
    Limit,
    allowance_of,
    choose,
    limit_of_key,
    names_of,
    queue_limit,
    task_limit,
)
from rota.stores.lane_merge import LaneKey
from rota.stores.limit_memory import LimitMemory

#: How many keys with free permits one claim reads.
MOST_KEYS: Final = 200
#: How many keys a claim looks at in one lane to find those.
MOST_KEYS_SEEN: Final = 1000

#: Running jobs by queue, type and key.
RunningCounts: TypeAlias = Iterable[tuple[str, str, str | None, int]]


@dataclass(slots=True)
class LimitedClaim:
    """The limits of one claim: what each allows, and what the claim takes from it."""

    wanted: Claim
    now: int
    limits: dict[str, Limit]
    running: dict[str, int]
    arrivals: dict[str, tuple[int, int]]
    allowances: dict[str, Allowance] = field(default_factory=dict)
    candidates: list[Candidate] = field(default_factory=list)
    #: Whether a limit kept a job from this claim, and when it opens as far as is known.
    is_held: bool = False
    opens_at: int | None = None

    def allows(self, queue: str, type_: str, key: str | None) -> int:
        """Return how many jobs of a lane, or of a key in it, may start, at most as many as the claim wants."""
        starts = self.wanted.limit
        for name in names_of(queue, type_, key):
            if name in self.limits:
                one = self._allowance(name)
                starts = min(starts, one.starts)
                if not one.starts:
                    self._note_held(one)
        return starts

    def learn_key(self, key: str, type_: str, own: Limit | None) -> None:
        """Note the limit of a key, from the one that is stored for it if there is one."""
        stored = self.limits if own is None else {**self.limits, own.name: own}
        limit = limit_of_key(key, type_, stored)
        self.limits[limit.name] = limit

    def _allowance(self, name: str) -> Allowance:
        if name not in self.allowances:
            arrivals = self.arrivals.get(name, (0, 0))
            self.allowances[name] = allowance_of(self.limits[name], self.running.get(name, 0), arrivals, self.now)
        return self.allowances[name]

    def _note_held(self, allowance: Allowance) -> None:
        self.is_held = True
        if allowance.opens_at is not None:
            self.opens_at = min(self.opens_at or allowance.opens_at, allowance.opens_at)

    def choose(self, most: int, memory: LimitMemory) -> list[Candidate]:
        """Choose the jobs to start, and note what the next claims need to know."""
        chosen = choose(self.candidates, self.allowances, most, memory.last_keys)
        memory.note_served({one.queue: one.key for one in chosen if one.key is not None})
        if not chosen and (self.is_held or self.candidates):
            memory.note_pause(self.wanted, self.opens_at, self.now)
        return chosen

    def new_arrivals(self, chosen: Sequence[Candidate]) -> list[tuple[str, int, int]]:
        """Return the theoretical arrival times of the rates from which the chosen jobs have taken."""
        starts: dict[str, int] = {}
        for one in chosen:
            for name in names_of(one.queue, one.type, one.key):
                if name in self.limits and self.limits[name].rates:
                    starts[name] = starts.get(name, 0) + 1
        rows = []
        for name, count in starts.items():
            arrivals = list(self.arrivals.get(name, (0, 0)))
            for place, rate in enumerate(self.limits[name].rates):
                arrivals[place] = rate.after(arrivals[place], count, self.now)
            rows.append((name, arrivals[0], arrivals[1]))
        return rows


def running_by_name(counts: RunningCounts) -> dict[str, int]:
    """Count running jobs by the names of the limits that they pass."""
    running: dict[str, int] = {}
    for queue, type_, key, count in counts:
        for name in names_of(queue, type_, key):
            running[name] = running.get(name, 0) + count
    return running


def is_limited(lane: LaneKey, names: Collection[str]) -> bool:
    """Whether a queue or a type has a limit."""
    return bool(names) and (queue_limit(lane[0]) in names or task_limit(lane[1]) in names)


def limit_names(lanes: Iterable[LaneKey]) -> list[str]:
    """Return the names of the limits of queues and types of some lanes."""
    return sorted({name for queue, type_ in lanes for name in (queue_limit(queue), task_limit(type_))})
