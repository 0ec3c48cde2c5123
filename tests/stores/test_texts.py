from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.stores.texts import readable, writable


@pytest.mark.parametrize("text", ["", "plain", "\u4e2d\U0001f600", "\n\t\x1b"])
def test_what_a_database_takes_is_written_as_it_is(text: str) -> None:
    assert writable(text) == text


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800", "\udfff\ud800", "\x1a", "\x1a0000", "\x1a001a"])
def test_what_a_database_does_not_take_is_written_so_that_it_does(text: str) -> None:
    written = writable(text)
    assert "\0" not in written
    written.encode()
    assert readable([written, None, 1]) == (text, None, 1)


@given(st.text(st.characters(codec=None)), st.text())
def test_any_text_comes_back_and_no_two_are_confused(one: str, other: str) -> None:
    assert readable([writable(one)]) == (one,)
    assert (writable(one) == writable(other)) == (one == other)


def test_nothing_stays_nothing() -> None:
    assert writable(None) is None
