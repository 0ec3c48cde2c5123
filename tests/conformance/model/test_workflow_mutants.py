"""Planted bugs of workflows: the tests of stores and engine find each of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from conformance.stores import test_workflows
from conformance.stores.adapters import BY_NAME, opened
from engine import environment, test_inputs, test_workflow_cancel
from rota.core.lifecycle import State
from rota.core.settlement import Reason, Settlement
from rota.engine import inputs
from rota.engine.jobs import Jobs
from rota.engine.leases import Leases
from rota.ports.clock import wall_clock
from rota.ports.store import Store
from rota.stores.sqlite import settle
from rota.stores.sqlite.driver import SqliteConnection
from rota.stores.sqlite.statements import statement

Planting = Callable[[], Any]
Found = Callable[[Path], Awaitable[None]]


@contextmanager
def statements_read(wrong: Callable[[str, str], str]) -> Iterator[None]:
    """Return other statements to the module of dependencies."""

    def read(name: str) -> str:
        return wrong(name, statement(name))

    with patch("rota.stores.sqlite.dependencies.statement", read):
        yield


@contextmanager
def callback_runs_twice() -> Iterator[None]:
    """Each end of a parent makes the callback pending, whatever it is by then."""

    def wrong(name: str, text: str) -> str:
        if name != "unblock_jobs":
            return text
        return text.replace("blockers > wait.column2", "0").replace("AND rota_job.state = 'blocked'", "")

    with statements_read(wrong):
        yield


@contextmanager
def callback_never_runs() -> Iterator[None]:
    """The last end of a parent is not counted."""

    def wrong(name: str, text: str) -> str:
        last = "AND rota_job.state = 'blocked'"
        return text.replace(last, f"{last} AND blockers > wait.column2") if text else name

    with statements_read(wrong):
        yield


@contextmanager
def result_of_a_lost_attempt_is_kept() -> Iterator[None]:
    """Whatever is reported about a running job is settled, under any fence."""
    with patch.object(Leases, "_apply", _apply_under_any_fence):
        yield


async def _apply_under_any_fence(self: Any, _jobs: Any, reports: Any) -> set[Any]:  # noqa: ANN401 - as it is called
    stored = {job.id: job for job in await self._deps.store.get([one.job_id for one in reports])}
    running = [one for one in reports if stored[one.job_id].state is State.RUNNING]
    decided = [self._decided(stored[one.job_id], one, self._deps.clock()) for one in running]
    applied: set[Any] = await self.write_back([stored[one.job_id] for one in running], decided)
    return applied


@contextmanager
def result_of_an_unfinished_job_is_passed_on() -> Iterator[None]:
    """A job that an operator runs takes the results that there are."""
    with patch.object(inputs, "_has_succeeded", lambda _job: True):
        yield


@contextmanager
def cancel_leaves_a_node() -> Iterator[None]:
    """Only what can run at this moment is cancelled, and not what becomes due thereby."""
    right = Jobs.act_once_each

    async def act(self: Any, ids: Any, decision: Any, deed: Any) -> Any:  # noqa: ANN401 - as it is called
        found = await self.get(ids)
        return await right(self, [job.id for job in found if job.state is not State.BLOCKED], decision, deed)

    with patch.object(Jobs, "act_once_each", act):
        yield


@contextmanager
def skipped_node_runs() -> Iterator[None]:
    """A skip lets the next nodes go on, and leaves the node itself where it is."""
    right = settle.settle

    def apply(connection: SqliteConnection, settlements: Sequence[Settlement], now: int) -> list[bool]:
        applied = right(connection, settlements, now)
        for one in settlements:
            if one.reason is Reason.SKIPPED:
                connection.run("UPDATE rota_job SET state = 'pending', finished_at = NULL WHERE id = ?", (one.job_id,))
        return applied

    with patch.object(settle, "settle", apply):
        yield


def by_a_store(test: Callable[[Store], Awaitable[None]]) -> Found:
    async def find(folder: Path) -> None:
        async with opened(BY_NAME["sqlite-memory"], folder, wall_clock) as store:
            await test(store)

    return find


def by_an_engine(test: Callable[[environment.EngineEnvironment], Awaitable[None]]) -> Found:
    async def find(folder: Path) -> None:
        del folder
        async with environment.engine_in_memory() as env:
            await test(env)

    return find


async def by_cancelling(folder: Path) -> None:
    await test_workflow_cancel.test_nothing_of_a_cancelled_workflow_starts_while_it_is_being_cancelled(
        BY_NAME["sqlite-file"], folder
    )


MUTANTS: tuple[tuple[Planting, Found], ...] = (
    (callback_runs_twice, by_a_store(test_workflows.test_a_fan_in_of_many_runs_once_after_the_last)),
    (callback_never_runs, by_a_store(test_workflows.test_a_fan_in_of_many_runs_once_after_the_last)),
    (
        result_of_a_lost_attempt_is_kept,
        by_an_engine(test_inputs.test_a_result_of_a_lost_attempt_is_never_passed_on),
    ),
    (
        result_of_an_unfinished_job_is_passed_on,
        by_an_engine(test_inputs.test_a_job_that_is_run_by_hand_after_a_failure_never_takes_nothing_for_a_result),
    ),
    (cancel_leaves_a_node, by_cancelling),
    (skipped_node_runs, by_a_store(test_workflows.test_a_skipped_job_never_runs_and_counts_as_success)),
)


@pytest.mark.parametrize(("mutant", "find"), MUTANTS, ids=lambda one: getattr(one, "__name__", ""))
async def test_a_planted_bug_is_found(mutant: Planting, find: Found, tmp_path: Path) -> None:
    await find(tmp_path / "right")
    with mutant(), pytest.raises((AssertionError, pytest.fail.Exception)):
        await find(tmp_path / "wrong")
