"""Handing jobs over to a broker, and taking them back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from rota.core.identity import JobId
from rota.core.instant import span_to_micros
from rota.core.lane import Lane
from rota.ports.store import Dispatched
from rota.stores.postgres.lanes import Lane as Place
from rota.stores.postgres.numbers import numbers
from rota.stores.postgres.session import Session
from rota.stores.rows import Row


async def dispatch(session: Session, lanes: Sequence[Place], room: Sequence[int], now: int | None) -> list[Row]:
    """Make due jobs of some lanes queued: id, queue, type, priority, turn and the time of each."""
    rows = await session.rows(
        "dispatch",
        now,
        [lane.queue for lane in lanes],
        [lane.type for lane in lanes],
        numbers(lane.floor for lane in lanes),
        numbers(room),
    )
    # An update gives its rows in no order.
    places = {(lane.queue, lane.type): place for place, lane in enumerate(lanes)}
    return sorted(rows, key=lambda row: (places[row[1], row[2]], row[4], row[0]))


def lowest_of(rows: Sequence[Row]) -> dict[tuple[str, str], int]:
    """Give the lowest turn among jobs that are queued now, of each queue and type."""
    return {(row[1], row[2]): row[4] for row in reversed(rows)}


def dispatched(rows: Sequence[Row]) -> list[Dispatched]:
    """Read jobs that are queued."""
    return [Dispatched(row[0], Lane(row[1], row[2]), row[3]) for row in rows]


async def recall(session: Session, ids: Sequence[JobId], now: int | None) -> list[JobId]:
    """Make queued jobs pending again, and give those that were."""
    recalled = set(await session.values("recall", now, sorted(set(ids))))
    return [job_id for job_id in dict.fromkeys(ids) if job_id in recalled]


async def queued(session: Session, limit: int, since: timedelta, after: int, now: int | None) -> list[Dispatched]:
    """Give jobs that have been queued for a while."""
    return dispatched(await session.rows("queued", now, after, span_to_micros(since), limit))
