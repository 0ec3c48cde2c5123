"""What a worker knows to do: the tasks of an app, and the built-in types beside them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from pathlib import Path

from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest
from rota.sdk.app import Rota
from rota.sdk.options import retry_of
from rota.worker import Handler, Handlers, handler_of
from rota.worker.builtin import builtin_handlers


def load_app(name: str) -> Rota:
    """Find the app that `module:name` names; the current folder is looked in first."""
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


def handlers_of(app: Rota | None, *, allow_hosts: Iterable[str] = (), file_root: str = "") -> Handlers:
    """Gather the handlers of a worker; an app's task goes before a built-in type of the same name."""
    handlers = Handlers([] if app is None else [_handler(app, name) for name in app.tasks])
    root = Path(file_root) if file_root else None
    for handler in builtin_handlers(allow_hosts=allow_hosts, file_root=root):
        if handlers.lookup(handler.type) is None:
            handlers.register(handler)
    return handlers


def _handler(app: Rota, name: str) -> Handler:
    task = app.tasks[name]
    retry = retry_of(task.options["retry"]) if "retry" in task.options else None
    timeout = task.options.get("timeout")
    return handler_of(
        task.function,
        type=name,
        executor=app.executors[name],
        timeout=None if timeout is None else parse_duration(timeout, field="timeout"),
        give_up_on=() if retry is None else retry.give_up_on,
        retry_on=(Exception,) if retry is None else retry.on,
    )
