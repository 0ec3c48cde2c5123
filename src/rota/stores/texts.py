"""Texts that no database would take, written so that it does, and read back to the letter.

What submitters send is checked at the door. But a handler may log anything, a NUL or half a character included, and its
job must not fail for that when the log is written down.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, overload

#: SUBSTITUTE, which stands for what cannot be written; so it must be written differently itself.
_ESCAPE: Final = "\x1a"
_UNWRITABLE: Final = re.compile("[\0\x1a\ud800-\udfff]")
_ESCAPED: Final = re.compile("\x1a([0-9a-f]{4})")


@overload
def writable(text: str) -> str: ...
@overload
def writable(text: None) -> None: ...
@overload
def writable(text: str | None) -> str | None: ...
def writable(text: str | None) -> str | None:
    """Write a text so that a database takes it. Different texts stay different."""
    if text is None or _UNWRITABLE.search(text) is None:
        return text
    return _UNWRITABLE.sub(lambda found: f"{_ESCAPE}{ord(found[0]):04x}", text)


def readable(row: Iterable[Any]) -> tuple[Any, ...]:
    """Read the texts of a row as they were."""
    return tuple(_read(value) if isinstance(value, str) and _ESCAPE in value else value for value in row)


def _read(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
