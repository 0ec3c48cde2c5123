"""What a handler can say by raising: later, never, or that it obeyed."""

from __future__ import annotations

from datetime import timedelta

from rota.core.duration import parse_duration


class RetryLater(Exception):
    """Call me again after `delay`: nothing went wrong, and the attempt is not counted."""

    def __init__(self, delay: timedelta | float | str, reason: str = "") -> None:
        self.delay = parse_duration(delay, field="delay")
        super().__init__(reason or f"again in {self.delay.total_seconds():g} s")


class GiveUp(Exception):
    """Trying again will not help: the job goes to the dead letters at once."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)


class OutcomeUnknown(BaseException):
    """A guarded step was begun and never finished, and must not be performed again: the job is parked.

    No `Exception`, so that a handler which goes on after every error does not go on after this one.
    """


class Cancelled(BaseException):
    """The handler was asked to stop, and stops.

    No `Exception`, so that a handler which goes on after every error does not go on after this one.
    """
