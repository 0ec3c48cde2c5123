"""The log of an attempt: numbered lines, of which the end is kept.

It is stored as text, one JSON object per line, so that the store, the lease keeper and the encryption of a worker treat
it as one value. The bounds hold for the encoded text, which stays below what an encrypted value may be long.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

from rota.core.value import value

#: How much of an attempt's log is kept: lines, and bytes of encoded text.
MOST_LINES: Final = 1_000
MOST_BYTES: Final = 40_000
#: A longer message is cut.
LONGEST_MESSAGE: Final = 3_000
_LONGEST_NAME: Final = 200


@value
class LogLine:
    """One line of the log of an attempt. `number` counts the lines of the attempt from 1, also those not kept.

    `at` is RFC 3339 text, empty if it is unknown. `logger` is empty for lines that the handler logged by its context.
    """

    number: int
    at: str
    level: str
    message: str
    logger: str = ""


class LogTail:
    """The end of a log: lines are added, and the first are dropped beyond the bounds.

    `add` may be called from several threads at once with `text`: a `deque` is safe, and the size is corrected by every
    later line.
    """

    __slots__ = ("_count", "_lines", "_size")

    def __init__(self) -> None:
        self._lines: deque[str] = deque()
        self._size = 0
        self._count = 0

    def add(self, at: str, level: str, message: str, logger: str = "") -> None:
        self._count += 1
        fields = {"n": self._count, "at": at, "level": level[:_LONGEST_NAME], "message": cut(message)}
        if logger:
            fields["logger"] = logger[:_LONGEST_NAME]
        # In ASCII: its length is its size, at most twelve times its characters, and no store refuses any of them.
        line = json.dumps(fields, separators=(",", ":"))
        self._lines.append(line)
        self._size += len(line) + 1
        while self._size > MOST_BYTES or len(self._lines) > MOST_LINES:
            self._size -= len(self._lines.popleft()) + 1

    def text(self) -> str:
        """Return the lines that are kept, as they are stored."""
        while True:
            try:
                return "\n".join(self._lines)
            except RuntimeError:  # a line was added meanwhile
                continue


def cut(message: str) -> str:
    """Return a message of bounded length."""
    return message if len(message) <= LONGEST_MESSAGE else message[: LONGEST_MESSAGE - 1] + "…"


def lines_of(text: str) -> Sequence[LogLine]:
    """Read stored lines. Text of another form, which a foreign worker may have sent, is numbered line by line."""
    return [_line_of(line, place) for place, line in enumerate(text.split("\n"), 1)] if text else []


def _line_of(text: str, place: int) -> LogLine:
    try:
        fields: dict[str, Any] = json.loads(text)
        return LogLine(
            int(fields["n"]), str(fields["at"]), str(fields["level"]), str(fields["message"]),
            str(fields.get("logger", "")),
        )  # fmt: skip
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return LogLine(place, "", "info", text)


def plain_text(lines: Iterable[LogLine]) -> str:
    """Return lines as a person reads them in a terminal."""
    return "\n".join(shown(line) for line in lines)


def shown(line: LogLine) -> str:
    """Return one line as text: time, level, logger and message, as far as they are known."""
    if not line.at:
        return line.message
    logger = f"{line.logger}: " if line.logger else ""
    return f"{line.at} {line.level:7} {logger}{line.message}"
