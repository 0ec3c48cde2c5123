"""All exceptions that Rota raises, one shallow tree.

::

    RotaError
    ├── InvalidRequest        the request is wrong
    │   ├── InvalidCron
    │   ├── JobNotFound
    │   ├── ScheduleNotFound
    │   ├── TokenNotFound
    │   ├── WorkerNotFound
    │   ├── WebhookNotFound
    │   ├── NamespaceNotFound
    │   ├── IllegalTransition
    │   ├── KeyReused
    │   ├── DecryptionFailed
    │   └── SchemaTooNew
    └── Unavailable           the service failed
        ├── StoreUnavailable
        ├── TooManyLogins
        ├── CoordinatorUnavailable
        ├── BrokerUnavailable
        ├── QueueFull
        ├── NamespaceFull
        ├── LockHeld
        ├── LockLost
        ├── KeyMissing
        └── LeaseLost

The third kind, a failed handler, is `rota.JobFailed`, which the handle of a job raises.

A message names the thing, the value and the remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
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


class WorkerNotFound(InvalidRequest):
    """No process with this name or boot is on record."""


class WebhookNotFound(InvalidRequest):
    """No webhook has this id or name."""


class NamespaceNotFound(InvalidRequest):
    """No namespace has this name, or the caller may not know of it."""


class IllegalTransition(InvalidRequest):
    """The job's state does not allow this move."""


class KeyReused(InvalidRequest):
    """An idempotency key was used again with another request."""


class DecryptionFailed(InvalidRequest):
    """An encrypted text was changed, belongs to another job or field, or was made with another key of this name."""


class SchemaTooNew(InvalidRequest):
    """A newer release has migrated the store; writing to it with this one may not be safe."""


class Unavailable(RotaError):
    """The service cannot do it now; trying again later may help."""


class StoreUnavailable(Unavailable):
    """The store did not confirm the commit. The call may or may not have taken effect."""


class TooManyLogins(Unavailable):
    """More people log in than passwords can be checked; each takes a processor for a while."""


class CoordinatorUnavailable(Unavailable):
    """The coordinator did not answer. Jobs run without it; the leader is not known."""


class BrokerUnavailable(Unavailable):
    """The broker did not answer. Nothing is lost: the store has all jobs, and workers claim from it directly."""


class QueueFull(Unavailable):
    """The queue has reached its bound; the refused jobs were not submitted.

    For a submission of many jobs, `handles` has a handle for each accepted job and None for each refused one, so that
    only those need to be submitted again. The API also estimates when there is a place again, which position a job
    would have, and when it would start.
    """

    handles: Sequence[Any] = ()
    retry_after: timedelta | None = None
    position: int | None = None
    expected_start: datetime | None = None


class NamespaceFull(Unavailable):
    """As many jobs wait in the namespace as may; none of the refused call was submitted."""


class LockHeld(Unavailable):
    """Another holder has the named lock, and did not release it within the wait."""


class LockLost(Unavailable):
    """A named lock was not renewed in time or was released by an operator; another holder may have it."""


class KeyMissing(Unavailable):
    """An encrypted text needs a key that is not configured here."""


class LeaseLost(Unavailable):
    """Another worker has the job now, or it has ended; the write was refused."""
