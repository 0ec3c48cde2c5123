"""The `@value` decorator: immutable values that are cheap to make.

To the type checker `@value` is a frozen dataclass, which refuses every assignment; at run time it is a plain slotted
one. Making a truly frozen dataclass costs ten times as much, and for the values of every job that was a fifth of the
job's whole cost.

The methods for comparison, hash and repr are shared by all classes. A dataclass compiles these methods for each class
at every start of a process; in return, comparing and hashing cost two or three times as much here, which nothing does
for every job. Rules that are read once and shared stay `@dataclass(frozen=True, slots=True)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """Make a class a value: compared and hashed by its fields, never assigned to."""
    made: Any = dataclass(slots=True, eq=False, repr=False)(cls)
    of = _reading([one.name for one in fields(made) if one.compare])
    shown = [one.name for one in fields(made) if one.repr]

    def equals(self: object, other: object) -> bool:
        return of(self) == of(other) if other.__class__ is self.__class__ else NotImplemented

    def number(self: object) -> int:
        return hash(of(self))

    def show(self: object) -> str:
        fields_text = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({fields_text})"

    for name, method in (("__eq__", equals), ("__hash__", number), ("__repr__", show)):
        # Python sets __hash__ to None in a class that defines __eq__.
        if cls.__dict__.get(name) is None:
            setattr(made, name, method)
    result: type[T] = made
    return result


def _reading(names: list[str]) -> Callable[[object], tuple[Any, ...]]:
    """Return a function that reads these fields as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda _: ()
    read = attrgetter(names[0])
    return lambda one: (read(one),)
