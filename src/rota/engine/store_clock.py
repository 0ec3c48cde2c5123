"""Watches the store's clock for steps, by this process's steady (monotonic) clock.

Leases and fire times depend on the store's clock. When that clock is set an hour ahead, every lease has lapsed at once,
although its worker is alive and renews it in time. When it is set back, every schedule waits for a moment that has
moved an hour away. Both are seen here: between two readings the store's clock must move as far as the steady clock did.
A difference of more than `TOLERANCE_SECONDS` is a step.

After a step ahead of n seconds, a lease that was given before it lapses n seconds later. Whether it was
given before shows by the time of the claim, if it was never renewed. Else it was given before if it had lapsed right
after the step and lasts `LONGEST_RENEWED` at most, or if a lease of `DEFAULT_LEASE` with this end was.

What happened to the clock between two readings is not known: a step may have been several, with leases given in
between. So leases are held after a step of more than `DEFAULT_LEASE`; after a step between two readings that lie far
apart, as in an outage; and when a lease ended before all that were there at the last reading, since the clock must have
been set back and ahead again. Held are all leases that may have been given before the step was noticed. At the start
nothing is known of what the clock did before; then leases are held that have lapsed by then. Not noticed is a clock
that is set and set right again between two readings, if a lease given in between ends after the second one.

A lease is held until its worker must have renewed it: one that was never renewed for its whole length, others for
`UNKNOWN_HOLD_SECONDS` or, at the start, for `START_HOLD_SECONDS`. The hold at the start counts from the start of
the first scheduler on record that found the lease lapsed, so one that starts again and again takes it.

After a step back, and once after the start, the next fire times of schedules are corrected (see `Schedules.rearm`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from rota.core.job import Job
from rota.core.lease import DEFAULT_LEASE

#: How far the two clocks may part between two readings; a reading is never exact.
TOLERANCE_SECONDS: Final = 1.0
#: The default lease, three times the longest pause between two heartbeats.
UNKNOWN_HOLD_SECONDS: Final = DEFAULT_LEASE.total_seconds()
#: Longer than the pause between two readings where the store answers.
LONGEST_GAP_SECONDS: Final = 7.0
#: Longer than the longest pause between two heartbeats.
START_HOLD_SECONDS: Final = 7.0
#: The longest assumed duration of a lease that is renewed. Without a bound, a lease that lapsed while the clock was set
#: back would seem to be given before the step that corrects it.
LONGEST_RENEWED: Final = timedelta(minutes=5)
#: Of more steps than this, the first are forgotten.
MOST_STEPS: Final = 100
_NOTHING: Final = timedelta(0)
_SECOND: Final = timedelta(seconds=1)
_log = logging.getLogger("rota.clock")


def steady_clock() -> float:
    """Return seconds of a monotonic clock: the running loop's, if there is one."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class _ClockReading:
    moment: datetime
    #: When it was requested, and when the answer came, by the steady clock.
    asked_at: float
    answered_at: float

    def is_far_from(self, later: _ClockReading) -> bool:
        """Whether the clock may have been set more than once between this reading and a later one."""
        return later.answered_at - self.asked_at > LONGEST_GAP_SECONDS


@dataclass(frozen=True, slots=True)
class _ClockStep:
    """A step ahead of a known size."""

    #: The first moment at which the clock may have been after the step, and the last before it.
    first: datetime
    last: datetime
    size: timedelta

    def follows(self, job: Job, lease_until: datetime) -> bool:
        """Whether the job's lease was given before this step."""
        if is_first_lease(job, lease_until):
            return job.updated_at <= self.last
        return lease_until <= max(min(self.first, self.last + LONGEST_RENEWED), self.last + DEFAULT_LEASE)


@dataclass(frozen=True, slots=True)
class _ClockDoubt:
    """A moment before which the clock may have been set ahead by any amount."""

    moment: datetime
    noticed_at: float
    is_start: bool = False

    def hold_of(self, job: Job, lease_until: datetime) -> float:
        """Return for how many seconds a lease is held that may have been given before this moment."""
        is_first = is_first_lease(job, lease_until)
        length = (lease_until - job.updated_at).total_seconds() if is_first else 0.0
        if self.is_start:
            # Most starts follow no step: a lease that lapses after the start is not held.
            return max(length, START_HOLD_SECONDS) if lease_until <= self.moment else 0.0
        given_at = job.updated_at if is_first else lease_until - DEFAULT_LEASE
        return max(length, UNKNOWN_HOLD_SECONDS) if given_at <= self.moment else 0.0


