"""Tracebacks as text, quickly.

To show one frame, Python parses its line again, to find what to underline: that is most of what a failed attempt costs
a worker. Handlers fail at the same few places again and again, so what a place looks like is remembered.
"""

from __future__ import annotations

import traceback
from typing import Any, Final

#: How many places to remember; then all of them are forgotten, which costs little and seldom happens.
REMEMBERED: Final = 1_000
#: A longer text is not worth its room.
LONGEST: Final = 2_000
#: By where a frame is, the text of its line included: a file may be edited under us.
_texts: Final[dict[tuple[Any, ...], str]] = {}


class _Stack(traceback.StackSummary):
    """Frames that may have been shown before."""

    def format_frame_summary(self, frame_summary: traceback.FrameSummary, **more: Any) -> str:  # noqa: ANN401 - its own
        if any(more.values()):
            # Colours, from Python 3.13 on. Nobody asks for them here.
            return super().format_frame_summary(frame_summary, **more)
        frame = frame_summary
        place = (frame.filename, frame.name, frame.line, frame.lineno, frame.colno, frame.end_lineno, frame.end_colno)
        text = _texts.get(place)
        if text is None:
            text = super().format_frame_summary(frame, **more)
            if len(_texts) >= REMEMBERED:
                _texts.clear()
            if len(text) <= LONGEST:
                _texts[place] = text
        return text


def shown(told: traceback.TracebackException) -> str:
    """Give a traceback as Python would print it, with all that led to it."""
    left = [told]
    while left:
        one = left.pop()
        one.stack = _Stack(one.stack)
        left += [other for other in (one.__cause__, one.__context__, *(one.exceptions or ())) if other is not None]
    return "".join(told.format())
