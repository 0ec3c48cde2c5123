"""Every health problem, from the situation that causes it; and none in a healthy deployment."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.core.breaker import CircuitBreaker
from rota.core.cluster import Member, Role
from rota.core.health import DISK_LOW_BYTES, HealthInputs
from rota.core.health_history import problems
from rota.core.history import Tally
from rota.core.ids import ScheduleId
from rota.core.lifecycle import State
from rota.core.limit import UNTIL_OPENED, Limit, LimitUsage
from rota.core.queue import Lane, LaneCount, Queue
from rota.core.schedule import Schedule
from rota.core.submission import Template
from rota.core.worker_orders import WorkerFacts

NOW = datetime(2026, 11, 18, tzinfo=UTC)
SCHEDULER = Member(role=Role.SCHEDULER, name="s1", boot="a")
WORKER = Member(role=Role.WORKER, name="w1", boot="b", queues=("default",), types=("mail",), slots=1)
DUE = LaneCount(Lane("default", "mail"), State.PENDING, 3)
FINE = HealthInputs(lanes=(DUE,), queues=(), members=(SCHEDULER, WORKER), leader="s1")
PAUSED = Queue("default", paused_at=NOW, pause_reason="drill")

CASES = [
    ("store_not_writable", replace(FINE, is_store_writable=False)),
    # The live processes are not known then.
    ("store_not_writable", replace(FINE, is_store_writable=False, members=(), leader=None)),
    ("coordinator_down", replace(FINE, is_coordinator_up=False, leader=None)),
    ("broker_down", replace(FINE, is_broker_up=False)),
    ("no_scheduler", replace(FINE, members=(WORKER,), leader=None)),
    ("no_leader", replace(FINE, leader=None)),
    ("queue_paused_with_backlog", replace(FINE, queues=(PAUSED,))),
    ("no_worker_for_queue", replace(FINE, members=(SCHEDULER,))),
    ("no_worker_for_queue", replace(FINE, members=(SCHEDULER, replace(WORKER, is_draining=True)))),
    ("no_worker_for_queue", replace(FINE, members=(SCHEDULER, replace(WORKER, queues=("other",))))),
    ("no_worker_for_type", replace(FINE, members=(SCHEDULER, replace(WORKER, types=("report",))))),
]


def tally(**counts: int) -> Tally:
    made = Tally()
    made.counts.update(counts)
    return made


def schedule(**values: Any) -> Schedule:  # noqa: ANN401 - of a schedule
    return Schedule(
        id=ScheduleId(1), name="nightly", rule="0 3 * * *", template=Template("mail", "{}"), created_at=NOW,
        updated_at=NOW, **values,
    )  # fmt: skip


CLOSED = Limit("task:mail", closed_until=UNTIL_OPENED, reason="drill")
TIMED = replace(FINE, now=NOW)
CASES += [
    ("insecure", replace(FINE, is_exposed=True)),
    ("clock_skew", replace(FINE, clock_offset=timedelta(seconds=-3))),
    ("breaker_open", replace(FINE, open_breakers=[CircuitBreaker("stripe", is_open=True)])),
    ("oldest_due_over", replace(TIMED, lanes=(replace(DUE, due_since=NOW - timedelta(minutes=6)),))),
    ("schedule_late", replace(TIMED, due_schedules=(schedule(next_fire_at=NOW - timedelta(minutes=2)),))),
    ("schedule_paused_long", replace(TIMED, paused_schedules=(schedule(paused_at=NOW - timedelta(days=8)),))),
    ("dead_growing", replace(FINE, recent=tally(dead=10))),
    ("lease_churn", replace(FINE, recent=tally(lost=5))),
    ("worker_stale", replace(FINE, silent_workers=(replace(WORKER, name="w2"),))),
    ("disk_low", replace(FINE, free_bytes=DISK_LOW_BYTES - 1)),
    ("migration_pending", replace(FINE, missing_migrations=("0002_more",))),
    ("schema_too_new", replace(FINE, unknown_migrations=("0003_later",))),
    ("retention_behind", replace(FINE, oldest_prunable=NOW)),
    ("limit_closed", replace(FINE, closed_limits=(LimitUsage(CLOSED, 0, (), 2),))),
    (
        "threads_left_behind",
        replace(FINE, members=(SCHEDULER, replace(WORKER, facts=WorkerFacts(threads_left_behind=2)))),
    ),
    ("version_skew", replace(FINE, members=(replace(SCHEDULER, version="1"), replace(WORKER, version="2")))),
]
WELL = [
    FINE,
    replace(FINE, clock_offset=timedelta(seconds=1)),
    replace(TIMED, lanes=(replace(DUE, due_since=NOW - timedelta(minutes=4)),)),
    replace(TIMED, due_schedules=(schedule(next_fire_at=NOW - timedelta(seconds=30)),)),
    replace(TIMED, paused_schedules=(schedule(paused_at=NOW - timedelta(days=6)),)),
    replace(FINE, recent=tally(dead=9, lost=4)),
    # Nine are left of those that died: the others were retried.
    replace(FINE, recent=tally(dead=30), dead=9),
    replace(FINE, free_bytes=DISK_LOW_BYTES),
    # A worker that was started again under its name is not missed.
    replace(FINE, silent_workers=(replace(WORKER, boot="before"),)),
    replace(FINE, lanes=()),
    # A queue may be paused while nothing is due there, and need not be served while nothing is due.
    replace(FINE, queues=(PAUSED,), lanes=(replace(DUE, state=State.SCHEDULED),)),
    replace(FINE, members=(SCHEDULER,), lanes=(replace(DUE, state=State.BLOCKED), replace(DUE, count=0))),
    # A worker that says nothing of types takes any.
    replace(FINE, members=(SCHEDULER, replace(WORKER, types=None))),
    # A process that has just started does not know the leader.
    replace(FINE, members=(WORKER,), leader=None, is_starting=True),
]


@pytest.mark.parametrize(("code", "situation"), CASES)
def test_a_fault_is_named_once_with_a_remedy(code: str, situation: HealthInputs) -> None:
    (problem,) = problems(situation)
    assert problem.code == code
    assert problem.fix


@pytest.mark.parametrize("situation", WELL)
def test_nothing_is_wrong_where_all_is_well(situation: HealthInputs) -> None:
    assert problems(situation) == []


def test_a_name_cannot_plant_words_in_a_command() -> None:
    lane = LaneCount(Lane("a;rm $x", "mail"), State.PENDING, 1)
    (problem,) = problems(replace(FINE, lanes=(lane,)))
    assert problem.fix == "start one: rota worker --queues 'a;rm $x'"


def test_a_message_names_the_queue_the_reason_and_the_count() -> None:
    (problem,) = problems(replace(FINE, queues=(PAUSED,)))
    assert problem.text == "queue 'default' is paused (drill) and 3 jobs are due"
    assert problem.fix == "rota queues resume default"
