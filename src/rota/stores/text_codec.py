"""Text codec: escapes characters that a database refuses (NUL, lone surrogates), and restores them exactly.

Submissions are checked before they are stored. But a handler may log anything, and its job must not fail when the log
is stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, overload

#: The character SUBSTITUTE begins an escape, so it is escaped itself.
_ESCAPE: Final = "\x1a"
_UNWRITABLE: Final = re.compile("[\0\x1a\ud800-\udfff]")
_ESCAPED: Final = re.compile("\x1a([0-9a-f]{4})")


@overload
def encode_text(text: str) -> str: ...
@overload
def encode_text(text: None) -> None: ...
@overload
def encode_text(text: str | None) -> str | None: ...
def encode_text(text: str | None) -> str | None:
    """Escape a text so that a database accepts it. Different texts stay different."""
    if text is None or _UNWRITABLE.search(text) is None:
        return text
    return _UNWRITABLE.sub(lambda match: f"{_ESCAPE}{ord(match[0]):04x}", text)


def decode_row(row: Iterable[Any]) -> tuple[Any, ...]:
    """Restore the texts of a row."""
    return tuple(_read(value) if isinstance(value, str) and _ESCAPE in value else value for value in row)


def _read(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