def is_first_lease(job: Job, lease_until: datetime) -> bool:
    """Whether a lease is the one that the claim gave: it ends whole seconds after it, as no renewal's does."""
    return (lease_until - job.updated_at) % _SECOND == _NOTHING


class StoreClock:
    """The steps of the store's clock that this process has noticed."""

    def __init__(self, steady: Callable[[], float] = steady_clock) -> None:
        self.steady = steady
        #: Whether next fire times may be too late because the store's clock was set back.
        self.may_be_behind = True
        self._steps: deque[_ClockStep] = deque(maxlen=MOST_STEPS)
        self._doubt: _ClockDoubt | None = None
        #: When schedulers on record started, by the store's clock; None before they were read.
        self.earlier_starts: Sequence[datetime] | None = None
        #: The last moment before which no lease was known to end.
        self._earliest_end: datetime | None = None
        self._last: _ClockReading | None = None

    def has_lapsed(self, job: Job, now: datetime) -> bool:
        """Whether a lease that has lapsed by the store's clock has lapsed by the steady clock too."""
        lease_until = job.lease_until or now
        if self._doubt is not None and self._is_held(self._doubt, job, lease_until, now):
            return False
        later = sum((step.size for step in self._steps if step.follows(job, lease_until)), _NOTHING)
        return now - lease_until >= later

    def _is_held(self, doubt: _ClockDoubt, job: Job, lease_until: datetime, now: datetime) -> bool:
        hold = doubt.hold_of(job, lease_until)
        if self.steady() >= doubt.noticed_at + hold:
            return False
        starts = (self.earlier_starts or ()) if doubt.is_start else ()
        return not any(lease_until <= start <= now - timedelta(seconds=hold) for start in starts)

    def note_leases(self, earliest_end: datetime | None, now: datetime) -> None:
        """Note when the first of all leases ends, if there are any, and doubt the clock if that moment moved back."""
        before = self._earliest_end
        self._earliest_end = now if earliest_end is None else min(earliest_end, now)
        if before is not None and (before - self._earliest_end).total_seconds() > TOLERANCE_SECONDS:
            self._doubt = _ClockDoubt(now, self.steady())

    def note(self, moment: datetime, asked_at: float) -> None:
        """Compare a reading of the store's clock, requested at `asked_at` and answered now, with the one before."""
        before, now = self._last, self.steady()
        self._last = _ClockReading(moment, asked_at, now)
        if before is None:
            self._doubt = _ClockDoubt(moment, now, is_start=True)
            return
        moved = (moment - before.moment).total_seconds()
        # The moments of reading lie between question and answer, so the time between them has a longest and a shortest.
        ahead = moved - (now - before.asked_at)
        back = asked_at - before.answered_at - moved
        if ahead > TOLERANCE_SECONDS:
            self._note_ahead(before, self._last, ahead)
        elif back > TOLERANCE_SECONDS:
            self._note_back(before, self._last, back)

    def _note_ahead(self, before: _ClockReading, after: _ClockReading, seconds: float) -> None:
        size, is_far = timedelta(seconds=seconds), before.is_far_from(after)
        if is_far or size > DEFAULT_LEASE:
            self._doubt = _ClockDoubt(after.moment, after.answered_at)
        if not is_far:
            self._steps.append(_ClockStep(before.moment + size, after.moment - size, size))
        _log.warning("the store's clock was set %.1f s ahead; leases given before that lapse as much later", seconds)

    def _note_back(self, before: _ClockReading, after: _ClockReading, seconds: float) -> None:
        self.may_be_behind = True
        if self._earliest_end is not None:
            self._earliest_end = min(self._earliest_end, before.moment - timedelta(seconds=seconds))
        if self._steps or before.is_far_from(after):
            # How far the clock is ahead of where it was when a lease was given is no longer known.
            self._steps.clear()
            self._doubt = _ClockDoubt(after.moment, after.answered_at)
        _log.warning(
            "the store's clock was set back by %.1f s; the next fire times of schedules are corrected", seconds
        )
