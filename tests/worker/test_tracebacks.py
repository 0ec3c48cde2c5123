"""Tracebacks are formatted as Python formats them, also with cached frames."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from rota.worker import outcomes
from rota.worker.outcomes import format_traceback


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


def raised(fail: Callable[[], NoReturn]) -> traceback.TracebackException:
    try:
        fail()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is shown
        return traceback.TracebackException.from_exception(error, compact=True)


@pytest.mark.parametrize("fail", [plainly, of_a_cause, while_at_another, together, deep])
def test_a_traceback_looks_as_python_prints_it_each_time(fail: Callable[[], NoReturn]) -> None:
    printed = "".join(raised(fail).format())
    assert [format_traceback(raised(fail)) for _ in range(3)] == [printed] * 3
    assert "in plainly" in printed


def test_an_edited_file_is_shown_as_it_is_now(tmp_path: Path) -> None:
    file = tmp_path / "handlers.py"
    for word in ("before", "after!"):
        file.write_text(f"raise ValueError('{word}')\n")
        linecache.clearcache()
        code = compile("raise ValueError('      ')\n", str(file), "exec")
        with pytest.raises(ValueError, match=" ") as caught:
            exec(code, {})  # noqa: S102 - a file of our own
        assert word in format_traceback(traceback.TracebackException.from_exception(caught.value))


def test_the_cache_of_frames_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "CACHED_FRAMES", 3)
    outcomes._frame_texts.clear()
    for fail in (while_at_another, together, deep):
        format_traceback(raised(fail))
        assert len(outcomes._frame_texts) <= 3


def test_colours_of_newer_pythons_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 3.13 on a frame is formatted with `colorize=`; a stack without that parameter would fail."""
    colours: list[bool] = []

    def newer(stack: traceback.StackSummary, frame: traceback.FrameSummary, *, colorize: bool = False) -> str:
        colours.append(colorize)
        return f"{len(stack)} {frame.name}"

    monkeypatch.setattr(traceback.StackSummary, "format_frame_summary", newer)
    monkeypatch.setattr(outcomes, "_frame_texts", {})
    stack = outcomes._CachedStack(raised(plainly).stack)
    texts = [stack.format_frame_summary(stack[-1], colorize=colorize) for colorize in (False, False, True)]
    assert texts == ["2 plainly"] * 3
    assert colours == [False, True], "cached without colours only"
