"""Values: what is made once and never changed.

`@value` is a frozen dataclass to the type checker, which refuses every assignment to it, and a plain slotted one when
it runs: writing a field of a truly frozen dataclass costs ten times as much as writing a slot, and for the values that
every job passes through that came to a fifth of a job's whole life.

How two are compared, hashed and shown is the same for all. A dataclass has Python compile these methods for each class
anew, at every start of a process; for that, comparing two and hashing one costs two or three times as much here, which
nothing does for every job. Rules that were read once and are handed to many stay `@dataclass(frozen=True, slots=True)`.
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
        told = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({told})"

    for name, method in (("__eq__", equals), ("__hash__", number), ("__repr__", show)):
        # Python gives a class with an __eq__ of its own a __hash__ that is None.
        if cls.__dict__.get(name) is None:
            setattr(made, name, method)
    result: type[T] = made
    return result


def _reading(names: list[str]) -> Callable[[object], tuple[Any, ...]]:
    """Give what reads these fields."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda _: ()
    read = attrgetter(names[0])
    return lambda one: (read(one),)
