from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.builders import unhurried
from rota.core.errors import JobNotFound
from rota.core.ids import (
    ALPHABET,
    EPOCH_MILLISECONDS,
    LARGEST,
    LENGTH,
    SEQUENCE_BITS,
    compose,
    to_number,
    to_text,
)

numbers = st.integers(0, LARGEST)
#: Until 2093: forty-one bits of milliseconds.
milliseconds = st.integers(EPOCH_MILLISECONDS, EPOCH_MILLISECONDS + 2**41 - 1)
sequences = st.integers(0, 2**SEQUENCE_BITS - 1)

SHOWN = [
    (0, "0000000000000"),
    (1, "0000000000001"),
    (31, "000000000000z"),
    (32, "0000000000010"),
    (2**53, "0080000000000"),
    (LARGEST, "7zzzzzzzzzzzz"),
]
REFUSED = [
    "",
    "0",
    "000000000000",
    "00000000000000",
    "0" * 5_000,
    "-000000000001",
    " 000000000001",
    "000000000001\n",
    "00000000000_1",
    "000000000000A",
    "7ZZZZZZZZZZZZ",
    "000000000000i",
    "000000000000l",
    "000000000000o",
    "000000000000u",
    "000000000000\0",
    "000000000000\N{ARABIC-INDIC DIGIT ONE}",
    "000000000000\N{FULLWIDTH DIGIT ONE}",
    "000000000000é",
    "000000000000\ud800",
    "8000000000000",
    "zzzzzzzzzzzzz",
    "550e8400-e29b-41d4-a716-446655440000",
]


@pytest.mark.parametrize(("number", "text"), SHOWN)
def test_an_id_is_shown_as_thirteen_characters(number: int, text: str) -> None:
    assert to_text(number) == text
    assert to_number(text) == number


def test_the_alphabet_holds_nothing_that_is_misread() -> None:
    assert len(set(ALPHABET)) == 32
    assert not set(ALPHABET) & set("ilou")
    assert list(ALPHABET) == sorted(ALPHABET)


@unhurried
@given(numbers)
def test_an_id_survives_the_way_out_and_back(number: int) -> None:
    text = to_text(number)
    assert len(text) == LENGTH
    assert set(text) <= set(ALPHABET)
    assert to_number(text) == number


@unhurried
@given(numbers, numbers)
def test_text_sorts_as_numbers_do(one: int, other: int) -> None:
    assert (to_text(one) < to_text(other)) == (one < other)


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_an_id_names_no_job(text: str) -> None:
    with pytest.raises(JobNotFound, match="is not an id") as refusal:
        to_number(text)
    assert refusal.value.field == "id"
    assert len(str(refusal.value)) < 200


@unhurried
@given(st.text() | st.text(ALPHABET + "ILOU", min_size=LENGTH, max_size=LENGTH))
def test_any_text_is_an_id_or_is_refused(text: str) -> None:
    try:
        number = to_number(text)
    except JobNotFound:
        return
    assert to_text(number) == text


@unhurried
@given(milliseconds, sequences)
def test_an_id_holds_its_millisecond_and_its_number_in_63_bits(millisecond: int, sequence: int) -> None:
    made = compose(millisecond, sequence)
    assert 0 <= made <= LARGEST
    assert made >> SEQUENCE_BITS == millisecond - EPOCH_MILLISECONDS
    assert made & 2**SEQUENCE_BITS - 1 == sequence


@unhurried
@given(st.tuples(milliseconds, sequences), st.tuples(milliseconds, sequences))
def test_ids_sort_by_time_and_then_by_number(one: tuple[int, int], other: tuple[int, int]) -> None:
    assert (compose(*one) < compose(*other)) == (one < other)


@pytest.mark.parametrize("sequence", [2**SEQUENCE_BITS, -1, 2**64 + 5])
def test_dice_of_any_width_never_reach_into_the_time(sequence: int) -> None:
    assert compose(EPOCH_MILLISECONDS + 1, sequence) >> SEQUENCE_BITS == 1


@pytest.mark.parametrize("millisecond", [-1, 0, EPOCH_MILLISECONDS - 1])
def test_a_clock_before_2024_still_makes_ids(millisecond: int) -> None:
    assert compose(millisecond, 7) == 7
