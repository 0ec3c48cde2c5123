"""References to code, as in ``package.module:name``: given by the process that starts another, never by a payload.

The only place in the worker that imports by name. A worker sends its child processes a reference to the handler to run,
and its lease keeper one to its work source.
"""

from __future__ import annotations

import importlib
from typing import Any

from rota.core.errors import InvalidRequest


def resolve(reference: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    """Import the object that a reference names."""
    module, separator, path = reference.partition(":")
    if not (module and separator and path):
        raise InvalidRequest(f"{reference!r} is not a reference; write 'package.module:name'", field="reference")
    target: Any = importlib.import_module(module)
    for name in path.split("."):
        target = getattr(target, name)
    return target


def reference_to(function: object) -> str:
    """Return the reference of a function; refuse one that another process cannot import."""
    module = getattr(function, "__module__", None)
    path = getattr(function, "__qualname__", "")
    if module is None or module == "__main__" or "<" in path or not path:
        raise InvalidRequest(
            f"{module}:{path} cannot be imported by another process; move it to the top level of a module",
            field="executor",
        )
    return f"{module}:{path}"
