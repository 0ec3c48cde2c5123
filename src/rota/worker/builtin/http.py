"""The built-in job type `http`: one HTTP request, protected against server-side request forgery.

Only http and https, only to addresses that the guard allows, checked again for each redirect (three at most). The
connection goes to the address that was checked, with the name kept for Host and TLS. The submitter's headers are sent
to the first origin only. Proxies from the environment are not used: they would resolve names without the check.

The job's id is sent as `Idempotency-Key`, the same in every attempt. A response of 429 or 503 with Retry-After is not a
failure: the job runs again at that time.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, Final

import msgspec

from rota._httpx import httpx
from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest
from rota.worker.builtin.addresses import AddressGuard
from rota.worker.builtin.payloads import fields_of, kind_of, text_in
from rota.worker.context import current
from rota.worker.exceptions import GiveUp, RetryLater

FIELDS: Final = ("url", "method", "headers", "body", "expect_status", "timeout")
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
MOST_REDIRECTS: Final = 3
BODY_BYTES: Final = 1_000_000
DEFAULT_TIMEOUT: Final = timedelta(seconds=30)
LONGEST_TIMEOUT: Final = timedelta(hours=1)
LONGEST_RETRY_AFTER: Final = timedelta(hours=1)
_LONGEST_URL: Final = 8192
_MOST_HEADERS: Final = 100
_LARGEST_PORT: Final = 65535
_TOKEN: Final = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
#: Set by Rota or by the connection.
_OUR_HEADERS: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "keep-alive"}
)
#: What may follow a redirect to another origin.
_KEPT_ON_REDIRECT: Final = frozenset({"accept", "accept-language", "user-agent", "content-type", "idempotency-key"})


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request as described by a payload."""

    url: httpx.URL
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    expect: frozenset[int] = frozenset()
    timeout: timedelta = DEFAULT_TIMEOUT

    def expects(self, status: int) -> bool:
        """Return whether a status counts as success."""
        return status in self.expect if self.expect else httpx.codes.is_success(status)


def check_http(payload: object) -> None:
    """Refuse a payload that `http` cannot run."""
    request_of(payload)


def request_of(payload: object) -> HttpRequest:
    fields = fields_of(payload, FIELDS)
    method = text_in(fields, "method", longest=10, default="GET").upper()
    if method not in METHODS:
        raise InvalidRequest(f"payload.method: must be one of {', '.join(METHODS)}", field="payload.method")
    headers = _headers(fields.get("headers"))
    body, is_json = _body(fields.get("body"))
    if is_json and "content-type" not in headers:
        headers["content-type"] = "application/json"
    return HttpRequest(
        url=_url(text_in(fields, "url", longest=_LONGEST_URL)),
        method=method,
        headers=headers,
        body=body,
        expect=_statuses(fields.get("expect_status")),
        timeout=_timeout(fields.get("timeout")),
    )


def _url(text: str) -> httpx.URL:
    try:
        url = httpx.URL(text)
        problem = _problem_of(url)
    except (httpx.InvalidURL, UnicodeError, ValueError) as error:
        problem = str(error)
    if problem:
        raise InvalidRequest(f"payload.url: {problem}", field="payload.url")
    return url


def _problem_of(url: httpx.URL) -> str:
    if url.scheme not in {"http", "https"}:
        return f"must begin with http:// or https://, not {url.scheme or 'nothing'}"
    if not url.host:
        return "has no host"
    if url.port is not None and not 0 < url.port <= _LARGEST_PORT:
        return f"port {url.port} is not between 1 and {_LARGEST_PORT}"
    if url.userinfo:
        return "must not contain a password; use the header Authorization"
    return ""


