"""Bugs in workflows, durable waits and events; in worlds that have them."""

# ruff: noqa: ANN401 - what is wrapped here has many signatures, and the wrong one has the right one's

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from rota.core.ids import JobId
from rota.core.lifecycle import Event, State
from rota.core.settlement import Reason, Settlement
from rota.core.submission import NewJob
from rota.core.waiting import Wait
from rota.engine import inputs
from rota.engine.jobs import Jobs
from rota.scheduler.upkeep import Waker
from rota.stores.sqlite import SqliteStore, dependencies, events, insert, settle, workflows
from rota.stores.sqlite.statements import statement
from simulation.mutants.planting import Planting, instead, mutant
from simulation.scenario import raw_connection
from simulation.variants import LOOPS
from simulation.worlds import FIRST_WITH_WORKFLOWS

FIRST = FIRST_WITH_WORKFLOWS


@contextmanager
def _other_statement(name: str, change: Callable[[str], str]) -> Iterator[None]:
    """Give the module of dependencies another statement of some name."""
    changed = change(statement(name))
    assert changed != statement(name)

    def read(wanted: str) -> str:
        return changed if wanted == name else statement(wanted)

    with patch.object(dependencies, "statement", read):
        yield


# Callbacks


@mutant("I10", first=FIRST + 18)
def callback_runs_for_each_parent() -> Planting:
    """Each end of a parent makes the callback pending, whatever it is by then."""

    def change(text: str) -> str:
        return text.replace("blockers > wait.column2", "0").replace("state = 'blocked'", "state <> 'running'")

    with _other_statement("unblock_jobs", change):
        yield


@mutant("I10", first=FIRST + 5)
def failure_callback_made_twice() -> Planting:
    """The job for a failure of a dependency is made with this failure, and once more."""

    def twice(right: Any, rows: Any, now: int) -> list[NewJob]:
        made: list[NewJob] = right(rows, now)
        return made + [replace(job, id=JobId(job.id + 1)) for job in made]

    with instead(dependencies, "failure_follow_ups", twice):
        yield


@mutant("I10", first=FIRST)
def callback_never_runs() -> Planting:
    """The last end of a parent is not counted."""

    def change(text: str) -> str:
        return text.replace("state = 'blocked'", "state = 'blocked' AND blockers > wait.column2")

    with _other_statement("unblock_jobs", change):
        yield


@mutant("I10", first=FIRST + 5)
def failure_callback_never_made() -> Planting:
    """A job whose dependency failed is cancelled, and the job for its failure is not made."""
    with patch.object(dependencies, "failure_follow_ups", lambda *_: []):
        yield


@mutant("I10", first=FIRST + 41)
def condition_of_an_edge_ignored() -> Planting:
    """A job that is there for a failure runs after any end."""

    def status(right: Any, need: str, *end: Any) -> Any:
        return right("end" if need == "failure" else need, *end)

    with instead(dependencies, "_status", status):
        yield


# Wake-ups


@mutant("I14", first=FIRST + 91)
def event_during_suspension_missed() -> Planting:
    """A job whose event comes between its wait and its suspension is blocked: a lost wake-up."""
    with patch.object(settle, "still_waiting", lambda _connection, settlement: settlement):
        yield


@mutant("I14", first=FIRST)
def emission_wakes_nobody() -> Planting:
    """The event is stored, and the jobs that wait for it stay suspended: a lost wake-up."""

    def wake(right: Any, connection: Any, waits: Any, now: int) -> Any:
        left = [one for one in waits if one[2] == "null"]
        return right(connection, left, now)

    with instead(events, "_wake", wake):
        yield


@mutant("I14", first=FIRST)
def event_before_the_wait_missed() -> Planting:
    """A wait does not look whether its event was emitted before."""

    def outcome(right: Any, connection: Any, found: Any, now: int) -> Any:
        return right(connection, replace(found, subject="\0"), now)

    with instead(events, "_outcome", outcome):
        yield


@mutant("I14", LOOPS, first=FIRST)
def waker_skips() -> Planting:
    """Waits whose time is over are not ended."""

    async def tick(right: Any, duty: Any) -> int:
        del right, duty
        return 0

    with instead(Waker, "tick", tick):
        yield


