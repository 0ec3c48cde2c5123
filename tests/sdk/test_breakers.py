"""Circuit breakers and retry budgets in code: what is accepted, what is refused, and what a process stores of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rota import Breaker, Retry, Rota
from rota.core.breaker import BreakerRule
from rota.core.errors import InvalidRequest
from rota.sdk.loader import definition_of

NOWHERE = "sqlite:///never-opened.db"


def charge(order: int = 0) -> int:
    return order


def test_tasks_share_a_breaker_by_its_name() -> None:
    app = Rota(NOWHERE, name="shop")
    app.task(name="refund", breaker="stripe")(charge)
    app.task(name="charge", breaker=Breaker("stripe", least=3, open_for="1m", on=(OSError,)))(charge)
    app.task(name="other")(charge)
    definition = definition_of(app)
    (stored,) = definition.breakers
    assert stored.rule == BreakerRule(least=3, open_for=timedelta(minutes=1))
    assert stored.tasks == (("shop", "charge"), ("shop", "refund"))
    handlers = {one.type: (one.breaker, one.dependency_errors) for one in definition.handlers}
    assert handlers["refund"] == handlers["charge"] == ("stripe", (OSError,))
    assert handlers["other"] == (None, (ConnectionError, TimeoutError))


def test_a_name_without_a_definition_has_the_defaults() -> None:
    app = Rota(NOWHERE, name="shop")
    app.task(breaker="stripe")(charge)
    assert [one.rule for one in definition_of(app).breakers] == [BreakerRule()]


def test_the_same_definition_twice_is_one() -> None:
    app = Rota(NOWHERE)
    app.task(name="a", breaker=Breaker("stripe", least=3))(charge)
    app.task(name="b", breaker=Breaker("stripe", least=3))(charge)
    with pytest.raises(InvalidRequest, match="'stripe' is defined twice, and differently"):
        app.task(name="c", breaker=Breaker("stripe", least=4))(charge)
    assert sorted(app.tasks) == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"name": 7}, "breaker.name"), ({"name": ""}, "breaker"), ({"failures": "half"}, "breaker.failures"),
        ({"failures": 2}, "breaker.failures"), ({"least": 1.5}, "breaker.least"), ({"probes": 0}, "breaker.probes"),
        ({"window": "soon"}, "breaker.window"), ({"open_for": "10ms"}, "breaker.open_for"), ({"on": ()}, "breaker.on"),
        ({"on": (ValueError, "x")}, "breaker.on"), ({"on": ValueError}, "breaker.on"),
    ],
)  # fmt: skip
def test_a_bad_breaker_is_refused_where_it_is_written(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Breaker(**{"name": "stripe", **options})
    assert refused.value.field == field


@pytest.mark.parametrize("given", [7, ["stripe"], "", "x" * 193])
def test_what_is_no_breaker_is_refused_at_the_decorator(given: Any) -> None:  # noqa: ANN401 - anything
    app = Rota(NOWHERE)
    with pytest.raises(InvalidRequest, match="breaker"):
        app.task(breaker=given)(charge)
    assert app.tasks == {}


def test_one_submission_names_a_breaker_and_no_key() -> None:
    app = Rota(NOWHERE)
    task = app.task(charge)
    assert task.using(breaker="stripe").template.concurrency_key == "breaker:stripe"
    without: Any = None
    assert task.using(breaker="stripe").using(breaker=without).template.concurrency_key is None
    with pytest.raises(InvalidRequest, match="not the name of a breaker"):
        task.using(breaker=Breaker("stripe"))
    with pytest.raises(InvalidRequest, match="a job has one key"):
        task.using(breaker="stripe", concurrency_key="k")
    with pytest.raises(InvalidRequest, match="a job has one key"):
        task.using(concurrency_key="k").using(breaker="stripe")
    keyed = app.task(name="keyed", per="order")(charge)
    with pytest.raises(InvalidRequest, match="a job has one key"):
        keyed.using(breaker="stripe")


def test_a_retry_budget_is_stored_with_each_job() -> None:
    app = Rota(NOWHERE)
    task = app.task(retry=Retry(5, budget=0.1, budget_window="2m"))(charge)
    assert (task.template.backoff.budget, task.template.backoff.budget_window) == (0.1, timedelta(minutes=2))


@pytest.mark.parametrize(
    ("options", "field"),
    [({"budget": 0}, "retry.budget"), ({"budget": "all"}, "retry.budget"), ({"budget": 0.1, "budget_window": "2h"},
     "retry.budget_window")],
)  # fmt: skip
def test_a_bad_budget_is_refused_where_it_is_written(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Retry(5, **options)
    assert refused.value.field == field
