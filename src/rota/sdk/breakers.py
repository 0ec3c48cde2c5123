"""Circuit breakers in code: declared with a task, shared by tasks of the same breaker's name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from rota.core.breaker import DEFAULT_RULE, BreakerRule, CircuitBreaker, check_breaker_name
from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest
from rota.sdk.options import Duration, are_exceptions
from rota.worker.exceptions import DEPENDENCY_ERRORS

_FORMS: Final = (
    ("name", str, "give a text, as in 'stripe'"),
    ("failures", float, "give a share above 0 and at most 1, as in failures=0.5"),
    ("least", int, "give a number of calls, as in least=10"),
    ("probes", int, "give a number of jobs, as in probes=1"),
)


@dataclass(frozen=True, slots=True)
class Breaker:
    """A circuit breaker: while the dependency it is named after fails, the jobs of its tasks wait without attempts.

    It opens when at least `least` attempts ended within `window` and the share `failures` of them raised one of the
    exceptions in `on`; other exceptions are not counted. After `open_for` it lets `probes` jobs start in each further
    `open_for`: the first that succeeds closes it, one that fails keeps it open for another `open_for`.
    """

    name: str
    failures: float = DEFAULT_RULE.failures
    window: Duration = DEFAULT_RULE.window
    least: int = DEFAULT_RULE.least
    open_for: Duration = DEFAULT_RULE.open_for
    probes: int = DEFAULT_RULE.probes
    on: tuple[type[BaseException], ...] = DEPENDENCY_ERRORS

    def __post_init__(self) -> None:
        for field, kind, remedy in _FORMS:
            try:
                msgspec.convert(getattr(self, field), kind)
            except msgspec.ValidationError:
                message = f"breaker.{field}: {getattr(self, field)!r} will not do: {remedy}"
                raise InvalidRequest(message, field=f"breaker.{field}") from None
        check_breaker_name(self.name)
        if not are_exceptions(self.on) or not self.on:
            remedy = "give exception classes in parentheses, as in on=(ConnectionError,)"
            raise InvalidRequest(f"breaker.on: {self.on!r} will not do: {remedy}", field="breaker.on")
        # Refuses bad values.
        _ = self.rule

    @property
    def rule(self) -> BreakerRule:
        """The part of this definition that is stored."""
        return BreakerRule(
            self.failures,
            parse_duration(self.window, field="breaker.window"),
            self.least,
            parse_duration(self.open_for, field="breaker.open_for"),
            self.probes,
        )


class TaskBreakers:
    """The circuit breakers of an app's tasks. A task may name a breaker that another task defines."""

    def __init__(self) -> None:
        self._defined: dict[str, Breaker] = {}
        self._by_task: dict[str, str] = {}

    def check(self, task: str, given: object) -> None:
        """Refuse what is no breaker, and a second definition of one name."""
        if isinstance(given, str):
            check_breaker_name(given)
        elif not isinstance(given, Breaker):
            remedy = "give a name, as in breaker='stripe', or a Breaker(…)"
            raise InvalidRequest(f"task {task!r}: breaker: {given!r} will not do: {remedy}", field="breaker")
        elif self._defined.get(given.name, given) != given:
            remedy = "define it once and give the tasks the same Breaker, or its name"
            message = f"task {task!r}: breaker: {given.name!r} is defined twice, and differently; {remedy}"
            raise InvalidRequest(message, field="breaker")

    def add(self, task: str, given: Breaker | str) -> None:
        """Give a task a breaker that was checked."""
        if isinstance(given, Breaker):
            self._defined[given.name] = given
        self._by_task[task] = given if isinstance(given, str) else given.name

    def of(self, task: str) -> Breaker | None:
        name = self._by_task.get(task)
        return None if name is None else self._defined.get(name) or Breaker(name)

    def stored(self, app: str) -> tuple[CircuitBreaker, ...]:
        """Return the breakers as a process of the app stores them."""
        names = sorted({*self._by_task.values(), *self._defined})
        return tuple(
            CircuitBreaker(
                name,
                (self._defined.get(name) or Breaker(name)).rule,
                tuple((app, task) for task, own in sorted(self._by_task.items()) if own == name),
            )
            for name in names
        )
