"""Redaction: remove passwords and tokens from URLs and messages."""

from __future__ import annotations

import re
from typing import Final

#: A password between a user's name and the host of a URL: `scheme://user:password@host`.
_IN_URL: Final = re.compile(r"(?<=://)([^:@/\s]*):([^\s]*)@")
#: A password in a data source name as Go programs write it: `user:password@tcp(host)/database`.
_IN_DSN: Final = re.compile(r"([\w.-]+):([^\s]*)@(?=(?:tcp|unix)\()")
#: A secret among the parameters of a URL, `?password=…&token=…`, or among words, `host=db password=…`.
_NAMED: Final = re.compile(
    r"((?:^|[?&;,\s\"'(])(?:[\w.-]*(?:password|passwd|secret|token|api_key|apikey)[\w.-]*|pwd)=)"
    r"(?:'[^']*'|\"[^\"]*\"|[^&;\s\"']*)",
    re.IGNORECASE,
)


def redacted(text: str) -> str:
    """Replace every password of a URL or data source name in a text by `***`."""
    if "://" not in text and "@" not in text and "=" not in text:
        return text
    text = _IN_URL.sub(r"\1:***@", text)
    text = _IN_DSN.sub(r"\1:***@", text)
    return _NAMED.sub(r"\1***", text)
