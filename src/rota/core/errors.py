"""All exceptions that Rota raises, one shallow tree.

::

    RotaError
    ├── InvalidRequest        you asked wrongly
    │   ├── InvalidCron
    │   ├── JobNotFound
    │   ├── ScheduleNotFound
    │   ├── TokenNotFound
    │   ├── IllegalTransition
    │   ├── KeyReused
    │   └── SchemaTooNew
    └── Unavailable           we could not
        ├── StoreUnavailable
        ├── CoordinatorUnavailable
        ├── BrokerUnavailable
        ├── QueueFull
        ├── LockHeld
        ├── LockLost
        └── LeaseLost

The third kind, your code failed, is `rota.JobFailed`, which the handle of a job raises.

A message names the thing, the value and the remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class RotaError(Exception):
    """The root of all exceptions of Rota."""


class InvalidRequest(RotaError, ValueError):
    """The request is wrong or not allowed; repeating it does not help."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class InvalidCron(InvalidRequest):
    """A cron expression that cannot be read or can never fire."""


class JobNotFound(InvalidRequest):
    """No job has this id: it never existed or was pruned."""


class ScheduleNotFound(InvalidRequest):
    """No schedule has this id or name."""


class TokenNotFound(InvalidRequest):
    """No token has this id or name."""


class IllegalTransition(InvalidRequest):
    """The job's state does not allow this move."""


class KeyReused(InvalidRequest):
    """An idempotency key was used again with another request."""


class SchemaTooNew(InvalidRequest):
    """A newer release has migrated the store; writing to it with this one may not be safe."""


class Unavailable(RotaError):
    """The service cannot do it now; trying again later may help."""


class StoreUnavailable(Unavailable):
    """The store did not confirm the commit. The call may or may not have taken effect."""


class CoordinatorUnavailable(Unavailable):
    """The coordinator did not answer. Jobs run without it; the leader is not known."""


class BrokerUnavailable(Unavailable):
    """The broker did not answer. Nothing is lost: the store has all jobs, and workers ask it directly."""


class QueueFull(Unavailable):
    """The queue has reached its bound; the refused jobs were not submitted.

    For a submission of many jobs, `handles` has a handle for each accepted job and None for each refused one, so that
    only those need to be submitted again.
    """

    handles: Sequence[Any] = ()


class LockHeld(Unavailable):
    """Another holder has the named lock, and did not release it within the wait."""


class LockLost(Unavailable):
    """A named lock was not renewed in time or was released by an operator; another holder may have it."""


class LeaseLost(Unavailable):
    """Another worker has the job now, or it has ended; the write was refused."""
