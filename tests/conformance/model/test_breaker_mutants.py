"""Planted bugs of circuit breakers and retry budgets: the conformance tests find each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from builders import ManualClock
from conformance.stores import test_breakers as tests
from conformance.stores.adapters import BY_NAME, opened
from rota.core import breaker, limit
from rota.core.breaker import CircuitBreaker
from rota.core.decision import DecisionInputs, decide
from rota.core.outcome import Failed
from rota.core.time import to_micros
from rota.engine import breaker_calls, leases
from rota.ports.store import Store
from rota.stores import limited_lanes
from rota.stores.sqlite import breakers as breakers_module
from rota.stores.sqlite import limits as limits_module

#: Any: what they import is planted there too.
calls: Any = breaker_calls
breakers: Any = breakers_module
limits: Any = limits_module
kind: Any = CircuitBreaker
#: Gives what to patch: the owner of a name, the name, and the wrong value.
Bug = Callable[[], tuple[Any, str, Any]]


def the_least_number_of_calls_is_ignored() -> tuple[Any, str, Any]:
    right = calls.after_failure
    return (
        calls,
        "after_failure",
        lambda one, count, now: right(replace(one, rule=replace(one.rule, least=1)), count, now),
    )


def the_share_of_failures_is_ignored() -> tuple[Any, str, Any]:
    right = calls.after_failure
    return calls, "after_failure", lambda one, count, now: right(one, replace(count, failures=count.calls), now)


def the_window_is_ignored() -> tuple[Any, str, Any]:
    return breaker.CallCount, "first_slot", lambda _self, _now: 0


def every_failure_is_the_dependencys() -> tuple[Any, str, Any]:
    right = calls.CallCounter._collect

    def collect(self: Any, held: Any) -> Any:  # noqa: ANN401 - as it is called
        reports = [
            replace(one, outcome=replace(one.outcome, dependency=True)) if isinstance(one.outcome, Failed) else one
            for _, one in held
        ]
        return right(self, list(zip([job for job, _ in held], reports, strict=True)))

    return calls.CallCounter, "_collect", collect


def jobs_of_other_tasks_count() -> tuple[Any, str, Any]:
    return CircuitBreaker, "concerns", lambda _self, _type, _key: True


def jobs_do_not_pass_the_limit_of_their_tasks_breaker() -> tuple[Any, str, Any]:
    return (
        limited_lanes,
        "limits_passed",
        lambda queue, type_, key, known: [name for name in limit.names_of(queue, type_, key) if name in known],
    )


def each_task_has_probes_of_its_own() -> tuple[Any, str, Any]:
    """The claim takes the probes of the breaker for each lane, and not once."""
    return (
        limit,
        "limits_passed",
        lambda queue, type_, key, known: [name for name in limit.names_of(queue, type_, key) if name in known],
    )


def a_lost_probe_is_waited_for() -> tuple[Any, str, Any]:
    return breaker.BreakerRule, "probe_rate", property(lambda self: f"{self.probes}/1d")


def a_probe_that_succeeds_does_not_close_it() -> tuple[Any, str, Any]:
    right = calls.after_probe
    return calls, "after_probe", lambda one, now, **_: right(one, now, has_failed=True)


def a_probe_that_fails_does_not_keep_it_open() -> tuple[Any, str, Any]:
    right = calls.after_probe
    return (
        calls,
        "after_probe",
        lambda one, now, *, has_failed: None if has_failed else right(one, now, has_failed=False),
    )


def outcomes_from_before_the_change_count() -> tuple[Any, str, Any]:
    return CircuitBreaker, "counts", lambda _self, _started, _now: True


def the_attempt_is_not_given_back() -> tuple[Any, str, Any]:
    def wrong(job: Any, outcome: Any, means: DecisionInputs) -> Any:  # noqa: ANN401 - as it is called
        return decide(job, outcome, replace(means, is_breaker_open=False))

    return leases, "decide", wrong


def one_that_is_forced_closed_opens() -> tuple[Any, str, Any]:
    right = calls.after_failure
    return calls, "after_failure", lambda one, count, now: right(replace(one, is_forced=False), count, now)


def a_collected_success_is_not_written() -> tuple[Any, str, Any]:
    return calls.CallCounter, "_is_due", lambda self, _now: any(one.failed for one in self._calls.values())


def closing_leaves_the_tasks_waiting() -> tuple[Any, str, Any]:
    return breakers, "_mark_tasks", lambda *_: None


def calls_are_not_forgotten() -> tuple[Any, str, Any]:
    right = breakers.statement
    wrong = {"delete_calls": "DELETE FROM rota_call_count WHERE name = ? AND 0"}
    return breakers, "statement", lambda name: wrong.get(name) or right(name)


def deleting_a_limit_lets_jobs_pass() -> tuple[Any, str, Any]:
    right = limits.statement
    wrong = {
        "clear_limit": "UPDATE rota_limit SET set_by = set_by WHERE name = ? AND 0",
        "delete_limit": "DELETE FROM rota_limit WHERE name = ?",
    }
    return limits, "statement", lambda name: wrong.get(name) or right(name)


def a_clock_set_back_keeps_it_open() -> tuple[Any, str, Any]:
    def closed_micros(self: Any, now: int) -> int | None:  # noqa: ANN401 - as it is called
        until = None if self.closed_until is None else to_micros(self.closed_until)
        return until if until is not None and until > now else None

    return limit.Limit, "closed_micros", closed_micros


def an_operators_time_is_cut_short() -> tuple[Any, str, Any]:
    return CircuitBreaker, "limit", property(lambda self: replace(_right_limit(self), set_by=""))


_right_limit: Any = kind.limit.fget


def an_older_version_is_written() -> tuple[Any, str, Any]:
    right = breakers.statement
    wrong = {"update_breaker": right("update_breaker").replace("AND version = :version", "")}
    return breakers, "statement", lambda name: wrong.get(name) or right(name)


def the_budget_is_ignored() -> tuple[Any, str, Any]:
    return calls, "budget_delay", lambda *_: timedelta(0)


def the_starts_of_a_task_do_not_count() -> tuple[Any, str, Any]:
    right = calls.budget_delay
    return calls, "budget_delay", lambda rule, _starts, retries, rng: right(rule, 0, retries, rng)


def all_tasks_share_a_budget() -> tuple[Any, str, Any]:
    return calls, "_budget_name", lambda _job: "retries"


MUTANTS: tuple[tuple[Bug, Callable[..., Any]], ...] = (
    (
        the_least_number_of_calls_is_ignored,
        tests.test_it_opens_when_enough_calls_failed_and_gives_their_attempts_back,
    ),
    (the_share_of_failures_is_ignored, tests.test_it_stays_closed_while_the_share_of_failures_is_lower),
    (the_window_is_ignored, tests.test_failures_that_left_the_window_do_not_count),
    (every_failure_is_the_dependencys, tests.test_only_failures_of_the_dependency_count),
    (jobs_of_other_tasks_count, tests.test_a_breaker_counts_jobs_of_its_tasks_only),
    (
        jobs_do_not_pass_the_limit_of_their_tasks_breaker,
        tests.test_no_job_of_its_tasks_starts_while_it_is_open_and_others_do,
    ),
    (each_task_has_probes_of_its_own, tests.test_its_tasks_share_the_probes_of_a_period),
    (a_lost_probe_is_waited_for, tests.test_a_lost_probe_is_followed_by_another_one),
    (a_probe_that_succeeds_does_not_close_it, tests.test_a_probe_that_succeeds_closes_it),
    (
        a_probe_that_fails_does_not_keep_it_open,
        tests.test_a_probe_that_fails_keeps_it_open_and_gets_its_attempt_back,
    ),
    (
        outcomes_from_before_the_change_count,
        tests.test_attempts_that_began_before_it_opened_neither_close_it_nor_keep_it_open,
    ),
    (
        outcomes_from_before_the_change_count,
        tests.test_attempts_that_began_before_it_closed_do_not_open_it_again,
    ),
    (the_attempt_is_not_given_back, tests.test_it_opens_when_enough_calls_failed_and_gives_their_attempts_back),
    (one_that_is_forced_closed_opens, tests.test_one_that_is_forced_closed_does_not_open_until_it_is_reset),
    (
        a_collected_success_is_not_written,
        tests.test_the_success_of_a_probe_closes_it_although_successes_are_collected,
    ),
    (closing_leaves_the_tasks_waiting, tests.test_no_job_of_its_tasks_starts_while_it_is_open_and_others_do),
    (calls_are_not_forgotten, tests.test_a_change_of_state_forgets_the_calls_of_that_breaker_only),
    (
        deleting_a_limit_lets_jobs_pass,
        tests.test_deleting_the_limit_of_a_task_does_not_let_its_jobs_pass_the_breaker,
    ),
    (a_clock_set_back_keeps_it_open, tests.test_it_is_not_open_for_longer_because_the_clock_was_set_back),
    (an_operators_time_is_cut_short, tests.test_one_that_an_operator_opened_stays_open_for_longer_than_its_rule),
    (an_older_version_is_written, tests.test_a_breaker_is_stored_as_it_is_and_changed_by_its_version_only),
    (the_budget_is_ignored, tests.test_retries_beyond_the_budget_start_later),
    (the_starts_of_a_task_do_not_count, tests.test_a_budget_grows_with_the_starts_of_the_task),
    (all_tasks_share_a_budget, tests.test_tasks_have_budgets_of_their_own_and_jobs_without_one_are_not_delayed),
)


async def _run(test: Callable[..., Any], store: Store, clock: ManualClock) -> None:
    if "scene" in test.__annotations__:
        async with tests.scene_on(store, clock) as scene:
            await test(scene)
    else:
        await test(store)


@pytest.mark.parametrize(("bug", "test"), MUTANTS, ids=lambda one: one.__name__)
async def test_a_planted_bug_is_found(bug: Bug, test: Callable[..., Any], tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(BY_NAME["sqlite-memory"], tmp_path, clock) as store:
        with patch.object(*bug()), pytest.raises(AssertionError):
            await _run(test, store, clock)
