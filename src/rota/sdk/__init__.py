"""The Python SDK: the app, its tasks, their options, and handles of submitted jobs."""

from __future__ import annotations

from rota.core.job import JobFailed
from rota.sdk.app import Rota
from rota.sdk.breakers import Breaker
from rota.sdk.flow import Failure, Flow, chain, group, map  # noqa: A004 - the word that everybody looks for
from rota.sdk.handle import Handle, ResultTimeout
from rota.sdk.locks import AsyncNamedLock, NamedLock
from rota.sdk.options import Options, Retry
from rota.sdk.task import AsyncTask, Call, Task
from rota.sdk.waiting import as_completed, wait_all
from rota.sdk.workflow_handle import WorkflowFailed, WorkflowHandle
from rota.sdk.workflows import Workflow

__all__ = [
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
]
