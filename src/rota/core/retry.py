"""Retry policy of jobs: backoff rule and attempts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from math import isfinite, log2
from typing import Final

from rota.core.duration import LONGEST
from rota.core.errors import InvalidRequest
from rota.core.time import MICROSECOND, span_to_micros

DEFAULT_MAX_ATTEMPTS: Final = 3
#: After this many crashes a job is dead as poison: it probably kills its workers.
MAX_CRASHES: Final = 3
_LARGEST_EXPONENT: Final = 60
_LONGEST_LIST: Final = 100
#: The windows in which the retries of a budget are counted.
SHORTEST_BUDGET: Final = timedelta(seconds=1)
LONGEST_BUDGET: Final = timedelta(hours=1)


class Growth(StrEnum):
    """How the delay grows from one attempt to the next."""

    EXPONENTIAL = "exponential"
    LINEAR = "linear"
    CONSTANT = "constant"
    LISTED = "listed"


@dataclass(frozen=True, slots=True)
class Backoff:
    """The rule for the delay after a failed attempt.

    `jitter` is the share by which a delay varies either way, so that jobs that failed together do not return together.
    `delays` belongs to `Growth.LISTED`; its last entry repeats.
    """

    growth: Growth = Growth.EXPONENTIAL
    base: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    cap: timedelta = timedelta(seconds=60)
    jitter: float = 0.1
    delays: tuple[timedelta, ...] = ()
    #: No further attempt after this time since submission, even if attempts are left.
    max_elapsed: timedelta | None = None
    #: Retries of the job's type are at most this share of its starts within the window; more of them start later.
    budget: float | None = None
    budget_window: timedelta = timedelta(minutes=1)

    def __post_init__(self) -> None:
        if not 0 <= self.jitter <= 1:
            raise InvalidRequest(f"retry.jitter: {self.jitter!r} must lie between 0 and 1", field="retry.jitter")
        if not (isfinite(self.factor) and self.factor >= 1):
            raise InvalidRequest(f"retry.factor: {self.factor!r} must be 1 or more", field="retry.factor")
        if self.budget is not None and not 0 < self.budget <= 1:
            remedy = "must lie above 0 and be at most 1, as in 0.1 for a tenth of the starts"
            raise InvalidRequest(f"retry.budget: {self.budget!r} {remedy}", field="retry.budget")
        if not SHORTEST_BUDGET <= self.budget_window <= LONGEST_BUDGET:
            message = f"retry.budget_window: {self.budget_window} must lie between 1 s and 1 h"
            raise InvalidRequest(message, field="retry.budget_window")
        spans = (self.base, self.cap, self.max_elapsed or timedelta(0), *self.delays)
        if min(spans) < timedelta(0) or max(spans) > LONGEST:
            raise InvalidRequest(f"retry: a delay must lie between 0 and {LONGEST.days} days", field="retry")
        if (self.growth is Growth.LISTED) != bool(self.delays) or len(self.delays) > _LONGEST_LIST:
            raise InvalidRequest(
                f"retry.delays: a list of 1 to {_LONGEST_LIST} delays belongs to growth 'listed' and to no other",
                field="retry.delays",
            )

    def delay(self, attempt: int, rng: float = 0.5) -> timedelta:
        """Return the delay after the `attempt`-th attempt; `rng` in [0, 1) places it within the jitter.

        0.5 is the delay without jitter. Jitter is added after the cap; otherwise half of all jobs at the cap would
        return at the same moment.
        """
        plain = self._plain(max(attempt, 1))
        return plain + plain * self.jitter * (2 * rng - 1)

    def _plain(self, attempt: int) -> timedelta:
        match self.growth:
            case Growth.LISTED:
                return self.delays[min(attempt, len(self.delays)) - 1]
            case Growth.CONSTANT:
                # A constant delay needs no cap.
                return self.base
            case Growth.LINEAR:
                return timedelta(microseconds=min(span_to_micros(self.base) * attempt, span_to_micros(self.cap)))
            case Growth.EXPONENTIAL:
                # Beyond 2^60 every cap is exceeded, and computing further would overflow.
                if (attempt - 1) * log2(self.factor) > _LARGEST_EXPONENT:
                    return self.cap if self.base else timedelta(0)
                micros = span_to_micros(self.base) * self.factor ** (attempt - 1)
                return self.cap if micros >= span_to_micros(self.cap) else timedelta(microseconds=micros)

    def to_text(self) -> str:
        """Write the rule as stores keep it: only fields that differ from the default."""
        return json.dumps({name: self._plain_value(name) for name in self.__slots__ if self._differs(name)})

    @staticmethod
    @lru_cache(maxsize=1024)
    def from_text(text: str) -> Backoff:
        """Read a rule back. Cached, since a million jobs share a handful of rules."""
        fields = json.loads(text)
        for name in ("base", "cap", "max_elapsed", "budget_window"):
            if fields.get(name) is not None:
                fields[name] = fields[name] * MICROSECOND
        if "delays" in fields:
            fields["delays"] = tuple(delay * MICROSECOND for delay in fields["delays"])
        if "growth" in fields:
            fields["growth"] = Growth(fields["growth"])
        # Fields that a newer release has added are ignored.
        return Backoff(**{name: value for name, value in fields.items() if name in Backoff.__slots__})

    def _differs(self, name: str) -> bool:
        return bool(getattr(self, name) != getattr(DEFAULT_BACKOFF, name))

    def _plain_value(self, name: str) -> object:
        match getattr(self, name):
            case timedelta() as span:
                return span_to_micros(span)
            case tuple() as spans:
                return [span_to_micros(span) for span in spans]
            case other:
                return other


DEFAULT_BACKOFF: Final = Backoff()


def shared(rule: Backoff) -> Backoff:
    """Return the default rule itself for a rule that equals it, so that it can be compared by identity."""
    return DEFAULT_BACKOFF if rule == DEFAULT_BACKOFF else rule
