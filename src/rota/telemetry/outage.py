"""Outage logging: log that a repeated operation fails, at most once a minute, and that it works again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from rota.core.errors import RotaError

#: How often a continuing failure is logged.
REPEAT_SECONDS: Final = 60.0


class Outage:
    """Limits the log messages of an operation that keeps failing.

    Its first failure is logged at once, later ones of the same type once a minute with a count.
    """

    def __init__(self, log: logging.Logger, what: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._what = what
        self._clock = clock
        self._count = 0
        self._since = 0.0
        self._logged_at = 0.0
        self._kind: type[BaseException] | None = None

    def failed(self, error: BaseException, *, with_traceback: bool = False) -> None:
        """Log a failure, unless one of its type was logged within the last minute."""
        now = self._clock()
        if not self._count:
            self._since = now
        self._count += 1
        if type(error) is self._kind and now - self._logged_at < REPEAT_SECONDS:
            return
        self._kind, self._logged_at = type(error), now
        so_far = f" ({self._count} times in {now - self._since:.0f} s)" if self._count > 1 else ""
        traceback = error if with_traceback and not isinstance(error, RotaError) else None
        message = "%s failed and is repeated until it works%s: %s"
        self._log.warning(message, self._what, so_far, str(error) or type(error).__name__, exc_info=traceback)

    def worked(self) -> None:
        """Log that it works again, if it had failed."""
        if not self._count:
            return
        seconds = self._clock() - self._since
        self._log.info("%s works again, after %d failures in %.0f s", self._what, self._count, seconds)
        self._count, self._kind = 0, None
