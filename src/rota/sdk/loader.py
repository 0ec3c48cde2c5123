"""Loads an app by name (`--app tasks:app`) and describes it for a process: handlers, schedules, defaults, queues."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest
from rota.runtime.assembly import AppDefinition
from rota.sdk.app import Rota
from rota.sdk.options import retry_of
from rota.sdk.task import AsyncTask, Task
from rota.wire.submission import Defaults
from rota.worker import Handler, handler_of
from rota.worker.exceptions import DEPENDENCY_ERRORS


def load_app(name: str) -> Rota:
    """Import the app that `module:name` names; the current folder is searched first."""
    module_name, separator, attribute = name.partition(":")
    if not separator:
        raise InvalidRequest(f"app: {name!r} must be module:name, as in tasks:app", field="app")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.split(".")[0]:
            raise
        raise InvalidRequest(f"app: no module {module_name!r} here or installed", field="app") from None
    app = getattr(module, attribute, None)
    if not isinstance(app, Rota):
        raise InvalidRequest(f"app: {module_name!r} has no Rota named {attribute!r}", field="app")
    return app


def definition_of(app: Rota) -> AppDefinition:
    tasks = app.tasks.values()
    return AppDefinition(
        handlers=tuple(_handler(app, name) for name in app.tasks),
        schedules=tuple(app.recurring),
        limits=tuple(app.limits),
        breakers=app.breakers.stored(app.name),
        app=app.name,
        defaults={task.name: _defaults_of(task) for task in tasks},
        queues=tuple(dict.fromkeys(task.template.queue for task in tasks)),
    )


def _defaults_of(task: Task[..., Any] | AsyncTask[..., Any]) -> Defaults:
    """Return the options of a task's jobs for submissions over HTTP that leave them out."""
    template = task.template
    return Defaults(
        max_attempts=template.max_attempts,
        backoff=template.backoff,
        timeout=template.timeout,
        queue=template.queue,
        priority=template.priority,
        delivery=template.delivery,
        expires=template.expires,
        delay=template.delay,
        concurrency_key=template.concurrency_key,
        tags=template.tags,
        meta=template.meta,
        on_success=template.on_success,
        on_failure=template.on_failure,
        control=task.control,
        argument_names=task.argument_names,
        argument_defaults=task.argument_defaults,
        per=task.per,
    )


def _handler(app: Rota, name: str) -> Handler:
    task = app.tasks[name]
    retry = retry_of(task.options["retry"]) if "retry" in task.options else None
    timeout = task.options.get("timeout")
    calls = app.batches.get(name)
    breaker = app.breakers.of(name)
    return handler_of(
        task.function if calls is None else calls.for_worker(),
        type=name,
        executor=app.executors[name] if calls is None else "async",
        timeout=None if timeout is None else parse_duration(timeout, field="timeout"),
        give_up_on=() if retry is None else retry.give_up_on,
        retry_on=(Exception,) if retry is None else retry.on,
        breaker=None if breaker is None else breaker.name,
        dependency_errors=DEPENDENCY_ERRORS if breaker is None else breaker.on,
    )
