"""Everything Rota raises, one shallow tree.

::

    RotaError
    ├── InvalidRequest        you asked wrongly
    │   ├── InvalidCron
    │   ├── JobNotFound
    │   ├── ScheduleNotFound
    │   ├── IllegalTransition
    │   ├── KeyReused
    │   └── SchemaTooNew
    ├── Unavailable           we could not
    │   ├── StoreUnavailable
    │   ├── CoordinatorUnavailable
    │   ├── BrokerUnavailable
    │   ├── QueueFull
    │   └── LeaseLost
    └── HandlerError          your code failed
        ├── HandlerFailed
        └── HandlerTimedOut

A message names the thing, the value and the remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class RotaError(Exception):
    """The root: whoever catches this catches all that Rota raises."""


class InvalidRequest(RotaError, ValueError):
    """What was asked makes no sense or is not allowed; asking again the same way will not help."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class InvalidCron(InvalidRequest):
    """A cron expression that cannot be read or can never fire."""


class JobNotFound(InvalidRequest):
    """No job has this id, or it was pruned."""


class ScheduleNotFound(InvalidRequest):
    """No schedule has this id or name."""


class IllegalTransition(InvalidRequest):
    """The job's state does not allow this move."""


class KeyReused(InvalidRequest):
    """An idempotency key came again with another request behind it."""


class SchemaTooNew(InvalidRequest):
    """A newer release has migrated the store; this one does not know what it may write there."""


class Unavailable(RotaError):
    """We could not; trying again later may help."""


class StoreUnavailable(Unavailable):
    """The store did not commit. Nothing that was asked may be taken as done."""


class CoordinatorUnavailable(Unavailable):
    """The coordinator did not answer. Jobs run without it; who leads is not known."""


class BrokerUnavailable(Unavailable):
    """The broker did not answer. Nothing is lost: the store has it all, and workers ask it directly."""


class QueueFull(Unavailable):
    """As many jobs wait in the queue as may. What was refused was not submitted.

    `handles` are those of a submission of many: None stands for each that was refused, so that only those need be
    submitted again.
    """

    handles: Sequence[Any] = ()


class LeaseLost(Unavailable):
    """The job belongs to someone else now; what was to be written was refused."""


class HandlerError(RotaError):
    """The user's code did not succeed."""


class HandlerFailed(HandlerError):
    """The handler raised."""


class HandlerTimedOut(HandlerError):
    """The handler ran past its time limit."""
