"""Retention: how long finished jobs are kept, by final state, and the oldest that should have been deleted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from rota.core.lifecycle import State
from rota.core.time import from_micros, span_to_micros
from rota.ports.store import Retention
from rota.stores.base.session import StoreSession

#: How many of the oldest jobs of a state are looked at to see whether retention keeps up.
_OLDEST_LOOKED_AT: Final = 200


def ends_before(retention: Retention, now: int) -> Iterator[tuple[State, int]]:
    """Return the final states that are not kept for ever, and the time before which their jobs may be deleted."""
    for state, kept in (
        (State.COMPLETED, retention.completed),
        (State.CANCELLED, retention.cancelled),
        (State.DEAD, retention.dead),
    ):
        if kept is not None:
            yield state, now - span_to_micros(kept)


async def oldest_prunable(session: StoreSession, retention: Retention, now: int) -> datetime | None:
    """Return when the oldest job ended that is past its retention and that nothing refers to."""
    ends: list[int] = []
    for state, before in ends_before(retention, now):
        rows = await session.select(
            "oldest_prunable", state=state.value, before=before, limit=_OLDEST_LOOKED_AT, now=now
        )
        ends += [end for (end,) in rows if end is not None]
    return from_micros(min(ends)) if ends else None
