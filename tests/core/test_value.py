"""Values: what they are when they run. That the type checker refuses to change one stands in sdk/test_typing.py."""

from __future__ import annotations

import pytest

from rota.core.submission import NewJob
from rota.core.value import value


@value
class Point:
    x: int
    y: int = 0


def test_values_are_equal_and_hash_by_their_fields() -> None:
    assert Point(1) == Point(1, 0)
    assert Point(1) != Point(2)
    assert len({Point(1), Point(1, 0), Point(2)}) == 2


def test_a_value_has_no_place_for_anything_but_its_fields() -> None:
    with pytest.raises(AttributeError):
        NewJob(1, "mail").color = "red"  # type: ignore[arg-type, attr-defined]
