"""One job query for each filter, and helpers for tests of their query plans. The jobs are numbered from 1."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from rota.core.ids import JobId, ScheduleId
from rota.core.lifecycle import State
from rota.ports.store import JobQuery, JobSlice
from rota.stores.listing import SliceReader

ROWS: Final = 100_000
MIDDLE: Final = JobId(ROWS // 2)
SINCE: Final = datetime(1970, 1, 1, tzinfo=UTC)
LONG_AGO: Final = datetime(1970, 1, 2, tzinfo=UTC)

LISTS: Final = {
    "all": JobQuery(),
    "all, further on": JobQuery(before=MIDDLE),
    **{state.value: JobQuery(states=(state,)) for state in State},
    "completed, further on": JobQuery(states=(State.COMPLETED,), before=MIDDLE, finished_before=LONG_AGO),
    "waiting": JobQuery(states=(State.PENDING, State.SCHEDULED, State.RETRYING), before=MIDDLE),
    "ended": JobQuery(states=(State.COMPLETED, State.DEAD, State.CANCELLED)),
    "state of both kinds": JobQuery(states=(State.PENDING, State.COMPLETED)),
    "type": JobQuery(types=("type-3",)),
    "types": JobQuery(types=("type-3", "type-4"), before=MIDDLE),
    "unknown type": JobQuery(types=("unknown",)),
    "queue": JobQuery(queues=("default",)),
    "queue and type": JobQuery(queues=("default",), types=("type-3",)),
    "tag": JobQuery(tag="t3"),
    "tag, further on": JobQuery(tag="t3", before=MIDDLE),
    "worker": JobQuery(worker="w"),
    "schedule": JobQuery(schedule_id=ScheduleId(3)),
    "schedule, further on": JobQuery(schedule_id=ScheduleId(3), before=MIDDLE),
    "fingerprint": JobQuery(fingerprint="f3"),
    "since": JobQuery(created_from=SINCE),
    "until": JobQuery(created_until=LONG_AGO),
    "pending of a type": JobQuery(states=(State.PENDING,), types=("type-3",)),
    "running of a worker": JobQuery(states=(State.RUNNING,), worker="w"),
    "completed of a type since": JobQuery(states=(State.COMPLETED,), types=("type-3",), created_from=SINCE),
    "dead of a tag": JobQuery(states=(State.DEAD,), tag="t3"),
}


async def statements(
    asking: SliceReader, rows: Callable[[str, list[Any]], Awaitable[Sequence[Any]]]
) -> tuple[list[tuple[str, list[Any]]], JobSlice]:
    """Read a slice, and give the statements that it took with their values."""
    asked = []
    try:
        question = next(asking)
        while True:
            asked.append(question)
            question = asking.send(await rows(*question))
    except StopIteration as ended:
        return asked, ended.value
