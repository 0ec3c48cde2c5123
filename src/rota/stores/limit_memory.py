"""What a process remembers about limits between claims. All of it is a hint: each claim reads the limits anew.

Claims of jobs without limits check for limits in their own statement, so nothing here can let a limit be exceeded. It
only decides whether to search for jobs that limits concern.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from time import monotonic
from typing import Final

from rota.core.ids import JobId
from rota.core.lease import Claim
from rota.core.limit import Turns, queue_limit, task_limit
from rota.ports.rates import RateCounter
from rota.stores.lane_merge import LaneKey

#: When a waiting claim is repeated if a limit keeps jobs from it and it is not known when the limit opens. Workers of
#: this process are woken when a permit is free; this is for permits that other processes free.
LOOK_AGAIN: Final = timedelta(seconds=1)
#: When a claim is repeated if another one has locked the limits.
NEXT_TRY: Final = timedelta(milliseconds=5)
#: The shortest pause before a claim is repeated.
SHORTEST_PAUSE: Final = timedelta(milliseconds=1)
#: How often a process without known limits and keys checks for them, if there is no notification before.
LOOK_SECONDS: Final = 1.0
#: How long jobs without limits go first if limits keep all others from starting. A limit that another process opens is
#: noticed that much later by a worker that finds enough of the former.
HELD_SECONDS: Final = 0.5
#: How many workers, lanes and leased jobs are remembered.
MOST: Final = 50_000


class LimitMemory:
    """Whether limits are in use, which keys were served last, and when claims are repeated."""

    def __init__(self) -> None:
        self.turns = Turns()
        #: The key up to which the keys of a lane were served: the next claim reads those behind it first.
        self.last_keys: dict[LaneKey, str] = {}
        #: Counts fast rates in the place of the store.
        self.rate_counter: RateCounter | None = None
        self._is_ordinary_first = False
        self._is_in_use = True
        #: The limits of queues and tasks that the last claim has seen, by name, and whether jobs with a key waited.
        self.limited: Collection[str] = ()
        self.has_keys = False
        self._looked_at = float("-inf")
        #: Until when the limits of claims for some queues and types are taken to be full.
        self._held_until: dict[tuple[object, object], float] = {}
        self._pauses: dict[str, timedelta] = {}
        self._held: set[JobId] = set()

    def may_be_in_use(self) -> bool:
        """Whether jobs that limits concern may wait."""
        return self._is_in_use or monotonic() >= self._looked_at + LOOK_SECONDS

    def note_in_use(self) -> None:
        """Note that there may be jobs that limits concern, and that may start."""
        self._is_in_use, self._looked_at = True, monotonic()
        self._held_until.clear()

    @property
    def is_known_in_use(self) -> bool:
        """Whether the last claim has seen limits or jobs with a key."""
        return self._is_in_use and (bool(self.limited) or self.has_keys)

    def note_limits(self, limited: Collection[str], *, has_keys: bool) -> None:
        """Note the limits of queues and tasks that there are, and whether jobs with a key wait."""
        self.limited, self.has_keys = limited, has_keys
        self._is_in_use, self._looked_at = bool(limited) or has_keys, monotonic()

    def note_held(self, claim: Claim, opens_in: float = HELD_SECONDS) -> None:
        """Note that limits keep all jobs that they concern from starting, in the queues and types of a claim."""
        if len(self._held_until) >= MOST:
            self._held_until.clear()
        self._held_until[claim.queues, claim.types] = monotonic() + min(opens_in, HELD_SECONDS)

    def is_ordinary_first(self, claim: Claim | None = None) -> bool:
        """Whether the next claim takes jobs without limits first: every other one does, so neither kind starves.

        One whose queues or types all have limits does not: it finds hardly any job without. While limits keep all
        others from starting, all do: a full key must not cost jobs of others a second transaction.
        """
        self._is_ordinary_first = not self._is_ordinary_first
        if claim is None or not self._is_in_use:
            return self._is_ordinary_first
        if self.is_all_limited(claim):
            return False
        is_held = self._held_until.get((claim.queues, claim.types), 0.0) > monotonic()
        return is_held or self._is_ordinary_first

    def is_all_limited(self, claim: Claim) -> bool:
        """Whether all queues of a claim have limits, or all of its types: then all of its lanes have."""
        queues, types = map(queue_limit, claim.queues), claim.types
        if not self.limited or not claim.queues or types == ():
            return False
        return all(name in self.limited for name in queues) or (
            types is not None and all(task_limit(one) in self.limited for one in types)
        )

    def pause(self, claim: Claim) -> timedelta | None:
        """Return after which time a claim that found nothing should be repeated because of a limit, once."""
        return self._pauses.pop(claim.worker.boot, None) if self._pauses else None

    def note_pause(self, claim: Claim, span: timedelta) -> None:
        """Note when a claim should be repeated."""
        if len(self._pauses) >= MOST:
            self._pauses.clear()
        self._pauses[claim.worker.boot] = max(min(span, LOOK_AGAIN), SHORTEST_PAUSE)

    def share_pause(self, claim: Claim, others: Iterable[Claim], *, has_jobs: bool) -> None:
        """Repeat claims that got nothing as soon as the claim that was answered together with them. If that one got the
        jobs that a limit allowed, they are repeated at once: then it is known when the limit opens.
        """
        span = self._pauses.get(claim.worker.boot)
        if has_jobs:
            span = NEXT_TRY if self._is_in_use else None
        if span is not None:
            for other in others:
                self.note_pause(other, span)

    def note_leased(self, ids: Iterable[JobId]) -> None:
        """Note jobs that hold a permit of a limit."""
        if len(self._held) >= MOST:
            self._held.clear()
        self._held.update(ids)

    def note_settled(self, ids: Iterable[JobId]) -> bool:
        """Note jobs that have ended; return whether one of them held a permit, so that waiting workers are woken."""
        if not self._held:
            return False
        freed = self._held.intersection(ids)
        self._held -= freed
        if freed:
            self._held_until.clear()
        return bool(freed)

    def note_served(self, keys: Mapping[LaneKey, str]) -> None:
        """Note the key served last in each lane."""
        if len(self.last_keys) >= MOST:
            self.last_keys.clear()
        self.last_keys.update(keys)
