"""The HTTP client for etcd's JSON gateway, with failover between nodes.

A call goes to the node that answered last. If a node refuses the connection, does not answer in time or has no leader,
the next one is tried; after all failed, there is a pause before the next round, until the call times out. So the loss
of one node of three costs a moment within one call, and the loss of two ends in `CoordinatorUnavailable`.

A call whose response was lost may have been executed, and is sent again: writes must be idempotent. Tokens are kept
until etcd refuses one: it forgets them after some minutes, when users change, and when it restarts.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

from rota._httpx import httpx
from rota.coordination.etcd.location import EtcdLocation
from rota.core.errors import CoordinatorUnavailable
from rota.sockets import OPTIONS

#: The timeouts of a call over all nodes, and of one node.
CALL_SECONDS: Final = 4.0
NODE_SECONDS: Final = 1.5
_PAUSE_SECONDS: Final = 0.1
#: gRPC codes.
NOT_FOUND, FAILED_PRECONDITION, UNAUTHENTICATED = 5, 9, 16
_TRANSIENT: Final = frozenset({1, 4, 10, 14})
_OLD_TOKEN: Final = ("invalid auth token", "revision of auth store is old", "user name is empty")


class EtcdRefused(CoordinatorUnavailable):
    """Etcd answered with an error."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(f"etcd refused: {message}")
        self.code = code

    @property
    def needs_token(self) -> bool:
        """Whether etcd refused the auth token, so that the request may succeed after a new login."""
        return self.code == UNAUTHENTICATED or any(words in str(self) for words in _OLD_TOKEN)


class _NodeTimeout(CoordinatorUnavailable):
    """A node did not answer in time."""


class EtcdGateway:
    """Sends requests to the nodes of an etcd cluster."""

    def __init__(
        self, location: EtcdLocation, *, timeout: float = CALL_SECONDS, node_timeout: float = NODE_SECONDS
    ) -> None:
        self._location = location
        self._timeout = timeout
        self._node_timeout = node_timeout
        self._place = 0
        self._token: str | None = None
        # Without proxies from the environment, which are for the internet.
        transport = httpx.AsyncHTTPTransport(verify=location.context(), trust_env=False, socket_options=OPTIONS)
        self._client = httpx.AsyncClient(transport=transport, trust_env=False)

    async def call(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request, to one node after the other, until one answers."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._timeout
        problems: dict[str, str] = {}
        may_renew = bool(self._location.user)
        while (left := give_up_at - loop.time()) > 0:
            endpoint = self._endpoint
            try:
                return await self._request(endpoint, path, body, min(left, self._node_timeout))
            except EtcdRefused as refusal:
                if not (refusal.needs_token and may_renew and self._token is not None):
                    raise
                # Once: if a new token is refused, another new one will be too.
                self._token, may_renew = None, False
            except (httpx.HTTPError, CoordinatorUnavailable) as error:
                # That the last moment was too short says less than what it said before.
                if endpoint not in problems or not isinstance(error, _NodeTimeout):
                    problems[endpoint] = str(error) or type(error).__name__
                self._switch_from(endpoint)
                if len(problems) >= len(self._location.endpoints):
                    await asyncio.sleep(min(_PAUSE_SECONDS, max(give_up_at - loop.time(), 0)))
        causes = "; ".join(f"{endpoint}: {problem}" for endpoint, problem in problems.items())
        raise CoordinatorUnavailable(f"etcd does not answer ({causes})")

    async def listen(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """Send a request to one node and give the lines of its streamed response."""
        endpoint = self._endpoint
        timeout = httpx.Timeout(self._node_timeout, read=None)
        try:
            headers = await self._headers(endpoint, self._node_timeout)
            url = f"{endpoint}{path}"
            async with self._client.stream("POST", url, json=body, headers=headers, timeout=timeout) as response:
                async for line in response.aiter_lines():
                    yield _parsed(response, line)
        except httpx.HTTPError as error:
            self._switch_from(endpoint)
            raise CoordinatorUnavailable(f"etcd: the stream of {endpoint} ended: {error}") from error

    async def close(self) -> None:
        await self._client.aclose()

    @property
    def _endpoint(self) -> str:
        return self._location.endpoints[self._place % len(self._location.endpoints)]

    def _switch_from(self, endpoint: str) -> None:
        """Use another node from now on, unless a concurrent call has switched already."""
        if endpoint == self._endpoint:
            self._place += 1

    async def _request(self, endpoint: str, path: str, body: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        return await self._post(f"{endpoint}{path}", body, await self._headers(endpoint, seconds), seconds)

    async def _headers(self, endpoint: str, seconds: float) -> dict[str, str]:
        if not self._location.user:
            return {}
        if self._token is None:
            credentials = {"name": self._location.user, "password": self._location.password}
            response = await self._post(f"{endpoint}/v3/auth/authenticate", credentials, {}, seconds)
            self._token = str(response.get("token", ""))
        return {"Authorization": self._token}

    async def _post(
        self, url: str, body: Mapping[str, Any], headers: Mapping[str, str], seconds: float
    ) -> dict[str, Any]:
        # One limit for the whole response: httpx restarts its timeout with every byte.
        try:
            async with asyncio.timeout(seconds):
                response = await self._client.post(url, json=body, headers=headers, timeout=seconds)
        except TimeoutError:
            raise _NodeTimeout(f"no answer within {seconds:.1f} s") from None
        return _parsed(response, response.text)


def _parsed(response: httpx.Response, text: str) -> dict[str, Any]:
    """Parse a response, or raise its error. Until etcd 3.5 an error is in `error`, since 3.6 it is the body."""
    try:
        body: dict[str, Any] = json.loads(text)
    except ValueError:
        start = " ".join(text.split())[:200]
        raise CoordinatorUnavailable(f"HTTP {response.status_code}: {start!r}; is this an etcd?") from None
    error = body.get("error")
    if response.is_success and not error:
        result: dict[str, Any] = body.get("result", body)
        return result
    detail = error if isinstance(error, dict) else body
    message = str(detail.get("message") or error or f"HTTP {response.status_code}")
    code = int(detail.get("code") or detail.get("grpc_code") or 0)
    if code in _TRANSIENT or (not code and response.is_server_error):
        raise CoordinatorUnavailable(message)
    raise EtcdRefused(message, code)


def encoded(text: str) -> str:
    """Encode a key or a value in base64."""
    return b64encode(text.encode()).decode()


def decoded(text: str) -> str:
    """Decode a key or a value."""
    return b64decode(text).decode(errors="replace")
