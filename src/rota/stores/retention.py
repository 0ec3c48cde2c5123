"""Retention as the stores use it: how long jobs are kept, by final state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rota.core.lifecycle import State
from rota.core.time import span_to_micros
from rota.ports.store import Retention

#: How many of the oldest jobs of a state are looked at to see whether retention keeps up.
OLDEST_LOOKED_AT: Final = 200


def ends_before(retention: Retention, now: int) -> Iterator[tuple[State, int]]:
    """Give the final states that are not kept for ever, and the time before which their jobs may be deleted."""
    for state, kept in (
        (State.COMPLETED, retention.completed),
        (State.CANCELLED, retention.cancelled),
        (State.DEAD, retention.dead),
    ):
        if kept is not None:
            yield state, now - span_to_micros(kept)
