"""The process that runs handlers.

It claims what it has slots for, keeps the leases, stops what must stop, and reports every outcome. It decides nothing
about a job's fate (the core does) and knows no store: it is given a `WorkSource`, in process or over HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.lazy import names_of

if TYPE_CHECKING:
    from rota.worker.context import JobContext, current
    from rota.worker.escort import SourceReference
    from rota.worker.handlers import Handler, Handlers, handler_of
    from rota.worker.options import WorkerOptions
    from rota.worker.signals import Cancelled, GiveUp, OutcomeUnknown, RetryLater
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

# Hidden from type checkers, which would take any name for one of ours.
if not TYPE_CHECKING:
    __getattr__ = names_of(
        __name__,
        {
            "context": ["JobContext", "current"],
            "escort": ["SourceReference"],
            "handlers": ["Handler", "Handlers", "handler_of"],
            "options": ["WorkerOptions"],
            "signals": ["Cancelled", "GiveUp", "OutcomeUnknown", "RetryLater"],
            "steps": ["Happened"],
            "worker": ["Worker"],
        },
    )
