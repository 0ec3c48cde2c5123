"""Low-water marks: where the next claim goes on in a lane that is being drained.

A job that is claimed leaves a dead index entry in `rota_ready` until the server purges it. That takes some tenths of a
second, and every claim from the beginning steps over all entries that died since: two thirds of its cost. So a claim
that got as many jobs as its limit remembers its last position in each lane, and the next equal claim starts there.

Jobs in front of a mark are not seen. So marks are short-lived, and hold only while no job is inserted into the lane:

- Work made by this process, and a notification of another process, drop the marks at once.
- Jobs that appear in front of a mark without notice (a commit that overtook another, a job given back by a claim that
  was rolled back, a job due a little later than its neighbours) are seen after `MIN_AGE_SECONDS`: then the next claim
  scans from the beginning. Where such a scan takes long, because there are many lanes or the machine is busy, marks
  hold for ten times as long as it took, but no longer than `MAX_AGE_SECONDS`: scans are then a tenth of the work.
- A claim that gets fewer jobs than its limit scans from the beginning at once. So no claim misses work.
- A claim that is rolled back leaves no mark: its jobs are in the lane again.

Marks are used only for claims at the server's time: a given `now` may be earlier than the one before.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rota.core.ids import JobId
from rota.core.lease import Claim

#: How long claims may go on from marks before one scans from the beginning: so long a more urgent job may wait. As many
#: times as long as the last scan took, within two bounds.
_TIMES_OF_SCAN: Final = 10
MIN_AGE_SECONDS: Final = 0.05
MAX_AGE_SECONDS: Final = 0.5

#: A queue and a type.
Lane = tuple[str, str]
#: A turn and an id, by which a lane is ordered.
Position = tuple[int, JobId]
#: In front of every job of a lane.
FIRST_POSITION: Final[Position] = (-(2**63), JobId(0))


@dataclass(slots=True)
class ClaimScan:
    """Where a claim starts and, if it got as many jobs as its limit, where it stopped, lane by lane."""

    #: What is claimed, how many notifications had come, and when the claim began (monotonic).
    filters: object
    notifications: int
    began_at: float
    start: Mapping[Lane, Position] = field(default_factory=dict)
    stop: Mapping[Lane, Position] = field(default_factory=dict)
    #: Of several lanes: the jobs known to come next behind the start, and behind the stop, in their order.
    known_at_start: Sequence[tuple[Position, Lane]] = ()
    known_at_stop: Sequence[tuple[Position, Lane]] = ()
    #: Whether it has scanned from the beginning.
    covers_all: bool = False

    def reset(self) -> None:
        """Forget the result: the transaction is run again."""
        self.stop, self.known_at_stop, self.covers_all = {}, (), False


class LowWaterMarks:
    """The marks of a store: the last committed claim, and until when the next equal one may go on from its end."""

    def __init__(self) -> None:
        self._last = ClaimScan(None, 0, 0.0)
        self._until = 0.0

    def begin(self, claims: Sequence[Claim], notifications: int, *, may_continue: bool) -> ClaimScan:
        """Return where claims that share a transaction start."""
        filters = {(request.queues, request.types) for request in claims if request.ids is None}
        scan = ClaimScan(filters, notifications, time.monotonic())
        last = self._last
        is_equal = len(filters) == 1 and (filters, notifications) == (last.filters, last.notifications)
        if may_continue and is_equal and scan.began_at < self._until:
            scan.start, scan.known_at_start = last.stop, last.known_at_stop
        return scan

    def commit(self, scan: ClaimScan) -> None:
        """Remember where committed claims stopped."""
        if scan.covers_all:
            took = time.monotonic() - scan.began_at
            self._until = scan.began_at + max(MIN_AGE_SECONDS, min(took * _TIMES_OF_SCAN, MAX_AGE_SECONDS))
        self._last = scan
