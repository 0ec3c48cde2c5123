"""Redaction: remove passwords and tokens from URLs and messages, and values of secret keys from JSON values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from rota.core.value import value

#: What stands for a value that a reader may not see.
REDACTED: Final = "[redacted]"

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
#: A secret in JSON, or in Python's notation of a dictionary: `"password": "…"`.
_QUOTED: Final = re.compile(
    r"""((["'])[\w.-]*(?:password|passwd|secret|token|api[_-]?key|authorization|cookie)\2\s*:\s*)"""
    r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""",
    re.IGNORECASE,
)
#: The value of a header: `Authorization: Bearer …`.
_HEADER: Final = re.compile(r"((?:^|[\s\"'(])(?:proxy-)?authorization:\s*)(?:\w+\s+)?[^\s\"',)]+", re.IGNORECASE)


def redacted(text: str) -> str:
    """Replace every password of a URL or data source name, and every value with a secret's name, by `***`."""
    if ":" in text:
        text = _HEADER.sub(r"\1***", _QUOTED.sub(r'\1"***"', text))
    if "://" not in text and "@" not in text and "=" not in text:
        return text
    text = _IN_URL.sub(r"\1:***@", text)
    text = _IN_DSN.sub(r"\1:***@", text)
    return _NAMED.sub(r"\1***", text)


#: Keys whose values are secret unless the settings say otherwise.
SECRET_KEYS: Final = (
    "*password", "passwd", "pwd", "*passphrase", "*secret", "*token", "*api_key", "*access_key", "*private_key",
    "*credential", "*credentials", "*authorization", "cookie", "set_cookie",
)  # fmt: skip
_IGNORED: Final = str.maketrans("", "", "_-. ")


@value
class SecretKeys:
    """Patterns of keys in JSON whose values are secret; upper case, `_`, `-`, dots and blanks make no difference.

    A star stands for any characters, at the beginning or at the end of a pattern: `*password` is also
    `db_password`.
    """

    patterns: tuple[str, ...] = SECRET_KEYS

    def match(self, key: str) -> bool:
        """Return whether the value of a key is secret."""
        plain = _plain(key)
        return any(_fits(plain, pattern) for pattern in map(_plain, self.patterns))

    def redact(self, data: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Return a JSON value in which secrets are replaced; the same object if there are none."""
        if isinstance(data, str):
            return redacted(data)
        if isinstance(data, dict):
            pairs = {
                key: REDACTED if one is not None and self.match(key) else self.redact(one) for key, one in data.items()
            }
            return data if all(pairs[key] is data[key] for key in data) else pairs
        if isinstance(data, list):
            items = [self.redact(one) for one in data]
            return data if _are_same(items, data) else items
        return data


def _are_same(some: Iterable[object], others: Iterable[object]) -> bool:
    return all(one is other for one, other in zip(some, others, strict=True))


def _plain(key: str) -> str:
    return key.lower().translate(_IGNORED)


def _fits(plain: str, pattern: str) -> bool:
    bare = pattern.strip("*")
    if pattern.startswith("*"):
        return bare in plain if pattern.endswith("*") else plain.endswith(bare)
    return plain.startswith(bare) if pattern.endswith("*") else plain == bare
