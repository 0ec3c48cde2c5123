"""Hypothesis strategies of the state machine; few names and times, so that operations conflict.

Two queues, two types, two keys, a handful of moments: a thousand different jobs would never collide, and collisions
are what we are after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from hypothesis import strategies as st

from builders import DAY, HOUR, MICROSECOND, MINUTE, SECOND, error, failure
from rota.core.lease import WorkerId
from rota.core.outcome import Lost, Released, Snoozed, Stopped, Succeeded, Unknown
from rota.core.retry import DEFAULT_BACKOFF, Backoff, Growth
from rota.core.schedule import Blackout, CatchUp, Overlap
from rota.core.step import StepKind
from rota.core.submission import Delivery, Need, Template
from rota.core.waiting import Wait
from rota.ports.store import Retention

QUEUES: Final = ("left", "right")
TYPES: Final = ("mail", "report")
WORKERS: Final = (WorkerId("ada", "boot-1"), WorkerId("ben", "boot-2"))
NAMES: Final = ("hourly", "nightly")
QUICK: Final = Backoff(growth=Growth.CONSTANT, base=5 * SECOND, jitter=0)
NOTHING: Final = timedelta(0)


class Pick(NamedTuple):
    """Which lease to use: one that holds, or any that ever did."""

    number: int
    is_stale: bool = False


numbers: Final = st.integers(0, 7)
one_pick: Final = st.builds(Pick, numbers, st.sampled_from([False, False, True]))
picks: Final = st.lists(one_pick, min_size=1, max_size=3)

lanes: Final = st.tuples(st.sampled_from(QUEUES), st.sampled_from(TYPES))
spans: Final = st.sampled_from([NOTHING, MICROSECOND, 5 * SECOND, MINUTE, HOUR])
#: Often to the moment at which something is due next (None), else by what leases, delays and rules last; now and then
#: back, as clocks do.
jumps: Final = st.none() | st.sampled_from([NOTHING, MICROSECOND, 5 * SECOND, 15 * SECOND, MINUTE, HOUR, DAY, -SECOND])
offsets: Final = st.none() | st.sampled_from([-HOUR, -SECOND, NOTHING, 5 * SECOND, MINUTE])
expiries: Final = st.none() | st.none() | st.sampled_from([NOTHING, 5 * SECOND, MINUTE])
spans_ahead: Final = st.sampled_from([MICROSECOND, 5 * SECOND, MINUTE, DAY])
leases: Final = st.sampled_from([NOTHING, 5 * SECOND, 15 * SECOND, MINUTE])
queues_asked: Final = st.sampled_from([QUEUES, QUEUES, QUEUES[:1], ("right", "nowhere", "left")])
types_asked: Final = st.sampled_from([None, None, TYPES, TYPES[:1]])
limits: Final = st.sampled_from([1, 2, 100])
needs: Final = st.sampled_from(Need)
#: Shapes of workflows: for each node the nodes that it waits for (None is a job outside) and what it needs of them.
GRAPHS: Final[Mapping[str, Sequence[Sequence[tuple[int | None, Need]]]]] = {
    "chain": ((), ((0, Need.SUCCESS),), ((1, Need.SUCCESS),)),
    "fan-in": ((), (), ((0, Need.SUCCESS), (1, Need.SUCCESS)), ((2, Need.SUCCESS),)),
    "saga": ((), ((0, Need.SUCCESS),), ((1, Need.FAILURE),), ((0, Need.END), (1, Need.END))),
    "outside": (((None, Need.SUCCESS),), (), ((0, Need.SUCCESS), (1, Need.END))),
}
acts: Final = st.sampled_from(["cancel", "retry", "run_now", "dispatch", "recall"])
tags: Final = st.none() | st.sampled_from(["a", "b", "made", "cron"])

outcomes: Final = st.sampled_from(
    [
        Succeeded('"done"'),
        Succeeded('"done"'),
        Succeeded('"done"'),
        failure("broken pipe"),
        failure("broken pipe"),
        failure("bad input", permanent=True),
        Snoozed(5 * SECOND),
        Released(started=False),
        Released(started=True),
        Lost(),
        Lost(error("last words")),
        Stopped(),
        Unknown(error("in doubt")),
    ]
)

templates: Final = st.sampled_from(
    [
        None,
        Template("mail", queue="left", tags=("made",)),
        Template("report", queue="right", delay=MINUTE, expires=MINUTE, on_success=Template("mail", queue="right")),
    ]
)

job_fields: Final = st.fixed_dictionaries(
    {
        "priority": st.sampled_from([5, 1, 6, 10]),
        "max_attempts": st.sampled_from([3, 1, 2]),
        "delivery": st.sampled_from([Delivery.AT_LEAST_ONCE, Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE]),
        "backoff": st.sampled_from([DEFAULT_BACKOFF, QUICK]),
        "tags": st.sampled_from([(), ("a",), ("a", "b")]),
        "on_success": templates,
        "on_failure": templates,
    }
)
keys: Final = st.none() | st.tuples(
    st.sampled_from(["k1", "k2"]), st.sampled_from([b"one", b"two"]), st.sampled_from([NOTHING, MINUTE, DAY])
)

schedule_fields: Final = st.fixed_dictionaries(
    {
        "rule": st.sampled_from(["@every 1m", "@every 1h"]),
        "catch_up": st.sampled_from(CatchUp),
        "overlap": st.sampled_from(Overlap),
        "catch_up_limit": st.sampled_from([3, 1]),
        "jitter": st.sampled_from([NOTHING, SECOND]),
        "blackouts": st.sampled_from([(), (Blackout(lasting=10 * MINUTE, rule="@hourly"),)]),
        "template": st.sampled_from(
            [Template("mail", queue="right"), Template("report", queue="left", tags=("cron",))]
        ),
    }
)

#: Mostly what is past its time at once; never more history than a day, or nothing would ever be old.
_kept: Final = st.sampled_from([NOTHING, NOTHING, MINUTE, None])
retentions: Final = st.builds(
    Retention, completed=_kept, cancelled=_kept, dead=_kept, history=st.sampled_from([None, MINUTE, DAY])
)


EVENTS: Final = ("paid", "shipped")
#: Waits: some with a key that another kind of step has.
waits: Final = st.one_of(
    st.builds(Wait, st.sampled_from(["nap", "charge"]), st.just(StepKind.SLEEP), st.sampled_from([MINUTE, HOUR])),
    st.builds(
        Wait,
        st.sampled_from(["first", "second"]),
        st.just(StepKind.EVENT),
        st.none() | st.sampled_from([MINUTE, HOUR]),
        st.sampled_from(EVENTS),
    ),
    st.builds(Wait, st.sampled_from(["call", "first"]), st.just(StepKind.CALL)),
)