@mutant("I14", first=FIRST)
def sleep_counted_anew() -> Planting:
    """A sleep begins anew with each attempt that comes back to it."""

    async def begin_wait(right: Any, store: Any, job_id: Any, fence: int, wait: Wait, **options: Any) -> Any:
        if wait.child is None:
            remove = "DELETE FROM rota_step WHERE job_id = ? AND key = ? AND ended_at IS NULL"
            raw_connection().run(remove, (job_id, wait.key))
        return await right(store, job_id, fence, wait, **options)

    with instead(SqliteStore, "begin_wait", begin_wait):
        yield


@mutant("I14", first=FIRST)
def suspension_uses_an_attempt() -> Planting:
    """A job that waits often has no attempt left in the end."""

    async def apply(right: Any, store: SqliteStore, settlements: Sequence[Settlement], **options: Any) -> Any:
        changed = [replace(one, refund=False) if one.event is Event.SUSPEND else one for one in settlements]
        return await right(store, changed, **options)

    with instead(SqliteStore, "settle", apply):
        yield


@mutant("I14", first=FIRST + 3)
def child_called_again() -> Planting:
    """Each return to a call makes its child anew."""

    async def begin_wait(right: Any, store: Any, job_id: Any, fence: int, wait: Wait, **options: Any) -> Any:
        if wait.child is not None:
            raw_connection().run("DELETE FROM rota_step WHERE job_id = ? AND key = ?", (job_id, wait.key))
        return await right(store, job_id, fence, wait, **options)

    with instead(SqliteStore, "begin_wait", begin_wait):
        yield


# Inputs


@mutant("I15", first=FIRST + 36)
def result_of_a_stale_attempt_kept() -> Planting:
    """The result that is reported first stays, also if its attempt had lost the lease."""
    reported: dict[JobId, str] = {}

    async def apply(right: Any, store: SqliteStore, settlements: Sequence[Settlement], **options: Any) -> Any:
        for one in settlements:
            if one.event is Event.SUCCEED and one.result is not None:
                reported.setdefault(one.job_id, one.result)
        changed = [
            replace(one, result=reported[one.job_id]) if one.event is Event.SUCCEED and one.job_id in reported else one
            for one in settlements
        ]
        return await right(store, changed, **options)

    with instead(SqliteStore, "settle", apply):
        yield


@mutant("I15", first=FIRST + 44)
def results_in_the_order_of_their_ends() -> Planting:
    """A callback gets the results of its group in the order in which they came."""

    async def read(right: Any, reading: Any, *arguments: Any) -> list[str]:
        found: list[str] = await right(reading, *arguments)
        return sorted(found, reverse=True)

    with instead(inputs._Reading, "_read", read):
        yield


@mutant("I15", first=FIRST + 73)
def failed_job_pruned_before_its_follow_up() -> Planting:
    """What a job takes is deleted while the job waits. (A bug that Rota had.)"""

    with patch.object(insert, "reads_parent", lambda _job: False):
        yield


# Workflows as a whole


@mutant("I16", first=FIRST)
def cancel_leaves_a_node() -> Planting:
    """Of a workflow that is cancelled, only what can run at this moment is."""

    async def act(right: Any, jobs: Jobs, ids: Any, decision: Any, deed: Any) -> Any:
        found = await jobs.get(ids)
        return await right(jobs, [job.id for job in found if job.state is not State.BLOCKED], decision, deed)

    with instead(Jobs, "act_once_each", act):
        yield


@mutant("I16", first=FIRST)
def skipped_node_runs() -> Planting:
    """A skip lets the next nodes go on, and leaves the node itself where it was."""

    async def apply(right: Any, store: SqliteStore, settlements: Sequence[Settlement], **options: Any) -> Any:
        applied = await right(store, settlements, **options)
        for one in settlements:
            if one.reason is Reason.SKIPPED and one.job_id in applied:
                back = "UPDATE rota_job SET state = 'pending', finished_at = NULL WHERE id = ?"
                raw_connection().run(back, (one.job_id,))
        return applied

    with instead(SqliteStore, "settle", apply):
        yield


@mutant("I16", first=FIRST + 6)
def failure_is_not_fast() -> Planting:
    """A workflow that fails fast goes on with what does not depend on the failure."""
    with patch.object(dependencies, "_fail_fast", lambda *_: []):
        yield


@mutant("I16", first=FIRST + 107)
def replaced_node_runs_too() -> Planting:
    """A node that runs again runs twice: its former job still waits."""
    with patch.object(workflows, "cancel_replaced", lambda *_: None):
        yield
