"""Shared configuration: settings that all running processes follow, and their allowed keys and values.

Only settings that are safe to change in a running process. Queues are paused and limited by their own rows in the
store, which every claim reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final

from rota.core.errors import InvalidRequest
from rota.core.value import value

LOG_LEVEL: Final = "log_level"
LEVELS: Final = ("debug", "info", "warning", "error")


@value
class Configuration:
    """The shared configuration as it was read. `revision` changes with every change."""

    values: Mapping[str, str] = field(default_factory=dict)
    revision: int = 0


def _level(value: str) -> str:
    if value.lower() not in LEVELS:
        raise InvalidRequest(f"{LOG_LEVEL}: {value!r} is none of {', '.join(LEVELS)}", field="value")
    return value.lower()


#: The allowed keys, and how each value is read.
KEYS: Final[Mapping[str, Callable[[str], str]]] = {LOG_LEVEL: _level}


def known(key: str) -> str:
    """Return a key, or refuse an unknown one."""
    if key not in KEYS:
        raise InvalidRequest(
            f"{key!r} is no key of the shared configuration; there are: {', '.join(KEYS)}", field="key"
        )
    return key


def checked(key: str, value: str) -> str:
    """Return a value as it is stored, or refuse it."""
    return KEYS[known(key)](value)
