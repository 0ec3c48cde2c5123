"""The worker: a process that runs handlers.

It claims as many jobs as it has free slots, renews their leases, stops handlers that must stop, and reports every
outcome. It does not decide the next state of a job (the core does) and uses no store directly: it is given a
`WorkSource`, in process or over HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota._lazy import lazy_names

if TYPE_CHECKING:
    from rota.worker.context import JobContext, current
    from rota.worker.exceptions import Cancelled, GiveUp, OutcomeUnknown, RetryLater
    from rota.worker.handlers import Handler, Handlers, handler_of
    from rota.worker.lease_keeper.client import SourceReference
    from rota.worker.options import WorkerOptions
    from rota.worker.steps import Happened
    from rota.worker.worker import Worker

__all__ = [
    "Cancelled",
    "GiveUp",
    "Handler",
    "Handlers",
    "Happened",
    "JobContext",
    "OutcomeUnknown",
    "RetryLater",
    "SourceReference",
    "Worker",
    "WorkerOptions",
    "current",
    "handler_of",
]

# Hidden from type checkers, which would accept any name.
if not TYPE_CHECKING:
    __getattr__ = lazy_names(
        __name__,
        {
            "context": ["JobContext", "current"],
            "exceptions": ["Cancelled", "GiveUp", "OutcomeUnknown", "RetryLater"],
            "handlers": ["Handler", "Handlers", "handler_of"],
            "lease_keeper.client": ["SourceReference"],
            "options": ["WorkerOptions"],
            "steps": ["Happened"],
            "worker": ["Worker"],
        },
    )