def _headers(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > _MOST_HEADERS:
        problem = f"must be an object of at most {_MOST_HEADERS} names and texts"
        raise InvalidRequest(f"payload.headers: {problem}", field="payload.headers")
    headers = {}
    for name, content in value.items():
        where = f"payload.headers.{name[:100]}"
        if not name or not _TOKEN.issuperset(name) or name.lower() in _OUR_HEADERS:
            raise InvalidRequest(f"{where}: a job may not set this header", field=where)
        if not isinstance(content, str) or not content.isprintable() or not content.isascii():
            raise InvalidRequest(f"{where}: must be printable ASCII text", field=where)
        headers[name.lower()] = content
    return headers


def _body(value: object) -> tuple[bytes, bool]:
    if value is None:
        return b"", False
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace"), False
    return msgspec.json.encode(value), True


def _statuses(value: object) -> frozenset[int]:
    if value is None:
        return frozenset()
    statuses = value if isinstance(value, list) else [value]
    for status in statuses:
        if isinstance(status, bool) or not isinstance(status, int) or not 100 <= status <= 599:  # noqa: PLR2004 - HTTP's
            problem = f"must be a status from 100 to 599 or an array of them, not {kind_of(status)}"
            raise InvalidRequest(f"payload.expect_status: {problem}", field="payload.expect_status")
    return frozenset(statuses)


def _timeout(value: object) -> timedelta:
    if value is None:
        return DEFAULT_TIMEOUT
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InvalidRequest(f"payload.timeout: must be a duration, not {kind_of(value)}", field="payload.timeout")
    span = parse_duration(value, field="payload.timeout")
    if not timedelta(0) < span <= LONGEST_TIMEOUT:
        raise InvalidRequest("payload.timeout: must be more than 0 and at most 1h", field="payload.timeout")
    return span


class Http:
    """Sends requests to the addresses that a guard allows."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard

    async def __call__(self, payload: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        """Send a request and return the response."""
        request = request_of(payload)
        request = replace(request, headers={"idempotency-key": current().id, **request.headers})
        try:
            async with asyncio.timeout(request.timeout.total_seconds()):
                return await self._perform(request)
        except (TimeoutError, httpx.TimeoutException):
            raise TimeoutError(
                f"{request.url.host} gave no answer within {request.timeout.total_seconds():g} s"
            ) from None

    async def _perform(self, request: HttpRequest) -> dict[str, Any]:
        expected = request
        for _ in range(MOST_REDIRECTS + 1):
            response = await self._send(request)
            if response.location is None or response.status in expected.expect:
                return _result_of(expected, response)
            request = _redirected(request, response)
        raise GiveUp(f"{expected.url.host} redirects more than {MOST_REDIRECTS} times")

    async def send_once(self, request: HttpRequest) -> HttpResponse:
        """Send a request, and return the response whatever its status; redirects are not followed."""
        return await self._send(request)

    async def _send(self, request: HttpRequest) -> HttpResponse:
        """Send to the first of the checked addresses that can be reached."""
        url = request.url
        port = url.port or (443 if url.scheme == "https" else 80)
        addresses = await self._guard.resolve(url.host, port)
        async with httpx.AsyncClient(verify=_tls(), trust_env=False, timeout=request.timeout.total_seconds()) as client:
            for number, address in enumerate(addresses, 1):
                try:
                    return await _send_to(client, request, address)
                except httpx.ConnectError as error:
                    if number == len(addresses):
                        raise ConnectionError(f"{url.host} cannot be reached: {error}") from None
        raise ConnectionError(f"{url.host} has no address")


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response, cut to the size that is kept."""

    status: int
    headers: Mapping[str, str]
    body: str
    is_cut: bool

    @property
    def location(self) -> str | None:
        """The target of a redirect."""
        return self.headers.get("location") if self.status in {301, 302, 303, 307, 308} else None


async def _send_to(client: httpx.AsyncClient, request: HttpRequest, address: str) -> HttpResponse:
    # Connect by address; the name stays for Host, for SNI and for the certificate.
    own = {"accept-encoding": "identity", "user-agent": "rota"}
    message = client.build_request(
        request.method,
        request.url.copy_with(host=address),
        headers={**own, **request.headers, "host": request.url.netloc.decode()},
        content=request.body or None,
        extensions={"sni_hostname": request.url.host},
    )
    response = await client.send(message, stream=True)
    body = bytearray()
    try:
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > BODY_BYTES:
                break
    finally:
        await response.aclose()
    text = bytes(body[:BODY_BYTES]).decode("utf-8", "replace").replace("\0", "\\0")
    return HttpResponse(response.status_code, dict(response.headers), text, is_cut=len(body) > BODY_BYTES)


def _redirected(request: HttpRequest, response: HttpResponse) -> HttpRequest:
    """Return the request for a redirect, as browsers do; the submitter's headers do not go to another origin."""
    try:
        url = _url(str(request.url.join(response.location or "")))
    except (InvalidRequest, httpx.InvalidURL) as error:
        raise GiveUp(f"{request.url.host} redirects to something that cannot be followed: {error}") from None
    headers = request.headers
    if _origin(url) != _origin(request.url):
        headers = {name: content for name, content in headers.items() if name in _KEPT_ON_REDIRECT}
    becomes_get = response.status == httpx.codes.SEE_OTHER or (
        response.status in {httpx.codes.MOVED_PERMANENTLY, httpx.codes.FOUND} and request.method == "POST"
    )
    if becomes_get and request.method != "HEAD":
        headers = {name: content for name, content in headers.items() if name != "content-type"}
        return replace(request, url=url, headers=headers, method="GET", body=b"")
    return replace(request, url=url, headers=headers)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _result_of(request: HttpRequest, response: HttpResponse) -> dict[str, Any]:
    if request.expects(response.status):
        headers = {name: content for name, content in response.headers.items() if name != "set-cookie"}
        return {"status": response.status, "headers": headers, "body": response.body, "is_cut": response.is_cut}
    if response.status in {httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE}:
        delay = retry_after(response.headers.get("retry-after"))
        if delay is not None:
            raise RetryLater(delay, f"{request.url.host} answered {response.status} and asks for a retry later")
    kind = HttpServerFailed if response.status >= httpx.codes.INTERNAL_SERVER_ERROR else HttpFailed
    raise kind(f"{request.url.host} answered {response.status}: {response.body[:500]}")


class HttpFailed(Exception):
    """The server responded with an unexpected status."""


class HttpServerFailed(HttpFailed, ConnectionError):
    """The server responded with a status of 500 or more: to a circuit breaker, as if it could not be reached."""


def retry_after(header: str | None) -> timedelta | None:
    """Parse a Retry-After header, in seconds or as a date; None if it cannot be parsed."""
    if header is None:
        return None
    delay = None
    if header.strip().isdecimal():
        delay = timedelta(seconds=min(int(header.strip()[:9]), LONGEST_RETRY_AFTER.total_seconds()))
    else:
        with suppress(ValueError, TypeError, OverflowError):
            moment = parsedate_to_datetime(header)
            delay = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime.now(UTC)
    if delay is None:
        return None
    return min(max(delay, timedelta(0)), LONGEST_RETRY_AFTER)


@cache
def _tls() -> ssl.SSLContext:
    """Load the certificates once: it takes longer than most requests."""
    return ssl.create_default_context()
