"""The log of an attempt: bounds, numbers, and text of other forms."""

from __future__ import annotations

import json

import pytest

from rota.core.log_lines import LONGEST_MESSAGE, MOST_BYTES, MOST_LINES, LogLine, LogTail, lines_of, plain_text


def test_lines_come_back_as_they_were_added() -> None:
    tail = LogTail()
    tail.add("2026-01-01T00:00:00+00:00", "warning", "ä\n\0\ud800 two lines", "app.mail")
    (line,) = lines_of(tail.text())
    assert line == LogLine(1, "2026-01-01T00:00:00+00:00", "warning", "ä\n\0\ud800 two lines", "app.mail")
    assert tail.text().isascii()


def test_the_first_lines_are_dropped_beyond_the_most_lines() -> None:
    tail = LogTail()
    for number in range(MOST_LINES + 5):
        tail.add("", "info", str(number))
    kept = lines_of(tail.text())
    assert len(kept) <= MOST_LINES
    assert len(tail.text()) <= MOST_BYTES
    assert kept[-1] == LogLine(MOST_LINES + 5, "", "info", str(MOST_LINES + 4))
    assert [line.number for line in kept] == list(range(kept[0].number, MOST_LINES + 6))


@pytest.mark.parametrize("character", ["x", "ä", "\0", "\N{GRINNING FACE}"])
def test_the_text_stays_within_its_bytes_whatever_is_logged(character: str) -> None:
    tail = LogTail()
    for _ in range(50):
        tail.add("", "info", character * 10_000, "logger")
        assert len(tail.text()) <= MOST_BYTES + 1
    assert len(lines_of(tail.text())[-1].message) == LONGEST_MESSAGE


@pytest.mark.parametrize(
    "text", ["plain\ntext", "[1]\n2", '{"n": "x"}\n{"n": 1}', "[" * 100_000 + "\n{", json.dumps({"n": 1e400}) + "\nx"]
)
def test_text_of_another_form_is_numbered_line_by_line(text: str) -> None:
    assert [(line.number, line.message) for line in lines_of(text)] == list(enumerate(text.split("\n"), 1))
    assert plain_text(lines_of(text)) == text


def test_no_text_has_no_lines() -> None:
    assert lines_of("") == []
