"""Requests with retries over several addresses.

Every request is safe to repeat: claims have an id, settlements and renewals a fence, submissions an idempotency key.
After a failure it is sent again: at once to the next address, and with a pause after all of them have failed. A request
that the server refuses is not repeated.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from rota._httpx import httpx
from rota.client.httpx_transport import PooledTransport
from rota.core.errors import InvalidRequest, JobNotFound, KeyReused, RotaError, StoreUnavailable, Unavailable
from rota.ports.clock import Rng
from rota.tls import NO_FILES, ClientFiles
from rota.wire.problem import Problem

T = TypeVar("T")

#: Statuses of temporary errors: another address, or a later attempt, may succeed.
RETRIABLE: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
CONNECT_SECONDS: Final = 3.0
#: How long a response may take; then the connection counts as half-open, and the request is sent on another.
READ_SECONDS: Final = 7.0
#: The same for a long poll, counted from the end of its wait.
LATE_SECONDS: Final = 4.0
ROUNDS: Final = 3
LONGEST_PAUSE_SECONDS: Final = 5.0


class Refused(RotaError):
    """The server refused access: the token is missing, wrong, or lacks the action."""


class Transport:
    """Sends JSON requests to the first address that answers."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        token: str = "",
        tls: ClientFiles = NO_FILES,
        namespace: str = "",
        http_transport: httpx.AsyncBaseTransport | None = None,
        rng: Rng = random.random,
    ) -> None:
        if not urls:
            raise InvalidRequest("api_url: name at least one address", field="api_url")
        if token and any("@" in url.partition("://")[2].partition("/")[0] for url in urls):
            raise InvalidRequest(
                "api_url: a user and password in it take the place of the token, which is set too; remove one",
                field="api_url",
            )
        self._urls = [url.rstrip("/") for url in urls]
        self._current = 0
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "rota"}
        headers["Rota-Client"] = "sdk"
        # Unpacked, an answer may be a thousand times as large.
        headers["Accept-Encoding"] = "identity"
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if namespace:
            headers["Rota-Namespace"] = namespace
        self._http = httpx.AsyncClient(
            headers=headers, trust_env=False, transport=http_transport or PooledTransport(tls=tls)
        )
        self._rng = rng

    async def close(self) -> None:
        await self._http.aclose()

    async def request(
        self,
        method: str,
        path: str,
        form: type[T],
        *,
        body: msgspec.Struct | None = None,
        query: dict[str, Any] | None = None,
        wait_seconds: float = 0.0,
        read_seconds: float = READ_SECONDS,
    ) -> T:
        """Send a request, repeat it after temporary errors, and decode the response.

        `wait_seconds` is the wait of a long poll, `read_seconds` how long a response may take otherwise.
        """
        timeout_seconds = wait_seconds + LATE_SECONDS if wait_seconds else read_seconds
        content = None if body is None else msgspec.json.encode(body)
        failure: Exception = StoreUnavailable("not tried")
        for attempt in range(ROUNDS * len(self._urls)):
            retry_after = 0.0
            try:
                response = await self._send(method, path, content, query, timeout_seconds)
            except httpx.HTTPError as error:
                failure = Unavailable(f"{self._urls[self._current]}: {type(error).__name__}: {error}")
            else:
                if response.status_code < httpx.codes.BAD_REQUEST:
                    return self._decode(response, form)
                failure = _error_of(response)
                retry_after = _retry_after_seconds(response)
                if response.status_code not in RETRIABLE:
                    raise failure
            self._current = (self._current + 1) % len(self._urls)
            if (attempt + 1) % len(self._urls) == 0:
                await asyncio.sleep(max(self._pause(attempt // len(self._urls)), retry_after))
        raise failure

    def _pause(self, round_number: int) -> float:
        longest = min(0.1 * 2**round_number, LONGEST_PAUSE_SECONDS)
        return float(longest * (0.5 + self._rng() / 2))

    async def _send(
        self, method: str, path: str, content: bytes | None, query: dict[str, Any] | None, timeout_seconds: float
    ) -> httpx.Response:
        timeout = httpx.Timeout(timeout_seconds, connect=CONNECT_SECONDS)
        url = self._urls[self._current] + path
        return await self._http.request(method, url, content=content, params=query, timeout=timeout)

    def _decode(self, response: httpx.Response, form: type[T]) -> T:
        if form is type(None):
            return None
        try:
            return msgspec.json.decode(response.content, type=form)
        except msgspec.DecodeError as error:
            url = self._urls[self._current]
            raise Unavailable(f"{url}: the response is not from a Rota API ({error}); check the address") from None


def _retry_after_seconds(response: httpx.Response) -> float:
    """Return the `Retry-After` of a response, within a limit."""
    value = response.headers.get("retry-after", "")
    return min(float(value), LONGEST_PAUSE_SECONDS) if value.isdecimal() else 0.0


def _error_of(response: httpx.Response) -> Exception:
    try:
        problem = msgspec.json.decode(response.content, type=Problem)
        detail, field, code = problem.detail, problem.errors[0].field if problem.errors else None, problem.code
    except msgspec.DecodeError:
        detail, field, code = f"HTTP {response.status_code}", None, ""
    if response.status_code in {401, 403}:
        return Refused(f"{detail}; use a token that allows this")
    if response.status_code == httpx.codes.NOT_FOUND:
        return JobNotFound(detail, field=field)
    if response.status_code in RETRIABLE:
        return StoreUnavailable(detail)
    if code == "key_reused":
        return KeyReused(detail, field=field)
    return InvalidRequest(detail, field=field)
