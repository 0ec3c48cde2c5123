"""Warnings about passwords that leave this machine without TLS, by the URLs of the store and the broker."""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from ipaddress import ip_address
from typing import Final
from urllib.parse import parse_qs, urlsplit

#: By scheme, the options by which TLS is required, and the remedy.
_REMEDIES: Final = {
    "postgresql": "add ?sslmode=verify-full",
    "mysql": "add ?tls=true",
    "redis": "write rediss://",
}
_FAMILIES: Final = {"postgres": "postgresql", "mariadb": "mysql", "valkey": "redis"}
#: `root:root@tcp(127.0.0.1:3310)/scheduler?parseTime=true`, as Go programs write it.
_GO_STYLE: Final = re.compile(r"(?P<who>.*)@tcp\((?P<address>[^()]*)\)/(?P<rest>.*)", re.DOTALL)
_REQUIRED: Final = frozenset({"require", "verify-ca", "verify-full"})
_log = logging.getLogger("rota")


@lru_cache(maxsize=64)
def warn_of_plain_text(setting: str, url: str) -> None:
    """Log a warning if a password goes to another machine without TLS; once for each URL."""
    remedy = remedy_for(url)
    if remedy:
        _log.warning("%s: its password goes to another machine without TLS that is required; %s", setting, remedy)


def remedy_for(url: str) -> str:
    """Return the remedy if the password in a URL goes to another machine without TLS; empty if it does not."""
    go_style = _GO_STYLE.fullmatch(url)
    if go_style is not None:
        url = f"mysql://{go_style['who'].replace('/', '%2F')}@{go_style['address']}/{go_style['rest']}"
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    scheme = parts.scheme.partition("+")[0]
    family = _FAMILIES.get(scheme, scheme)
    credentials, at, place = parts.netloc.rpartition("@")
    has_password = at and ":" in credentials and not credentials.endswith(":")
    if family not in _REMEDIES or not has_password or all(map(_is_local, place.split(","))):
        return ""
    return "" if _requires_tls(family, parse_qs(parts.query)) else _REMEDIES[family]


def _requires_tls(family: str, options: dict[str, list[str]]) -> bool:
    if family == "postgresql":
        return bool(_REQUIRED.intersection(options.get("sslmode", ())))
    if family == "mysql":
        has_files = bool(options.keys() & {"ssl_ca", "ssl_cert", "ssl_key"})
        return options.get("tls", ["true" if has_files else "false"])[0] in {"true", "1", "skip-verify"}
    return False


def _is_local(place: str) -> bool:
    host = place[1:].partition("]")[0] if place.startswith("[") else place.partition(":")[0]
    if host in {"", "localhost"} or host.startswith("%2F"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
