"""Values: what the hot paths make by the hundred thousand.

`@value` is a frozen dataclass to the type checker, which refuses every assignment to it, and a plain slotted one when
it runs: writing a field of a truly frozen dataclass costs ten times as much as writing a slot, and for the values that
every job passes through that came to a fifth of a job's whole life. What is rarely made stays
`@dataclass(frozen=True, slots=True)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """Make a class a value: compared and hashed by its fields, never assigned to."""
    return dataclass(slots=True, unsafe_hash=True)(cls)
