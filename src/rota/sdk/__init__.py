"""The Python SDK: the app, its tasks, their options, and handles of submitted jobs."""

from __future__ import annotations

from rota.sdk.app import Rota
from rota.sdk.handle import Handle, JobFailed, ResultTimeout
from rota.sdk.locks import AsyncNamedLock, NamedLock
from rota.sdk.options import Options, Retry
from rota.sdk.task import AsyncTask, Call, Task

__all__ = [
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
]
