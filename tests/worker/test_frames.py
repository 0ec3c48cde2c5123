"""Tracebacks are shown as Python shows them, also those that were shown before."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from rota.worker import frames
from rota.worker.frames import shown


def plainly() -> NoReturn:
    raise ValueError("one")


def of_a_cause() -> NoReturn:
    try:
        plainly()
    except ValueError as error:
        raise KeyError("two") from error


def while_at_another() -> NoReturn:
    try:
        of_a_cause()
    except KeyError:
        int("three")
    raise AssertionError


def together() -> NoReturn:
    failed: list[Exception] = []
    for fail in (plainly, of_a_cause):
        try:
            fail()
        except Exception as error:  # noqa: BLE001 - to be raised again with the other
            failed.append(error)
    raise ExceptionGroup("four", failed)


def deep(left: int = 20) -> NoReturn:
    if left == 0:
        plainly()
    deep(left - 1)


def told(fail: Callable[[], NoReturn]) -> traceback.TracebackException:
    try:
        fail()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is shown
        return traceback.TracebackException.from_exception(error, compact=True)


@pytest.mark.parametrize("fail", [plainly, of_a_cause, while_at_another, together, deep])
def test_a_traceback_looks_as_python_prints_it_each_time(fail: Callable[[], NoReturn]) -> None:
    printed = "".join(told(fail).format())
    assert [shown(told(fail)) for _ in range(3)] == [printed] * 3
    assert "in plainly" in printed


def test_an_edited_file_is_shown_as_it_is_now(tmp_path: Path) -> None:
    file = tmp_path / "handlers.py"
    for word in ("before", "after!"):
        file.write_text(f"raise ValueError('{word}')\n")
        linecache.clearcache()
        code = compile("raise ValueError('      ')\n", str(file), "exec")
        with pytest.raises(ValueError, match=" ") as caught:
            exec(code, {})  # noqa: S102 - a file of our own
        assert word in shown(traceback.TracebackException.from_exception(caught.value))


def test_no_more_places_are_remembered_than_a_worker_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "REMEMBERED", 3)
    frames._texts.clear()
    for fail in (while_at_another, together, deep):
        shown(told(fail))
        assert len(frames._texts) <= 3


def test_what_newer_pythons_say_of_colours_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 3.13 on a frame is shown with `colorize=`; a stack that does not know the word would show nothing at all."""
    asked: list[bool] = []

    def newer(stack: traceback.StackSummary, frame: traceback.FrameSummary, *, colorize: bool = False) -> str:
        asked.append(colorize)
        return f"{len(stack)} {frame.name}"

    monkeypatch.setattr(traceback.StackSummary, "format_frame_summary", newer)
    monkeypatch.setattr(frames, "_texts", {})
    stack = frames._Stack(told(plainly).stack)
    texts = [stack.format_frame_summary(stack[-1], colorize=colorize) for colorize in (False, False, True)]
    assert texts == ["2 plainly"] * 3
    assert asked == [False, True], "remembered without colours only"
