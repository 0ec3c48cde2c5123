"""The built-in type `http`: one request, guarded.

Only http and https, only to addresses the guard allows, checked again for each redirect (three at most), and
connected to by the address that was checked, with the name kept for Host and TLS. What the submitter's headers say
goes to the first origin only. Proxies from the environment are not used: they would resolve names for us, unchecked.

The job's id goes along as `Idempotency-Key`, the same in every attempt. An answer of 429 or 503 that says when to
come back is not a failure: the job comes back then.
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

from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest
from rota.lean import httpx
from rota.worker.builtin.addresses import Guard
from rota.worker.builtin.checking import fields_of, kind_of, text_in
from rota.worker.context import current
from rota.worker.signals import GiveUp, RetryLater

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
#: Ours, or the connection's, to set.
_OUR_HEADERS: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "keep-alive"}
)
#: What may follow a redirect to another origin.
_TRAVELLING: Final = frozenset({"accept", "accept-language", "user-agent", "content-type", "idempotency-key"})


@dataclass(frozen=True, slots=True)
class Order:
    """A request, as a payload asks for it."""

    url: httpx.URL
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    expect: frozenset[int] = frozenset()
    timeout: timedelta = DEFAULT_TIMEOUT

    def expects(self, status: int) -> bool:
        """Say whether an answer is what was hoped for."""
        return status in self.expect if self.expect else httpx.codes.is_success(status)


def check_http(payload: object) -> None:
    """Refuse what `http` could not do."""
    order_of(payload)


def order_of(payload: object) -> Order:
    """Read a payload."""
    fields = fields_of(payload, FIELDS)
    method = text_in(fields, "method", longest=10, default="GET").upper()
    if method not in METHODS:
        raise InvalidRequest(f"payload.method: must be one of {', '.join(METHODS)}", field="payload.method")
    headers = _headers(fields.get("headers"))
    body, is_json = _body(fields.get("body"))
    if is_json and "content-type" not in headers:
        headers["content-type"] = "application/json"
    return Order(
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
        return f"has no port {url.port}"
    if url.userinfo:
        return "must not carry a password; use the header Authorization"
    return ""


def _headers(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > _MOST_HEADERS:
        told = f"must be an object of at most {_MOST_HEADERS} names and texts"
        raise InvalidRequest(f"payload.headers: {told}", field="payload.headers")
    headers = {}
    for name, content in value.items():
        place = f"payload.headers.{name[:100]}"
        if not name or not _TOKEN.issuperset(name) or name.lower() in _OUR_HEADERS:
            raise InvalidRequest(f"{place}: is no header a job may set", field=place)
        if not isinstance(content, str) or not content.isprintable() or not content.isascii():
            raise InvalidRequest(f"{place}: must be printable ASCII text", field=place)
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
            told = f"must be a status from 100 to 599 or an array of them, not {kind_of(status)}"
            raise InvalidRequest(f"payload.expect_status: {told}", field="payload.expect_status")
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
    """Performs requests within what a guard allows."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def __call__(self, payload: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        """Perform a request and give what came back."""
        order = order_of(payload)
        order = replace(order, headers={"idempotency-key": current().id, **order.headers})
        try:
            async with asyncio.timeout(order.timeout.total_seconds()):
                return await self._perform(order)
        except (TimeoutError, httpx.TimeoutException):
            raise TimeoutError(f"{order.url.host} gave no answer within {order.timeout.total_seconds():g} s") from None

    async def _perform(self, order: Order) -> dict[str, Any]:
        expected = order
        for _ in range(MOST_REDIRECTS + 1):
            answer = await self._ask(order)
            if answer.location is None or answer.status in expected.expect:
                return _judge(expected, answer)
            order = _redirected(order, answer)
        raise GiveUp(f"{expected.url.host} redirects more than {MOST_REDIRECTS} times")

    async def _ask(self, order: Order) -> Answer:
        """Ask one server, at the first of its checked addresses that can be reached."""
        url = order.url
        port = url.port or (443 if url.scheme == "https" else 80)
        addresses = await self._guard.resolve(url.host, port)
        async with httpx.AsyncClient(verify=_tls(), trust_env=False, timeout=order.timeout.total_seconds()) as client:
            for number, address in enumerate(addresses, 1):
                try:
                    return await _ask_at(client, order, address)
                except httpx.ConnectError as error:
                    if number == len(addresses):
                        raise ConnectionError(f"{url.host} cannot be reached: {error}") from None
        raise ConnectionError(f"{url.host} has no address")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said."""

    status: int
    headers: Mapping[str, str]
    body: str
    is_cut: bool

    @property
    def location(self) -> str | None:
        """Where it sends us, if it does."""
        return self.headers.get("location") if self.status in {301, 302, 303, 307, 308} else None


