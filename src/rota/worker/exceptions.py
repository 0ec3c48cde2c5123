"""Exceptions a handler raises on purpose: retry later, give up, cancelled.

Stored errors name the exceptions of this module without the module, as they do for Python's built-in ones.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from rota.core.duration import parse_duration
from rota.core.limit import check_limit_name

ExceptionTypes = tuple[type[BaseException], ...]
#: Exceptions that count as failures of a breaker's dependency, unless the breaker names others.
DEPENDENCY_ERRORS: Final[ExceptionTypes] = (ConnectionError, TimeoutError)


class RetryLater(Exception):
    """Run the job again after `delay`. This is not a failure: the attempt is not counted.

    With `limit`, the name of a limit such as `key:customer-42`, no job starts under that limit for as long: for an
    answer such as 429, which is about all requests of one customer.
    """

    def __init__(self, delay: timedelta | float | str, reason: str = "", *, limit: str | None = None) -> None:
        self.delay = parse_duration(delay, field="delay")
        if limit is not None:
            check_limit_name(limit)
        self.limit = limit
        super().__init__(reason or f"again in {self.delay.total_seconds():g} s")


class GiveUp(Exception):
    """A permanent failure: the job becomes a dead letter without further attempts."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)


class OutcomeUnknown(BaseException):
    """A guarded step was begun and never finished, and must not be performed again: the job is parked.

    A `BaseException`, so that `except Exception` in a handler does not catch it.
    """


class Suspend(BaseException):
    """The handler waits for the step `key`, and is left; it is run again when the wait is over.

    A `BaseException`, so that `except Exception` in a handler does not catch it. Code in `finally` is run.
    """

    def __init__(self, key: str) -> None:
        super().__init__(f"waits for step {key!r}")
        self.key = key


class Cancelled(BaseException):
    """The handler was asked to stop, and stops.

    A `BaseException`, so that `except Exception` in a handler does not catch it.
    """
