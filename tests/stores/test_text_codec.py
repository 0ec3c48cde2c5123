from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.stores.text_codec import decode_row, encode_text


@pytest.mark.parametrize("text", ["", "plain", "\u4e2d\U0001f600", "\n\t\x1b"])
def test_what_a_database_takes_is_written_as_it_is(text: str) -> None:
    assert encode_text(text) == text


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800", "\udfff\ud800", "\x1a", "\x1a0000", "\x1a001a"])
def test_what_a_database_does_not_take_is_written_so_that_it_does(text: str) -> None:
    written = encode_text(text)
    assert "\0" not in written
    written.encode()
    assert decode_row([written, None, 1]) == (text, None, 1)


@given(st.text(st.characters(codec=None)), st.text())
def test_any_text_comes_back_and_no_two_are_confused(one: str, other: str) -> None:
    assert decode_row([encode_text(one)]) == (one,)
    assert (encode_text(one) == encode_text(other)) == (one == other)


def test_nothing_stays_nothing() -> None:
    assert encode_text(None) is None
