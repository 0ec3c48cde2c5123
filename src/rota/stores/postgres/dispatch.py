"""Jobs that are handed over to an external broker, and taken back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from rota.core.ids import JobId
from rota.core.queue import Lane
from rota.core.time import span_to_micros
from rota.ports.store import Dispatched
from rota.stores.postgres.lanes import LaneStart
from rota.stores.postgres.session import Session, numbers
from rota.stores.rows import Row


async def dispatch(session: Session, lanes: Sequence[LaneStart], room: Sequence[int], now: int | None) -> list[Row]:
    """Make due jobs of some lanes queued; return rows of id, queue, type, priority, turn and time."""
    rows = await session.rows(
        "dispatch_jobs",
        now,
        [lane.queue for lane in lanes],
        [lane.type for lane in lanes],
        numbers(lane.turn for lane in lanes),
        numbers(room),
    )
    # An update returns its rows in no order.
    places = {(lane.queue, lane.type): place for place, lane in enumerate(lanes)}
    return sorted(rows, key=lambda row: (places[row[1], row[2]], row[4], row[0]))


def lowest_of(rows: Sequence[Row]) -> dict[tuple[str, str], int]:
    """Return the lowest turn of each queue and type among newly queued jobs."""
    return {(row[1], row[2]): row[4] for row in reversed(rows)}


def dispatched(rows: Sequence[Row]) -> list[Dispatched]:
    """Return queued jobs from their rows."""
    return [Dispatched(row[0], Lane(row[1], row[2]), row[3]) for row in rows]


async def recall(session: Session, ids: Sequence[JobId], now: int | None) -> list[JobId]:
    """Make queued jobs pending again, and return those that were queued."""
    recalled = set(await session.values("recall_jobs", now, sorted(set(ids))))
    return [job_id for job_id in dict.fromkeys(ids) if job_id in recalled]


async def queued(session: Session, limit: int, since: timedelta, after: int, now: int | None) -> list[Dispatched]:
    """Return jobs that have been queued for a while."""
    return dispatched(await session.rows("queued_jobs", now, after, span_to_micros(since), limit))
