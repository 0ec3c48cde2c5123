"""Rota: the task scheduler that tells the truth.

What is listed in `__all__` is the public API; all else is private by not being listed. Names are loaded when they are
first used: who asks for `rota --help` does not wait for what runs jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.lazy import names_of

if TYPE_CHECKING:
    from rota.core.errors import RotaError
    from rota.sdk import AsyncTask, Call, Handle, JobFailed, Options, ResultTimeout, Retry, Rota, Task
    from rota.worker import Cancelled, GiveUp, Happened, JobContext, OutcomeUnknown, RetryLater, current

__version__ = "0.1.0"

__all__ = [
    "AsyncTask",
    "Call",
    "Cancelled",
    "GiveUp",
    "Handle",
    "Happened",
    "JobContext",
    "JobFailed",
    "Options",
    "OutcomeUnknown",
    "ResultTimeout",
    "Retry",
    "RetryLater",
    "Rota",
    "RotaError",
    "Task",
    "__version__",
    "current",
]

__getattr__ = names_of(
    __name__,
    {
        "core.errors": ["RotaError"],
        "sdk": ["AsyncTask", "Call", "Handle", "JobFailed", "Options", "ResultTimeout", "Retry", "Rota", "Task"],
        "worker.context": ["JobContext", "current"],
        "worker.signals": ["Cancelled", "GiveUp", "OutcomeUnknown", "RetryLater"],
        "worker.steps": ["Happened"],
    },
)
