"""Named advisory locks: the allowed names and times.

A lock saves work. It does not prevent double effects: a holder that was suspended may continue after its lock has
lapsed. Only a check of the fence where the effect happens prevents that.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest

SHORTEST_HOLD: Final = timedelta(seconds=1)
LONGEST_HOLD: Final = timedelta(days=1)
LONGEST_NAME: Final = 200
#: A lock's name is a part of a path. The lookahead is for Python, whose `$` also matches before a final newline.
NAME_PATTERN: Final = r"^[^\s/,\x00-\x1f\x7f]+(?!\n)$"
#: A holder renews its lock this many times within `hold`.
RENEWALS_PER_HOLD: Final = 3


def check_lock_name(name: object) -> str:
    """Return a lock's name, or refuse it."""
    if not isinstance(name, str) or len(name) > LONGEST_NAME or re.search(NAME_PATTERN, name) is None:
        rule = f"give a text of 1 to {LONGEST_NAME} characters without blank, comma or slash"
        raise InvalidRequest(f"name: {ascii(name)[:60]} is not the name of a lock; {rule}", field="name")
    return name


def hold_of(value: timedelta | float | str) -> timedelta:
    """Read how long a lock is held unless it is renewed."""
    hold = parse_duration(value, field="hold")
    if not SHORTEST_HOLD <= hold <= LONGEST_HOLD:
        message = f"hold: {ascii(value)[:42]} must lie between 1 s and 1 day; a lock is renewed while it is held"
        raise InvalidRequest(message, field="hold")
    return hold
