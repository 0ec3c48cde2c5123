"""Floors: where claims go on in a line that is being worked off.

A job that leaves the line leaves a dead row behind, until the server has purged it. That takes some tenths of a second,
and every claim steps over all that died since: two thirds of what it takes to find its jobs. So a claim that got all it
asked for says where it stopped in each lane, and the next that asks for the same goes on there.

What stands below a floor is passed over. So floors are for a moment only, and for a line in which nobody puts anything:

- Whoever of this process makes work takes them away at once, and so does the word that another process has.
- What comes below them unheard of (a commit that overtook another, a job given back by a claim that failed, one whose
  time comes a little later than that of its neighbours) is found when they have stood for `LONGEST_SECONDS`, since then
  the next claim looks from the beginning.
- A claim that does not get all it asked for looks from the beginning at once. So nobody goes away with nothing.
- A claim that is undone leaves no floor: what it had taken stands in the line again.

They are for claims at the server's time: who says what time it is may say that it is earlier than it was.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rota.core.identity import JobId
from rota.core.lease import Claim

#: How long claims may go on from floors before one looks from the beginning: so long a more urgent job may wait.
LONGEST_SECONDS: Final = 0.05

#: A queue and a type.
Lane = tuple[str, str]
#: A turn and an id, by which a line is ordered.
Place = tuple[int, JobId]
#: Ahead of all that stands in a line.
BEGINNING: Final[Place] = (-(2**63), JobId(0))


@dataclass(slots=True)
class Trail:
    """Where a claim starts and, if it got all that it asked for, where it has stopped, lane by lane."""

    #: What it asks for, what had been heard when it was asked, and when that was.
    asked: object
    news: int
    begun: float
    start: Mapping[Lane, Place] = field(default_factory=dict)
    stop: Mapping[Lane, Place] = field(default_factory=dict)
    #: Of several lanes, what is known to stand next behind the start, and behind the stop, in its order.
    ahead: Sequence[tuple[Place, Lane]] = ()
    left: Sequence[tuple[Place, Lane]] = ()
    #: Whether it has looked from the beginning.
    is_whole: bool = False

    def forget(self) -> None:
        """Begin again."""
        self.stop, self.left, self.is_whole = {}, (), False


class Floors:
    """Knows where the claims of a store go on."""

    def __init__(self) -> None:
        #: The last claim that happened, and until when the next may go on where it has stopped.
        self._last = Trail(None, 0, 0.0)
        self._until = 0.0

    def trail(self, claims: Sequence[Claim], news: int, *, may_go_on: bool) -> Trail:
        """Say where claims that are made together start."""
        kinds = {(wanted.queues, wanted.types) for wanted in claims if wanted.ids is None}
        trail = Trail(kinds, news, time.monotonic())
        last = self._last
        if may_go_on and len(kinds) == 1 and (kinds, news) == (last.asked, last.news) and trail.begun < self._until:
            trail.start, trail.ahead = last.stop, last.left
        return trail

    def keep(self, trail: Trail) -> None:
        """Learn of claims that have happened."""
        if trail.is_whole:
            self._until = trail.begun + LONGEST_SECONDS
        self._last = trail