async def _ask_at(client: httpx.AsyncClient, order: Order, address: str) -> Answer:
    # Connect by address; the name stays for Host, for SNI and for the certificate.
    headers = {"accept-encoding": "identity", "user-agent": "rota", **order.headers, "host": order.url.netloc.decode()}
    request = client.build_request(
        order.method,
        order.url.copy_with(host=address),
        headers=headers,
        content=order.body or None,
        extensions={"sni_hostname": order.url.host},
    )
    response = await client.send(request, stream=True)
    body = bytearray()
    try:
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > BODY_BYTES:
                break
    finally:
        await response.aclose()
    text = bytes(body[:BODY_BYTES]).decode("utf-8", "replace").replace("\0", "\\0")
    return Answer(response.status_code, dict(response.headers), text, is_cut=len(body) > BODY_BYTES)


def _redirected(order: Order, answer: Answer) -> Order:
    """Follow a redirect as browsers do, and leave the submitter's headers behind at another origin."""
    try:
        url = _url(str(order.url.join(answer.location or "")))
    except (InvalidRequest, httpx.InvalidURL) as error:
        raise GiveUp(f"{order.url.host} redirects to something that cannot be followed: {error}") from None
    headers = order.headers
    if _origin(url) != _origin(order.url):
        headers = {name: content for name, content in headers.items() if name in _TRAVELLING}
    becomes_get = answer.status == httpx.codes.SEE_OTHER or (
        answer.status in {httpx.codes.MOVED_PERMANENTLY, httpx.codes.FOUND} and order.method == "POST"
    )
    if becomes_get and order.method != "HEAD":
        headers = {name: content for name, content in headers.items() if name != "content-type"}
        return replace(order, url=url, headers=headers, method="GET", body=b"")
    return replace(order, url=url, headers=headers)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _judge(order: Order, answer: Answer) -> dict[str, Any]:
    if order.expects(answer.status):
        headers = {name: content for name, content in answer.headers.items() if name != "set-cookie"}
        return {"status": answer.status, "headers": headers, "body": answer.body, "is_cut": answer.is_cut}
    if answer.status in {httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE}:
        delay = retry_after(answer.headers.get("retry-after"))
        if delay is not None:
            raise RetryLater(delay, f"{order.url.host} answered {answer.status} and asks to come back later")
    raise HttpFailed(f"{order.url.host} answered {answer.status}: {answer.body[:500]}")


class HttpFailed(Exception):
    """The server answered with a status that was not expected."""


def retry_after(told: str | None) -> timedelta | None:
    """Read a Retry-After header, in seconds or as a date; None when it says nothing we understand."""
    if told is None:
        return None
    delay = None
    if told.strip().isdecimal():
        delay = timedelta(seconds=min(int(told.strip()[:9]), LONGEST_RETRY_AFTER.total_seconds()))
    else:
        with suppress(ValueError, TypeError, OverflowError):
            moment = parsedate_to_datetime(told)
            delay = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime.now(UTC)
    if delay is None:
        return None
    return min(max(delay, timedelta(0)), LONGEST_RETRY_AFTER)


@cache
def _tls() -> ssl.SSLContext:
    """Load the certificates once: it takes longer than most requests."""
    return ssl.create_default_context()
