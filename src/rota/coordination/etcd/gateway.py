"""Asking etcd, node after node, over its JSON gateway.

A call stays with the node that answered last. A node that refuses the connection, does not answer in time or has no
leader is left for the next; when all were asked in vain we take a breath and begin again, until our patience ends. So
the loss of one node of three costs a moment within one call, and the loss of two ends in `CoordinatorUnavailable`.

A call whose answer was lost may have happened, and is sent again: whoever writes must not mind (see coordinator.py).
Tokens are kept until etcd refuses one: it forgets them after some minutes, when users change, and when it restarts.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

from rota.coordination.etcd.location import Location
from rota.core.errors import CoordinatorUnavailable
from rota.lean import httpx
from rota.sockets import OPTIONS

#: How long a call may take in all, and how long one node is waited for.
PATIENCE_SECONDS: Final = 4.0
NODE_SECONDS: Final = 1.5
_BREATH_SECONDS: Final = 0.1
#: What etcd answers: codes of gRPC.
NOT_FOUND, FAILED_PRECONDITION, UNAUTHENTICATED = 5, 9, 16
_PASSING: Final = frozenset({1, 4, 10, 14})
_OLD_TOKEN: Final = ("invalid auth token", "revision of auth store is old", "user name is empty")


class EtcdRefused(CoordinatorUnavailable):
    """Etcd answered, and did not do it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(f"etcd refused: {message}")
        self.code = code

    @property
    def wants_token(self) -> bool:
        """Whether a fresh token may help."""
        return self.code == UNAUTHENTICATED or any(words in str(self) for words in _OLD_TOKEN)


class _Silent(CoordinatorUnavailable):
    """A node did not answer in time."""


class Gateway:
    """Asks a cluster of etcd."""

    def __init__(
        self, location: Location, *, patience: float = PATIENCE_SECONDS, node_patience: float = NODE_SECONDS
    ) -> None:
        self._location = location
        self._patience = patience
        self._node_patience = node_patience
        self._place = 0
        self._token: str | None = None
        # Proxies of the environment are for the world outside.
        transport = httpx.AsyncHTTPTransport(verify=location.context(), trust_env=False, socket_options=OPTIONS)
        self._client = httpx.AsyncClient(transport=transport, trust_env=False)

    async def call(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Ask until a node answers."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._patience
        problems: dict[str, str] = {}
        may_renew = bool(self._location.user)
        while (left := give_up_at - loop.time()) > 0:
            endpoint = self._endpoint
            try:
                return await self._ask(endpoint, path, body, min(left, self._node_patience))
            except EtcdRefused as refusal:
                if not (refusal.wants_token and may_renew and self._token is not None):
                    raise
                # Once: a token that is refused when it is fresh will not be better the next time.
                self._token, may_renew = None, False
            except (httpx.HTTPError, CoordinatorUnavailable) as error:
                # That the last moment was too short says less than what it said before.
                if endpoint not in problems or not isinstance(error, _Silent):
                    problems[endpoint] = str(error) or type(error).__name__
                self._leave(endpoint)
                if len(problems) >= len(self._location.endpoints):
                    await asyncio.sleep(min(_BREATH_SECONDS, max(give_up_at - loop.time(), 0)))
        told = "; ".join(f"{endpoint}: {problem}" for endpoint, problem in problems.items())
        raise CoordinatorUnavailable(f"etcd does not answer ({told})")

    async def listen(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """Ask one node and give what it has to say, bit by bit, until it falls silent for good."""
        endpoint = self._endpoint
        timeout = httpx.Timeout(self._node_patience, read=None)
        try:
            headers = await self._headers(endpoint, self._node_patience)
            url = f"{endpoint}{path}"
            async with self._client.stream("POST", url, json=body, headers=headers, timeout=timeout) as response:
                async for line in response.aiter_lines():
                    yield _told(response, line)
        except httpx.HTTPError as error:
            self._leave(endpoint)
            raise CoordinatorUnavailable(f"etcd: {endpoint} fell silent: {error}") from error

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    @property
    def _endpoint(self) -> str:
        return self._location.endpoints[self._place % len(self._location.endpoints)]

    def _leave(self, endpoint: str) -> None:
        """Ask another node from now on, unless somebody else has already moved on."""
        if endpoint == self._endpoint:
            self._place += 1

    async def _ask(self, endpoint: str, path: str, body: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        return await self._post(f"{endpoint}{path}", body, await self._headers(endpoint, seconds), seconds)

    async def _headers(self, endpoint: str, seconds: float) -> dict[str, str]:
        if not self._location.user:
            return {}
        if self._token is None:
            who = {"name": self._location.user, "password": self._location.password}
            told = await self._post(f"{endpoint}/v3/auth/authenticate", who, {}, seconds)
            self._token = str(told.get("token", ""))
        return {"Authorization": self._token}

    async def _post(
        self, url: str, body: Mapping[str, Any], headers: Mapping[str, str], seconds: float
    ) -> dict[str, Any]:
        # One limit for all of it: a node that sends a byte now and then is no better than one that sends none.
        try:
            async with asyncio.timeout(seconds):
                response = await self._client.post(url, json=body, headers=headers, timeout=seconds)
        except TimeoutError:
            raise _Silent(f"no answer within {seconds:.1f} s") from None
        return _told(response, response.text)


def _told(response: httpx.Response, text: str) -> dict[str, Any]:
    """Read an answer, or raise what it says. Until 3.5 a refusal is under `error`, since 3.6 it is the whole answer."""
    try:
        told: dict[str, Any] = json.loads(text)
    except ValueError:
        said = " ".join(text.split())[:200]
        raise CoordinatorUnavailable(f"HTTP {response.status_code}: {said!r}; is this an etcd?") from None
    error = told.get("error")
    if response.is_success and not error:
        result: dict[str, Any] = told.get("result", told)
        return result
    detail = error if isinstance(error, dict) else told
    message = str(detail.get("message") or error or f"HTTP {response.status_code}")
    code = int(detail.get("code") or detail.get("grpc_code") or 0)
    if code in _PASSING or (not code and response.is_server_error):
        raise CoordinatorUnavailable(message)
    raise EtcdRefused(message, code)


def encoded(text: str) -> str:
    """Write a key or a value as the gateway takes it."""
    return b64encode(text.encode()).decode()


def decoded(word: str) -> str:
    """Read a key or a value."""
    return b64decode(word).decode(errors="replace")
