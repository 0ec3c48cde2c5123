"""Rota: the task scheduler that tells the truth.

What is listed in `__all__` is the public API; all else is private by not being listed. Names are loaded when they are
first used: who asks for `rota --help` does not wait for what runs jobs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

_ROOMS = {"RotaError": "rota.core.errors"} | dict.fromkeys(
    ("Cancelled", "GiveUp", "Happened", "JobContext", "OutcomeUnknown", "RetryLater", "current"), "rota.worker"
)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name not in __all__:
        raise AttributeError(f"module 'rota' has no attribute {name!r}")
    found = getattr(import_module(_ROOMS.get(name, "rota.sdk")), name)
    globals()[name] = found
    return found
