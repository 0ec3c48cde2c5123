"""Test data builders of the core: one job, one schedule, and Hypothesis strategies over their fields.

Nothing here looks at a clock. `lived` applies a settlement to a job the way a store must, in the fewest words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final

from hypothesis import settings
from hypothesis import strategies as st

from rota.core.duration import LONGEST
from rota.core.ids import JobId, ScheduleId
from rota.core.job import Job
from rota.core.lifecycle import FINISHED, State
from rota.core.retry import Backoff, Growth
from rota.core.schedule import Schedule
from rota.core.settlement import JobError, Settlement
from rota.core.submission import DEFAULT_PRIORITY, DEFAULT_QUEUE, Delivery, Template
from rota.core.time import from_micros, span_to_micros, to_micros

NOW: Final = datetime(2026, 3, 1, 12, 0, 0, 123_457, tzinfo=UTC)
HEIR: Final = JobId(4_711)
ERROR: Final = JobError("OSError", "connection refused")

#: A slow machine is no failure of a property.
unhurried: Final = settings(deadline=None)


def job(state: State = State.RUNNING, **fields: Any) -> Job:  # noqa: ANN401 - any field of a job
    """Make a job in its first attempt, or in whatever state a test wants it."""
    ran = state in FINISHED or state in {State.RUNNING, State.RETRYING}
    plain = Job(
        id=JobId(77),
        type="mail",
        payload="{}",
        queue=DEFAULT_QUEUE,
        priority=DEFAULT_PRIORITY,
        state=state,
        run_at=NOW,
        created_at=NOW,
        updated_at=NOW,
        fence=int(ran),
        attempts=int(ran),
    )
    return replace(plain, **fields)


def lived(before: Job, settlement: Settlement) -> Job:
    """Apply a settlement that holds."""
    assert (before.id, before.state, before.fence) == (settlement.job_id, settlement.source, settlement.fence)
    return replace(
        before,
        state=settlement.target,
        run_at=settlement.run_at or before.run_at,
        attempts=0 if settlement.renew else before.attempts - settlement.refund,
        crashes=0 if settlement.renew else before.crashes + settlement.crash,
        cancel_requested_at=None if settlement.renew else before.cancel_requested_at,
        result=settlement.result,
        error=settlement.error,
        reason=settlement.reason,
    )


def claimed(before: Job) -> Job:
    """Start an attempt."""
    return replace(before, state=State.RUNNING, attempts=before.attempts + 1, fence=before.fence + 1)


def schedule(rule: str = "* * * * *", **fields: Any) -> Schedule:  # noqa: ANN401 - any field of a schedule
    plain = Schedule(
        id=ScheduleId(9), name="nightly", rule=rule, template=Template("report"), created_at=NOW, updated_at=NOW
    )
    return replace(plain, **fields)


def numbered(start: int = 1) -> Callable[[], JobId]:
    """Return ids by counting."""
    numbers = count(start)
    return lambda: JobId(next(numbers))


def utc(text: str) -> datetime:
    """Read ``2026-03-01 12:00`` as UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


spans = st.integers(0, span_to_micros(LONGEST)).map(lambda micros: timedelta(microseconds=micros))
#: Far from the ends of the calendar, so that a duration can be added.
moments = st.integers(to_micros(utc("1900-01-01")), to_micros(utc("2500-01-01"))).map(from_micros)
rng = st.floats(0, 1, exclude_max=True)
words = st.text(max_size=12)


@st.composite
def backoffs(draw: st.DrawFn) -> Backoff:
    growth = draw(st.sampled_from(Growth))
    return Backoff(
        growth=growth,
        base=draw(spans),
        factor=draw(st.floats(1, 1e300)),
        cap=draw(spans),
        jitter=draw(st.floats(0, 1)),
        delays=tuple(draw(st.lists(spans, min_size=1, max_size=5))) if growth is Growth.LISTED else (),
        max_elapsed=draw(st.none() | spans),
    )


def _templates(nested: st.SearchStrategy[Template | None]) -> st.SearchStrategy[Template]:
    return st.builds(
        Template,
        type=words,
        payload=words,
        queue=words,
        priority=st.integers(1, 10),
        max_attempts=st.integers(1, 2**31),
        backoff=backoffs(),
        delivery=st.sampled_from(Delivery),
        timeout=st.none() | spans,
        expires=st.none() | spans,
        delay=st.none() | spans,
        concurrency_key=st.none() | words,
        tags=st.lists(words, max_size=3).map(tuple),
        meta=st.dictionaries(words, words, max_size=3),
        on_success=nested,
        on_failure=nested,
    )


#: Templates with every field drawn, and chains within chains.
templates = st.recursive(_templates(st.none()), lambda shallower: _templates(st.none() | shallower), max_leaves=4)
