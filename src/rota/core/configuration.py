"""The shared configuration: what all running processes heed, and what may stand in it.

Only what is safe to change under a running process is here. Queues are paused and limited in the store, where every
claim looks: a second place to say the same would be a second truth.
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
    """The shared configuration as it was read. `revision` differs whenever anything does."""

    values: Mapping[str, str] = field(default_factory=dict)
    revision: int = 0


def _level(value: str) -> str:
    if value.lower() not in LEVELS:
        raise InvalidRequest(f"{LOG_LEVEL}: {value!r} is none of {', '.join(LEVELS)}", field="value")
    return value.lower()


#: What may stand in the configuration, and how each value is read.
KEYS: Final[Mapping[str, Callable[[str], str]]] = {LOG_LEVEL: _level}


def known(key: str) -> str:
    """Give a key, or refuse one that nobody heeds."""
    if key not in KEYS:
        raise InvalidRequest(
            f"{key!r} is no key of the shared configuration; there are: {', '.join(KEYS)}", field="key"
        )
    return key


def checked(key: str, value: str) -> str:
    """Give a value as it is stored, or refuse it."""
    return KEYS[known(key)](value)
