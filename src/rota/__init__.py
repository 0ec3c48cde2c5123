"""Rota, a durable task queue and scheduler for Python: SQLite to start, PostgreSQL or MariaDB to scale.

What is listed in `__all__` is the public API; all else is private by not being listed. Names are loaded when they are
first used: who asks for `rota --help` does not wait for what runs jobs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rota.lazy import names_of
from rota.version import __version__

if TYPE_CHECKING:
    from rota.core.errors import RotaError
    from rota.sdk import AsyncTask, Call, Handle, JobFailed, Options, ResultTimeout, Retry, Rota, Task
    from rota.worker import Cancelled, GiveUp, Happened, JobContext, OutcomeUnknown, RetryLater, current

if not TYPE_CHECKING and sys.platform == "win32":
    raise ImportError("Rota runs on Linux and macOS only; on Windows, run it in WSL (the Windows Subsystem for Linux)")

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

# Hidden from type checkers, which would take any name for one of ours.
if not TYPE_CHECKING:
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
