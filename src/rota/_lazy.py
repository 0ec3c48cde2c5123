"""Lazy names of a package (PEP 562): a name is imported when it is first used.

A package that imports all its modules makes a caller of one pay for all: the lease keeper would load the worker, and
`rota --help` the code that runs jobs. Such a package has a table of its names and their modules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package: it imports a name from its module and keeps it for the next use."""
    module_of = {name: f"{package}.{module}" for module, names in modules.items() for name in names}

    sys.modules[package].__dir__ = lambda: sorted({*vars(sys.modules[package]), *module_of})  # type: ignore[method-assign]

    def find(name: str) -> Any:  # noqa: ANN401 - any exported object
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(module_of[name]), name)
        except AttributeError as error:
            # Python would report an AttributeError as a missing name and hide the cause.
            raise ImportError(f"cannot load {name!r} from {package!r}: {error}", name=package) from error
        setattr(sys.modules[package], name, value)
        return value

    return find
