"""Names of code, as in ``package.module:name``: given by whoever starts a process, never by a payload.

The only place that imports by name. A child process is told here which handler to run, a companion how to reach the
store, and both by the worker that started them.
"""

from __future__ import annotations

import importlib
from typing import Any

from rota.core.errors import InvalidRequest


def resolve(reference: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    """Find what a reference names."""
    module, separator, path = reference.partition(":")
    if not (module and separator and path):
        raise InvalidRequest(f"{reference!r} is not a reference; write 'package.module:name'", field="reference")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found


def reference_to(function: object) -> str:
    """Name a function so that another process finds it; refuse one that no other process can."""
    module = getattr(function, "__module__", None)
    path = getattr(function, "__qualname__", "")
    if module is None or module == "__main__" or "<" in path or not path:
        raise InvalidRequest(
            f"{module}:{path} cannot be found by another process; move it to the top level of a module of its own",
            field="executor",
        )
    return f"{module}:{path}"
