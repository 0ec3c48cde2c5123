"""A linearizability checker: whether the answers to concurrent calls about one job fit some order of the calls.

A history is linearizable if its calls can be put in an order in which none stands before a call that had ended when it
began, and in which the reference model gives the same answers. The search tries every such order and prunes by the
model (Wing and Gong). It is exponential in the number of calls that overlap, so histories are kept short and are taken
apart by job, since no call here concerns two.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from copy import copy
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from conformance.model.memory import Memory
from conformance.model.reference import Reference

Ask: TypeAlias = Callable[[Any], Coroutine[Any, Any, object]]


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """One call about one job: the request, its times, and the answer."""

    name: str
    ask: Ask
    answer: object
    began: int
    ended: int

    def __str__(self) -> str:
        return f"{self.began:4} to {self.ended:4}: {self.name} -> {self.answer}"


def is_linearizable(history: Sequence[Event], model: Reference) -> bool:
    """Whether the model gives the answers of a history, in some order that respects the times of the calls."""
    if not history:
        return True
    first_end = min(event.ended for event in history)
    for event in history:
        if event.began > first_end:
            continue
        fork = _copied(model)
        if _run(event.ask(fork)) == event.answer and is_linearizable(
            [one for one in history if one is not event], fork
        ):
            return True
    return False


def _copied(model: Reference) -> Reference:
    fork = copy(model)
    for field in fields(Memory):
        value = getattr(model, field.name)
        if isinstance(value, dict):
            copied = {name: copy(one) if isinstance(one, list | dict) else one for name, one in value.items()}
            setattr(fork, field.name, type(value)(copied))
        elif isinstance(value, list):
            setattr(fork, field.name, list(value))
    return fork


def _run(asked: Coroutine[Any, Any, object]) -> object:
    """Run a verb of the model, which never waits."""
    try:
        asked.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the model waited")
