"""A log line for every attempt that failed: the error's message, and the line of the user's code where it arose."""

from __future__ import annotations

import logging
import re
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rota.core.identity import to_text
from rota.core.job import Job
from rota.core.settlement import JobError
from rota.telemetry.logs import about

_log: Final = logging.getLogger("rota.worker")
#: So many lines a minute about one type of job and one kind of error; further ones are counted.
MOST_A_MINUTE: Final = 30
LONGEST_MESSAGE: Final = 500
_FRAME: Final = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
_NOT_THE_USERS: Final = (
    *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")},
    str(Path(__file__).parent.parent),
    "<",
)


class FailureLog:
    """Writes the lines. Called from every thread; two that come at once may be counted as one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: By type of job and kind of error: since when is counted, how many were written, and how many were not.
        self._seen: dict[tuple[str, str], tuple[float, int, int]] = {}

    def note(self, job: Job, error: JobError) -> None:
        """Write that an attempt failed."""
        key, now = (job.type, error.kind), self._clock()
        since, written, left_out = self._seen.get(key, (now, 0, 0))
        if now - since >= 60:  # noqa: PLR2004 - a minute
            since, written = now, 0
        if written >= MOST_A_MINUTE:
            self._seen[key] = since, written, left_out + 1
            return
        self._seen[key] = since, written + 1, 0
        where = f" at {frame}" if (frame := last_frame(error.traceback)) else ""
        more = f" (and {left_out} others like it)" if left_out else ""
        message = "job %s (%s) failed in attempt %d of %d with %s: %s%s%s"
        told = error.message[:LONGEST_MESSAGE]
        _log.warning(
            message, to_text(job.id), job.type, job.attempts, job.max_attempts, error.kind, told, where, more,
            extra=about(job),
        )  # fmt: skip


def last_frame(traceback: str) -> str:
    """Give the innermost frame of the user's own code, as file:line in function; empty if there is none."""
    frames = [
        (path, line, function)
        for path, line, function in _FRAME.findall(traceback)
        if not path.startswith(_NOT_THE_USERS)
    ]
    if not frames:
        return ""
    path, line, function = frames[-1]
    return f"{path}:{line} in {function}"
