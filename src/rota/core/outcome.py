"""Outcomes: what one attempt yielded."""

from __future__ import annotations

from datetime import timedelta

from rota.core.duration import LONGEST
from rota.core.errors import InvalidRequest
from rota.core.settlement import JobError
from rota.core.value import value


@value
class Succeeded:
    """The handler returned; `result` is JSON text."""

    result: str = "null"


@value
class Failed:
    """The handler raised, or ran past its time. A permanent failure is not tried again."""

    error: JobError
    permanent: bool = False
    #: The error is one of those by which the dependency of the handler's circuit breaker fails.
    dependency: bool = False


@value
class Snoozed:
    """The handler asked to be called again later, without having failed; or the worker could not start it yet."""

    delay: timedelta
    started: bool = True
    #: The limit that is closed for as long; see `RetryLater`.
    limit: str | None = None

    def __post_init__(self) -> None:
        if not timedelta(0) <= self.delay <= LONGEST:
            raise InvalidRequest(f"delay: {self.delay} must lie between 0 and {LONGEST.days} days", field="delay")


@value
class Suspended:
    """The handler waits for the step `key` of its job (a sleep, an event, a child job) and is run again after it."""

    key: str


@value
class Released:
    """The worker gave the job back. `started` says whether the handler had started."""

    started: bool = False


@value
class Lost:
    """The lease lapsed: the worker died, hung, or was disconnected. `error` is its last error, if known."""

    error: JobError | None = None


@value
class Stopped:
    """The handler stopped after a cancel request."""


@value
class Unknown:
    """A guarded step began and has no outcome: whether its effect happened is unknown."""

    error: JobError


Outcome = Succeeded | Failed | Snoozed | Suspended | Released | Lost | Stopped | Unknown
