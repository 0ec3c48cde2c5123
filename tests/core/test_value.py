"""Values at run time. That the type checker refuses to change one is tested in sdk/test_typing.py."""

from __future__ import annotations

from dataclasses import field, replace

import pytest

from rota.core.submission import NewJob
from rota.core.value import value


@value
class Point:
    x: int
    y: int = 0


@value
class Spot:
    x: int
    y: int = 0


@value
class Name:
    text: str
    note: str = field(default="", compare=False, repr=False)


@value
class Nothing:
    pass


def test_values_are_equal_and_hash_by_their_fields() -> None:
    assert Point(1) == Point(1, 0)
    assert Point(1) != Point(2)
    assert len({Point(1), Point(1, 0), Point(2)}) == 2


def test_values_of_two_kinds_are_never_equal() -> None:
    others: list[object] = [Spot(1), (1, 0)]
    assert Point(1) not in others


def test_what_a_field_leaves_out_is_left_out() -> None:
    assert Name("a", "one") == Name("a", "two")
    assert hash(Name("a", "one")) == hash(Name("a", "two"))
    assert Name("a") != Name("b")
    assert repr(Name("a", "one")) == "Name(text='a')"


def test_a_value_without_fields_is_one_of_its_kind() -> None:
    assert Nothing() == Nothing()
    assert len({Nothing(), Nothing()}) == 1
    assert repr(Nothing()) == "Nothing()"


def test_a_value_shows_its_fields() -> None:
    assert repr(Point(1)) == "Point(x=1, y=0)"
    assert replace(Point(1), y=2) == Point(1, 2)


def test_a_value_may_have_its_own_word_to_say() -> None:
    @value
    class Secret:
        text: str

        def __repr__(self) -> str:
            return "***"

    assert repr(Secret("x")) == "***"


def test_a_value_has_no_place_for_anything_but_its_fields() -> None:
    with pytest.raises(AttributeError):
        NewJob(1, "mail").color = "red"  # type: ignore[arg-type, attr-defined]
