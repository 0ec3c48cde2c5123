"""Rota, a durable task queue and scheduler for Python: SQLite to start, PostgreSQL or MariaDB to scale.

`__all__` is the public API; everything else is private. Names are imported when they are first used, so that
`rota --help` does not load the worker.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rota._lazy import lazy_names
from rota.version import __version__

if TYPE_CHECKING:
    from rota.core.errors import LockHeld, LockLost, RotaError
    from rota.sdk import (
        AsyncNamedLock,
        AsyncTask,
        Call,
        Handle,
        JobFailed,
        NamedLock,
        Options,
        ResultTimeout,
        Retry,
        Rota,
        Task,
    )
    from rota.worker import Cancelled, GiveUp, Happened, JobContext, OutcomeUnknown, RetryLater, current

if not TYPE_CHECKING and sys.platform == "win32":
    raise ImportError("Rota runs on Linux and macOS only; on Windows, run it in WSL (the Windows Subsystem for Linux)")

__all__ = [
    "AsyncNamedLock",
    "AsyncTask",
    "Call",
    "Cancelled",
    "GiveUp",
    "Handle",
    "Happened",
    "JobContext",
    "JobFailed",
    "LockHeld",
    "LockLost",
    "NamedLock",
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
    __getattr__ = lazy_names(
        __name__,
        {
            "core.errors": ["LockHeld", "LockLost", "RotaError"],
            "sdk": [
                "AsyncNamedLock",
                "AsyncTask",
                "Call",
                "Handle",
                "JobFailed",
                "NamedLock",
                "Options",
                "ResultTimeout",
                "Retry",
                "Rota",
                "Task",
            ],
            "worker.context": ["JobContext", "current"],
            "worker.exceptions": ["Cancelled", "GiveUp", "OutcomeUnknown", "RetryLater"],
            "worker.steps": ["Happened"],
        },
    )
