"""Log lines and progress of attempts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from rota.core.envelope import is_encrypted
from rota.core.job import Attempt
from rota.core.log_lines import LogLine, lines_of, plain_text
from rota.wire.scalars import Count, Moment


class ProgressForm(Struct, kw_only=True, omit_defaults=True):
    """Progress as a handler reported it."""

    done: float
    total: float | None = None
    message: str = ""
    at: Moment | None = None


class LogLineForm(Struct, kw_only=True):
    """A line of the log of an attempt. `number` counts the lines of the attempt from 1, also those not kept."""

    number: Count
    at: str | None
    level: str
    logger: str | None
    message: str


class LogForm(Struct, kw_only=True):
    """The log of one attempt: its last lines. `attempt` is 0 while there is none; `attempts` is how many there are.

    If the worker encrypts its jobs, `encrypted` has the whole log, one JSON object per line once decrypted, and `items`
    is empty.
    """

    attempt: Count
    attempts: Count
    is_running: bool
    items: list[LogLineForm]
    encrypted: str | None = None


def progress_form(text: str | None) -> ProgressForm | str | None:
    """Read progress; return text of another form as it is."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=ProgressForm)
    except (msgspec.DecodeError, ValueError):
        return text


def log_text(stored: str | None) -> str | None:
    """Return a stored log as text; an encrypted one as it is."""
    if stored is None or is_encrypted(stored):
        return stored
    return plain_text(lines_of(stored))


def log_form(attempts: Sequence[Attempt], number: int, after: int = 0) -> LogForm:
    """Return the lines of one attempt that come after a number; of the last attempt for number 0."""
    number = number or len(attempts)
    if not number:
        return LogForm(attempt=0, attempts=0, is_running=False, items=[])
    attempt = attempts[number - 1]
    stored = attempt.log_tail or ""
    is_sealed = is_encrypted(stored)
    lines = [] if is_sealed else [log_line_form(line) for line in lines_of(stored) if line.number > after]
    return LogForm(
        attempt=number,
        attempts=len(attempts),
        is_running=attempt.ended_at is None,
        items=lines,
        encrypted=stored if is_sealed else None,
    )


def log_line_form(line: LogLine) -> LogLineForm:
    return LogLineForm(
        number=line.number, at=line.at or None, level=line.level, logger=line.logger or None, message=line.message
    )
