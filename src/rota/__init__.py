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
        Breaker,
        Call,
        Failure,
        Flow,
        Handle,
        JobFailed,
        NamedLock,
        Options,
        ResultTimeout,
        Retry,
        Rota,
        Task,
        Workflow,
        WorkflowFailed,
        WorkflowHandle,
        as_completed,
        chain,
        group,
        map,  # noqa: A004 - the word that everybody looks for
        wait_all,
    )
    from rota.worker import Cancelled, GiveUp, Happened, JobContext, OutcomeUnknown, RetryLater, current

if not TYPE_CHECKING and sys.platform == "win32":
    raise ImportError("Rota runs on Linux and macOS only; on Windows, run it in WSL (the Windows Subsystem for Linux)")

__all__ = [
    "AsyncNamedLock",
    "AsyncTask",
    "Breaker",
    "Call",
    "Cancelled",
    "Failure",
    "Flow",
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
    "Workflow",
    "WorkflowFailed",
    "WorkflowHandle",
    "__version__",
    "as_completed",
    "chain",
    "current",
    "group",
    "map",
    "wait_all",
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
                "Breaker",
                "Call",
                "Failure",
                "Flow",
                "Handle",
                "JobFailed",
                "NamedLock",
                "Options",
                "ResultTimeout",
                "Retry",
                "Rota",
                "Task",
                "Workflow",
                "WorkflowFailed",
                "WorkflowHandle",
                "as_completed",
                "chain",
                "group",
                "map",
                "wait_all",
            ],
            "worker.context": ["JobContext", "current"],
            "worker.exceptions": ["Cancelled", "GiveUp", "OutcomeUnknown", "RetryLater"],
            "worker.steps": ["Happened"],
        },
    )
