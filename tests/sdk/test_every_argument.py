"""Every argument of `@app.task(…)` beside the options, and every field of `Retry`, changes what a process gets.

The tables are compared with the signatures: an argument that is added there and not here fails. What the values do in a
store is tested with the stores and the worker; here it is that none is lost on the way.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from rota import Options, Retry, Rota
from rota.runtime.assembly import AppDefinition
from rota.sdk.loader import definition_of

Seen = Callable[[AppDefinition], object]


def tried(customer: int = 0) -> int:
    return customer


def collected(customers: list[int]) -> None: ...


def handler(definition: AppDefinition) -> Any:  # noqa: ANN401 - a handler
    (only,) = definition.handlers
    return only


def limit(definition: AppDefinition) -> Any:  # noqa: ANN401 - a limit, or None
    return next(iter(definition.limits), None)


#: The argument, a value, the others that it needs, and what a process sees of it.
ARGUMENTS: dict[str, tuple[object, dict[str, Any], Seen]] = {
    "name": ("renamed", {}, lambda one: handler(one).type),
    "cron": ("0 3 * * *", {}, lambda one: [draft.rule for draft in one.schedules]),
    "every": ("90s", {}, lambda one: [draft.rule for draft in one.schedules]),
    "tz": ("Europe/Berlin", {"cron": "0 3 * * *"}, lambda one: [draft.zone for draft in one.schedules]),
    "executor": ("process", {}, lambda one: handler(one).executor),
    "max_running": (3, {}, lambda one: getattr(limit(one), "max_running", None)),
    "rate_limit": ("10/s", {}, lambda one: getattr(limit(one), "rate_limit", None)),
    "per": ("customer", {}, lambda one: [task.per for task in one.defaults.values()]),
    "weight": (3, {"per": "customer"}, lambda one: getattr(limit(one), "weight", None)),
    "order": ("strict", {"per": "customer"}, lambda one: getattr(limit(one), "order", None)),
    "on_full": ("drop", {"per": "customer"}, lambda one: getattr(limit(one), "on_full", None)),
    "batch": (5, {}, lambda one: handler(one).executor),
    "batch_wait": ("3s", {"batch": 5}, lambda _: None),
}
RETRY: dict[str, Any] = {
    "max_attempts": 7,
    "base": "7s",
    "factor": 7,
    "cap": "7h",
    "jitter": 0.7,
    "delays": ["7s"],
    "on": (ValueError,),
    "give_up_on": (ValueError,),
    "max_elapsed": "7h",
    "budget": 0.7,
    "budget_window": "7m",
}
COMPANIONS: dict[str, dict[str, Any]] = {"budget_window": {"budget": 0.5}}


def defined(**arguments: Any) -> Rota:  # noqa: ANN401 - any arguments
    app = Rota("sqlite:///never-opened.db")
    function: Any = collected if "batch" in arguments else tried
    app.task(**arguments)(function)
    return app


def test_every_argument_is_in_the_table() -> None:
    arguments = set(inspect.signature(Rota.task).parameters) - {"self", "function", "defaults"}
    assert arguments == ARGUMENTS.keys()
    assert ARGUMENTS.keys().isdisjoint(Options.__annotations__)
    assert set(inspect.signature(Retry).parameters) == RETRY.keys()


@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_argument_of_a_task_reaches_its_process(name: str) -> None:
    value, others, seen = ARGUMENTS[name]
    with_it, without = defined(**{name: value}, **others), defined(**others)
    if name == "batch_wait":
        assert with_it.batches["collected"]._wait_seconds != without.batches["collected"]._wait_seconds
        return
    assert seen(definition_of(with_it)) != seen(definition_of(without))


@pytest.mark.parametrize("name", RETRY)
def test_every_field_of_a_retry_rule_reaches_its_process(name: str) -> None:
    others = COMPANIONS.get(name, {})

    def seen(retry: Retry) -> object:
        definition = definition_of(defined(retry=retry))
        own = definition.defaults["tried"]
        return own.max_attempts, own.backoff, handler(definition).give_up_on, handler(definition).retry_on

    assert seen(Retry(**{name: RETRY[name]}, **others)) != seen(Retry(**others))
