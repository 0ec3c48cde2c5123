"""Circuit breakers: every rule by itself, and properties over any sequence of calls."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import BASE, HOUR, MINUTE, SECOND, at
from rota.core.breaker import (
    BreakerRule,
    BreakerState,
    CallCount,
    CircuitBreaker,
    after_failure,
    after_probe,
    budget_delay,
    check_breaker_name,
    closed,
    forced_closed,
    forced_open,
    tasks_of,
)
from rota.core.errors import InvalidRequest
from rota.core.limit import Limit, allowance_of, check_limit_name, key_limit, limit_of_key, limits_passed
from rota.core.retry import Backoff
from rota.core.submission import Template, check, key_for
from rota.core.time import to_micros

RULE = BreakerRule(failures=0.5, window=10 * SECOND, least=4, open_for=30 * SECOND, probes=2)
CLOSED = CircuitBreaker("stripe", RULE)
OPEN = replace(CLOSED, is_open=True, since=BASE, open_until=at(30), opened=1)


@pytest.mark.parametrize(
    ("calls", "failures", "opens"),
    [(4, 2, True), (4, 4, True), (100, 50, True), (3, 3, False), (4, 1, False), (100, 49, False), (0, 0, False)],
)
def test_it_opens_by_the_share_of_at_least_so_many_calls(calls: int, failures: int, opens: bool) -> None:  # noqa: FBT001
    opened = after_failure(CLOSED, CallCount("breaker:stripe", RULE.window, calls, failures), BASE)
    assert (opened is not None) == opens
    if opened is not None:
        assert (opened.is_open, opened.since, opened.open_until, opened.opened) == (True, BASE, at(30), 1)


@pytest.mark.parametrize("kept", [OPEN, replace(CLOSED, is_forced=True)])
def test_one_that_is_open_or_forced_does_not_open(kept: CircuitBreaker) -> None:
    assert after_failure(kept, CallCount("breaker:stripe", RULE.window, 100, 100), BASE) is None


def test_states_follow_the_time() -> None:
    assert [OPEN.state(at(seconds)) for seconds in (0, 29.9, 30)] == [
        BreakerState.OPEN,
        BreakerState.OPEN,
        BreakerState.HALF_OPEN,
    ]
    assert CLOSED.state(BASE) is BreakerState.CLOSED


def test_a_probe_closes_it_or_keeps_it_open() -> None:
    assert after_probe(OPEN, at(31), has_failed=False) == closed(OPEN, at(31))
    kept = after_probe(OPEN, at(31), has_failed=True)
    assert kept is not None
    assert (kept.is_open, kept.open_until, kept.since) == (True, at(61), BASE)
    assert after_probe(CLOSED, BASE, has_failed=False) is None


def test_a_failed_probe_does_not_shorten_what_an_operator_said() -> None:
    forced = forced_open(CLOSED, BASE + HOUR, "", "ada", BASE)
    assert after_probe(forced, at(1), has_failed=True) is None
    assert after_probe(forced, BASE + HOUR, has_failed=True) == replace(
        forced, is_forced=False, set_by="", open_until=BASE + HOUR + 30 * SECOND, reason="a probe failed"
    )


def test_one_that_is_forced_closed_stays_so_until_it_is_reset() -> None:
    forced = forced_closed(OPEN, "", "ada", at(1))
    assert (forced.is_open, forced.is_forced, forced.open_until) == (False, True, None)
    assert not closed(forced, at(2)).is_forced


@pytest.mark.parametrize(
    ("since", "started", "now", "counts"),
    [
        (None, BASE, at(1), True),
        (BASE, at(1), at(2), True),
        (at(1), BASE, at(2), False),
        (at(1), None, at(2), False),
        # The clock was set back since it changed.
        (at(100), BASE, at(2), True),
    ],
)
def test_attempts_from_before_the_last_change_do_not_count(since: Any, started: Any, now: Any, counts: bool) -> None:  # noqa: FBT001, ANN401
    assert replace(CLOSED, since=since).counts(started, now) is counts


@given(st.lists(st.tuples(st.sampled_from(["start", "wait"]), st.integers(1, 40)), max_size=40), st.integers(1, 5))
def test_no_more_probes_start_in_a_period_than_the_rule_says(steps: list[tuple[str, int]], probes: int) -> None:
    """Whatever claims come when: a burst of probes at most, and one for each part of the period after it."""
    breaker = replace(OPEN, rule=replace(RULE, probes=probes))
    limit, now, arrival = breaker.limit, to_micros(BASE), 0
    starts: list[int] = []
    for step, number in steps:
        if step == "wait":
            now += number * 1_000_000
            continue
        taken = min(number, allowance_of(limit, 0, (arrival,), now).starts)
        starts += [now] * taken
        arrival = limit.rates[0].after(arrival, taken, now) if taken else arrival
    opened = to_micros(at(30))
    assert all(start >= opened for start in starts)
    for first in starts:
        assert sum(first <= one < first + 30_000_000 for one in starts) <= 2 * probes
        assert sum(one == first for one in starts) <= probes


def test_a_clock_that_was_set_back_does_not_keep_it_open() -> None:
    early = to_micros(at(-3600))
    assert allowance_of(OPEN.limit, 0, (0,), early).starts == 2
    assert allowance_of(forced_open(CLOSED, BASE + HOUR, "", "ada", BASE).limit, 0, (0,), early).starts == 0


def test_jobs_pass_the_limit_of_their_tasks_breaker_and_of_their_own() -> None:
    limits = {
        "task:mail": Limit("task:mail", breaker="stripe"),
        "breaker:stripe": OPEN.limit,
        "breaker:own": OPEN.limit,
    }
    assert limits_passed("q", "mail", None, limits) == ["task:mail", "breaker:stripe"]
    assert limits_passed("q", "mail", "breaker:own", limits) == ["task:mail", "breaker:own", "breaker:stripe"]
    assert limits_passed("q", "mail", "breaker:stripe", limits) == ["task:mail", "breaker:stripe"]
    assert limits_passed("q", "other", None, limits) == []


def test_a_key_that_is_a_breaker_limits_nothing_by_itself() -> None:
    assert key_limit("breaker:x") == "breaker:x"
    assert limit_of_key("breaker:x", "mail", {}) == Limit("breaker:x")
    with pytest.raises(InvalidRequest, match="rota breakers"):
        check_limit_name("breaker:x")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("failures", 0), ("failures", 1.1), ("failures", float("nan")), ("window", timedelta(0)), ("window", 2 * HOUR),
        ("least", 0), ("open_for", timedelta(milliseconds=999)), ("open_for", 25 * HOUR), ("probes", 0),
        ("probes", 1001),
    ],
)  # fmt: skip
def test_a_bad_rule_is_refused_by_the_name_of_its_field(field: str, value: Any) -> None:  # noqa: ANN401
    with pytest.raises(InvalidRequest, match=f"breaker.{field}") as refused:
        replace(RULE, **{field: value})
    assert refused.value.field == f"breaker.{field}"


@pytest.mark.parametrize("name", ["", "x" * 193, "a\nb"])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="name of a breaker"):
        check_breaker_name(name)


@pytest.mark.parametrize(
    ("payload", "key"),
    [
        ('{"url": "https://API.Shop:8443/x"}', "breaker:eu-api.shop"),
        ('{"url": "https://u:p@api.shop/"}', "breaker:eu-api.shop"),
    ],
)
def test_the_breaker_of_an_http_job_may_be_named_by_its_host(payload: str, key: str) -> None:
    assert key_for("breaker:eu-{host}", "http", payload) == key


@pytest.mark.parametrize(
    ("type_", "payload"),
    [("mail", '{"url": "https://a/"}'), ("http", "null"), ("http", '{"url": 7}'), ("http", '{"url": "nothing"}'),
     ("http", "[]"), ("http", '{"url": "http://[bad"}')],
)  # fmt: skip
def test_a_host_that_cannot_be_known_is_refused(type_: str, payload: str) -> None:
    with pytest.raises(InvalidRequest, match=r"payload\.url"):
        key_for("breaker:{host}", type_, payload)
    with pytest.raises(InvalidRequest, match=r"payload\.url"):
        check(Template(type_, payload, concurrency_key="breaker:{host}"))


def test_other_keys_are_left_as_they_are() -> None:
    assert key_for("{host}", "http", '{"url": "https://a/"}') == "{host}"
    assert key_for(None, "http", "null") is None


def test_tasks_of_other_apps_stay() -> None:
    known = (("mill", "grind"), ("shop", "old"))
    assert tasks_of("shop", ["charge"], known) == (("mill", "grind"), ("shop", "charge"))


@given(st.integers(0, 10**7), st.integers(1, 3600))
def test_a_window_has_its_slots(now: int, seconds: int) -> None:
    count = CallCount("x", timedelta(seconds=seconds))
    micros = now * 1000
    assert count.slot(micros) <= micros < count.slot(micros) + count.slot_width
    assert count.first_slot(micros) > micros - seconds * 1_000_000 - count.slot_width


BUDGET = Backoff(budget=0.1, budget_window=MINUTE)


@pytest.mark.parametrize(
    ("starts", "retries", "minutes"),
    [(0, 0, 0), (0, 9, 0), (0, 10, 1), (0, 25, 2), (1000, 99, 0), (1000, 100, 1), (1000, 350, 3)],
)
def test_retries_beyond_the_budget_start_so_many_windows_later(starts: int, retries: int, minutes: int) -> None:
    assert budget_delay(BUDGET, starts, retries, 0.0) == minutes * MINUTE
    assert budget_delay(Backoff(), starts, retries, 0.0) == timedelta(0)


@given(st.integers(0, 5000), st.integers(1, 400), st.floats(0.01, 1))
def test_no_window_gets_more_retries_than_the_budget(starts: int, retries: int, share: float) -> None:
    rule = replace(BUDGET, budget=share)
    delays = [budget_delay(rule, starts, number, 0.0) for number in range(retries)]
    allowed = max(int(share * starts), 10)
    assert max(delays.count(delay) for delay in set(delays)) <= allowed


@pytest.mark.parametrize(("field", "value"), [("budget", 0), ("budget", 1.5), ("budget_window", timedelta(0))])
def test_a_bad_budget_is_refused(field: str, value: Any) -> None:  # noqa: ANN401
    with pytest.raises(InvalidRequest, match=f"retry.{field}"):
        Backoff(**{field: value})
    assert Backoff.from_text(BUDGET.to_text()) == BUDGET
