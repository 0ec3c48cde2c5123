"""Request limits: size and number of requests, open event streams, and the count of rejected requests.

Rejections are counted for `/metrics` and logged at most once a minute per reason: a client without a token can cause
thousands of them a second, and one log line for each would fill the disk.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from typing import Any, Final

from rota.api.errors import HttpError, body_too_large, too_many_requests
from rota.api.settings import Limits
from rota.telemetry import metric_definitions
from rota.telemetry.metrics import Counts

LOG_EVERY_SECONDS: Final = 60.0
#: Reported as 0 from the start, so that alerts on the first rejection work.
_REASONS: Final = (
    "unauthorized", "too_many_failures", "invalid_http", "headers_too_large", "too_slow", "write_timeout",
    "too_many_connections", "too_many_bytes", "too_many_requests", "tls_handshake",
    "token_limit", "namespace_limit", "too_many_logins",
)  # fmt: skip
#: A name, an IPv4 address or an IPv6 address in brackets, and an optional port; may be empty.
_HOST: Final = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(:[0-9]*)?")
#: Headers with a single value that are read before the route is known; routes declare the others they read.
_SINGLE: Final = frozenset(
    {b"authorization", b"content-encoding", b"content-type", b"host", b"origin", b"rota-namespace"}
)
_log = logging.getLogger("rota.api")


def check_request(scope: Mapping[str, Any], headers: Mapping[bytes, bytes], limits: Limits, in_flight: int) -> None:
    """Refuse a request that is too large, one too many, or ambiguous."""
    if in_flight > limits.in_flight:
        raise too_many_requests("too many requests are under way")
    address = scope.get("raw_path") or scope["path"].encode()
    if len(address) + len(scope["query_string"]) > limits.url_bytes:
        raise HttpError(414, "url_too_long", f"the address is longer than {limits.url_bytes} bytes")
    pairs = scope["headers"]
    if len(pairs) > limits.header_count or sum(map(len, chain.from_iterable(pairs))) > limits.header_bytes:
        allowed = f"{limits.header_count} headers of {limits.header_bytes} bytes together are allowed"
        raise HttpError(431, "headers_too_large", f"too many or too long headers; {allowed}")
    length = headers.get(b"content-length")
    if length is not None and not (length.isdigit() and int(length) <= limits.body_bytes):
        most_bytes = limits.body_bytes_at(scope["path"])
        if not length.isdigit() or int(length) > most_bytes:
            raise body_too_large(most_bytes)
    if b"content-encoding" in headers and headers[b"content-encoding"] != b"identity":
        raise HttpError(415, "unsupported_media_type", "compressed bodies are not accepted", fix="send it uncompressed")
    if len(headers) < len(pairs) or not _is_host(headers.get(b"host")):
        _refuse_ambiguity(scope, headers)


def _refuse_ambiguity(scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> None:
    """Refuse a missing or wrong `Host` (RFC 9112, 3.2), and a repeated header that has a single value."""
    host = headers.get(b"host")
    if host is None:
        if scope.get("http_version") == "1.1":
            raise HttpError(400, "invalid_http", "the header 'Host' is missing")
    elif not _is_host(host):
        raise HttpError(400, "invalid_http", "the header 'Host' is not the name or address of a server")
    names = [name for name, _ in scope["headers"] if name in _SINGLE]
    for name in names:
        if names.count(name) > 1:
            raise HttpError(400, "invalid_http", f"the header '{name.decode().title()}' is repeated; send it once")


@lru_cache(maxsize=64)
def _is_host(host: bytes | None) -> bool:
    return host is not None and _HOST.fullmatch(host) is not None


class StreamSlots:
    """Counts open event streams, in total and per caller: each holds a connection for as long as it likes."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: Counter[str] = Counter()

    def enter(self, caller: str) -> None:
        """Count a new stream of a caller, or refuse it."""
        limits = self._limits
        if self._open.total() >= limits.streams:
            raise too_many_requests(f"{limits.streams} streams are open already")
        if self._open[caller] >= limits.streams_per_caller:
            raise too_many_requests(f"{limits.streams_per_caller} streams of yours are open already; close one")
        self._open[caller] += 1

    def leave(self, caller: str) -> None:
        self._open[caller] -= 1
        if not self._open[caller]:
            del self._open[caller]


class RejectionCounts:
    """Counts rejected requests and connections by reason; a reason is the `code` of the error response."""

    def __init__(self) -> None:
        self.counts = Counts(metric_definitions.HTTP_REJECTED)
        for reason in _REASONS:
            self.counts.add((reason,), 0)
        #: Rejections since the last log line; a reason is a key while its minute runs.
        self._unlogged: Counter[str] = Counter()
        self._last_source: dict[str, str] = {}

    def add(self, reason: str, source: str) -> None:
        """Count a rejection, and log it if none with this reason was logged in the last minute."""
        self.counts.add((reason,))
        self._last_source[reason] = source
        if reason in self._unlogged:
            self._unlogged[reason] += 1
            return
        _log.warning("rejected a request: %s (from %s)", reason, source)
        self._begin_minute(reason)

    def _begin_minute(self, reason: str) -> None:
        self._unlogged[reason] = 0
        asyncio.get_running_loop().call_later(LOG_EVERY_SECONDS, self._end_minute, reason)

    def _end_minute(self, reason: str) -> None:
        count = self._unlogged.pop(reason)
        if count:
            seconds, source = LOG_EVERY_SECONDS, self._last_source[reason]
            _log.warning("rejected %d requests in %.0f s: %s (last from %s)", count, seconds, reason, source)
            self._begin_minute(reason)
