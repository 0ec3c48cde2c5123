"""Planted bugs of durable waiting: the conformance tests find each of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from conformance.stores import test_waiting
from conformance.stores.adapters import BY_NAME, opened
from rota.core.settlement import Settlement
from rota.core.waiting import Emitted
from rota.ports.clock import wall_clock
from rota.ports.store import Store
from rota.stores.sqlite import events, settle

Planting = Callable[[], Any]


@contextmanager
def event_during_suspension_is_missed() -> Iterator[None]:
    """A job whose event came between its wait and its suspension is blocked for ever: a lost wake-up."""
    with patch.object(settle, "still_waiting", lambda _connection, settlement: settlement):
        yield


@contextmanager
def emission_wakes_nobody() -> Iterator[None]:
    """The event is stored, and the jobs that wait for it stay blocked: a lost wake-up."""

    def wake(_connection: Any, _waits: Any, _now: int) -> dict[str, int]:  # noqa: ANN401 - as it is called
        return {}

    with patch.object(events, "_wake", wake):
        yield


@contextmanager
def event_before_the_wait_is_missed() -> Iterator[None]:
    """A wait does not look whether its event was emitted before."""
    right = events._outcome

    def outcome(connection: Any, found: Any, now: int) -> str | None:  # noqa: ANN401 - as it is called
        return right(connection, replace(found, subject="\0"), now)

    with patch.object(events, "_outcome", outcome):
        yield


@contextmanager
def last_emission_counts() -> Iterator[None]:
    """A later emission replaces the payload of the first."""
    right = events.emit

    def emit(connection: Any, emission: Any, now: int) -> Emitted:  # noqa: ANN401 - as it is called
        connection.run("UPDATE rota_event SET at = NULL WHERE name = ?", (emission.name,))
        return right(connection, emission, now)

    with patch.object(events, "emit", emit):
        yield


@contextmanager
def child_is_made_again() -> Iterator[None]:
    """Each call makes its child anew: its effects happen twice."""
    right = events.begin_wait

    def begin_wait(connection: Any, job_id: Any, fence: int, wait: Any, child: Any, now: int) -> Any:  # noqa: ANN401
        if child is not None:
            connection.run("DELETE FROM rota_step WHERE job_id = ? AND key = ?", (job_id, wait.key))
        return right(connection, job_id, fence, wait, child, now)

    with patch.object(events, "begin_wait", begin_wait):
        yield


@contextmanager
def child_is_not_waited_for() -> Iterator[None]:
    """A job is blocked by its call, and nothing will unblock it: a lost wake-up."""

    def wait_for_children(_connection: Any, _settlements: list[Settlement], _now: int) -> None:  # noqa: ANN401
        return

    with patch.object(settle, "wait_for_children", wait_for_children):
        yield


@contextmanager
def sleep_begins_anew() -> Iterator[None]:
    """The time of a sleep counts from the last call instead of the first."""
    right = events.begin_wait

    def begin_wait(connection: Any, job_id: Any, fence: int, wait: Any, child: Any, now: int) -> Any:  # noqa: ANN401
        if wait.span is not None:
            connection.run(
                "UPDATE rota_step SET until = ? WHERE job_id = ? AND key = ? AND ended_at IS NULL",
                (now + 1, job_id, wait.key),
            )
        return right(connection, job_id, fence, wait, child, now)

    with patch.object(events, "begin_wait", begin_wait):
        yield


MUTANTS: tuple[tuple[Planting, Callable[[Store], Awaitable[None]]], ...] = (
    (
        event_during_suspension_is_missed,
        test_waiting.test_an_event_between_the_wait_and_the_suspension_makes_the_job_pending,
    ),
    (emission_wakes_nobody, test_waiting.test_an_event_after_the_suspension_makes_the_job_pending_with_its_payload),
    (event_before_the_wait_is_missed, test_waiting.test_an_event_before_the_wait_ends_it_at_once),
    (last_emission_counts, test_waiting.test_of_two_emissions_the_first_counts),
    (child_is_made_again, test_waiting.test_a_call_makes_its_child_once),
    (child_is_not_waited_for, test_waiting.test_a_job_that_called_waits_for_the_end_of_its_child),
    (sleep_begins_anew, test_waiting.test_the_time_of_a_sleep_counts_from_its_first_call),
)


@pytest.mark.parametrize(("mutant", "test"), MUTANTS, ids=lambda one: one.__name__)
async def test_a_planted_bug_is_found(
    mutant: Planting, test: Callable[[Store], Awaitable[None]], tmp_path: Path
) -> None:
    """A search at random finds these too, but takes minutes: the bugs need three steps in one order."""
    async with opened(BY_NAME["sqlite-memory"], tmp_path, wall_clock) as store:
        with mutant(), pytest.raises(AssertionError):
            await test(store)
