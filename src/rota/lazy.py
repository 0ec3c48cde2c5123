"""Packages whose names are loaded when they are first used.

A package that loads all its rooms makes whoever needs one of them pay for all: the companion of a worker would load
the worker, and `rota --help` what runs jobs. So such a package has a table of its names and their rooms.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def names_of(package: str, rooms: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Give a package its `__getattr__`: it finds a name in the room below it, and keeps it for the next time."""
    room_of = {name: f"{package}.{room}" for room, names in rooms.items() for name in names}

    sys.modules[package].__dir__ = lambda: sorted({*vars(sys.modules[package]), *room_of})  # type: ignore[method-assign]

    def find(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
        if name not in room_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            found = getattr(import_module(room_of[name]), name)
        except AttributeError as error:
            # Python takes an AttributeError for a name that does not exist, and would not say what went wrong.
            raise ImportError(f"cannot load {name!r} from {package!r}: {error}", name=package) from error
        setattr(sys.modules[package], name, found)
        return found

    return find
