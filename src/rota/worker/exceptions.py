"""Exceptions a handler raises on purpose: retry later, give up, cancelled.

Stored errors name the exceptions of this module without the module, as they do for Python's built-in ones.
"""

from __future__ import annotations

from datetime import timedelta

from rota.core.duration import parse_duration

ExceptionTypes = tuple[type[BaseException], ...]


class RetryLater(Exception):
    """Run the job again after `delay`. This is not a failure: the attempt is not counted."""

    def __init__(self, delay: timedelta | float | str, reason: str = "") -> None:
        self.delay = parse_duration(delay, field="delay")
        super().__init__(reason or f"again in {self.delay.total_seconds():g} s")


class GiveUp(Exception):
    """A permanent failure: the job becomes a dead letter without further attempts."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)


class OutcomeUnknown(BaseException):
    """A guarded step was begun and never finished, and must not be performed again: the job is parked.

    A `BaseException`, so that `except Exception` in a handler does not catch it.
    """


class Cancelled(BaseException):
    """The handler was asked to stop, and stops.

    A `BaseException`, so that `except Exception` in a handler does not catch it.
    """
