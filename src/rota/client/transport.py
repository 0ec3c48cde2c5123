"""Requests that arrive: several addresses, one after the other, with patience and without losing anything.

Every request here is safe to repeat (claims have an id, settlements and renewals a fence, submissions a key or an id
made here), so whatever goes wrong on the way, it is sent again: at once to the next address, and after all of them
have failed, later. What the server refuses is not repeated.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from rota.client.wire import Wire
from rota.core.errors import InvalidRequest, JobNotFound, RotaError, StoreUnavailable, Unavailable
from rota.lean import httpx
from rota.ports.clock import Dice
from rota.wire.problem import Problem

T = TypeVar("T")

#: Statuses that say «not now»: another address, or a later time, may do better.
NOT_NOW: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
CONNECT_SECONDS: Final = 3.0
#: How long an answer may take; after so long the connection is taken for half-open, and the request is sent on another.
READ_SECONDS: Final = 7.0
#: The same where the server was told to wait for something, counted from the end of that wait.
LATE_SECONDS: Final = 4.0
ROUNDS: Final = 3
LONGEST_PAUSE_SECONDS: Final = 5.0


class Refused(RotaError):
    """The server does not let us: the token is missing, wrong, or not enough."""


class Transport:
    """Sends JSON to whichever address answers."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        token: str = "",
        wire: httpx.AsyncBaseTransport | None = None,
        dice: Dice = random.random,
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
        # Unpacked, an answer may be a thousand times as large.
        headers["Accept-Encoding"] = "identity"
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._http = httpx.AsyncClient(headers=headers, trust_env=False, transport=wire or Wire())
        self._dice = dice

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    async def ask(
        self,
        method: str,
        path: str,
        answer: type[T],
        *,
        body: msgspec.Struct | None = None,
        query: dict[str, Any] | None = None,
        wait_seconds: float = 0.0,
        read_seconds: float = READ_SECONDS,
    ) -> T:
        """Send a request, again if need be, and read its answer.

        `wait_seconds` is how long the server was asked to wait, `read_seconds` how long an answer may take otherwise.
        """
        patience = wait_seconds + LATE_SECONDS if wait_seconds else read_seconds
        content = None if body is None else msgspec.json.encode(body)
        problem: Exception = StoreUnavailable("not tried")
        for attempt in range(ROUNDS * len(self._urls)):
            told_to_wait = 0.0
            try:
                response = await self._send(method, path, content, query, patience)
            except httpx.HTTPError as error:
                problem = Unavailable(f"{self._urls[self._current]}: {type(error).__name__}: {error}")
            else:
                if response.status_code < httpx.codes.BAD_REQUEST:
                    return self._read(response, answer)
                problem = _problem_of(response)
                told_to_wait = _told_to_wait(response)
                if response.status_code not in NOT_NOW:
                    raise problem
            self._current = (self._current + 1) % len(self._urls)
            if (attempt + 1) % len(self._urls) == 0:
                await asyncio.sleep(max(self._pause(attempt // len(self._urls)), told_to_wait))
        raise problem

    def _pause(self, round_number: int) -> float:
        longest = min(0.1 * 2**round_number, LONGEST_PAUSE_SECONDS)
        return float(longest * (0.5 + self._dice() / 2))

    async def _send(
        self, method: str, path: str, content: bytes | None, query: dict[str, Any] | None, patience: float
    ) -> httpx.Response:
        timeout = httpx.Timeout(patience, connect=CONNECT_SECONDS)
        url = self._urls[self._current] + path
        return await self._http.request(method, url, content=content, params=query, timeout=timeout)

    def _read(self, response: httpx.Response, answer: type[T]) -> T:
        if answer is type(None):
            return None
        try:
            return msgspec.json.decode(response.content, type=answer)
        except msgspec.DecodeError as error:
            where = self._urls[self._current]
            raise Unavailable(f"{where} answered something we cannot read ({error}); is it a Rota API?") from None


def _told_to_wait(response: httpx.Response) -> float:
    """Read how long the server asks us to stay away; not for ever."""
    told = response.headers.get("retry-after", "")
    return min(float(told), LONGEST_PAUSE_SECONDS) if told.isdecimal() else 0.0


def _problem_of(response: httpx.Response) -> Exception:
    try:
        told = msgspec.json.decode(response.content, type=Problem)
        detail, field = told.detail, told.errors[0].field if told.errors else None
    except msgspec.DecodeError:
        detail, field = f"HTTP {response.status_code}", None
    if response.status_code in {401, 403}:
        return Refused(f"{detail}; bring a token that may do this")
    if response.status_code == httpx.codes.NOT_FOUND:
        return JobNotFound(detail, field=field)
    if response.status_code in NOT_NOW:
        return StoreUnavailable(detail)
    return InvalidRequest(detail, field=field)
