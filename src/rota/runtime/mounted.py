"""The API and the dashboard as an ASGI application that another application mounts below a path of its own.

Everything is opened on the loop of the server by the first request, because many frameworks do not pass the lifespan on
to what they mount. It is closed by the end of the lifespan, or by `aclose`. Until then this process is a member of the
cluster with the role `api`. If the store is not available, requests are answered with 503, and the next one tries
again.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from rota.api import Api
from rota.api.http import AsgiScope, Receive, Send
from rota.core.cluster import Role
from rota.core.errors import InvalidRequest, RotaError
from rota.runtime.api_server import build_api
from rota.runtime.assembly import AppDefinition, build_membership
from rota.runtime.history import HistoryWriter
from rota.runtime.link import Link, open_link
from rota.settings import Settings
from rota.worker.builtin import CHECKS, load_http

_log = logging.getLogger("rota.api")


class MountedApi:
    """An ASGI application that serves the API of one store."""

    def __init__(self, url: str, settings: Settings, app: AppDefinition, *, trusts_callers: bool) -> None:
        if url.startswith(("http://", "https://")):
            raise InvalidRequest("asgi() needs a store; an API over HTTP is already served", field="url")
        self._url, self._app = url, app
        # The outer application does authentication, and decides under which host names it is reached.
        self._settings = replace(settings, token="", insecure=True) if trusts_callers else settings
        self._trusts_callers = trusts_callers
        self._api: Api | None = None
        self._link: Link | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._opening: asyncio.Lock | None = None

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        try:
            api = await self._opened()
        except RotaError as error:
            _log.warning("the mounted API cannot be opened: %s", error)
            await _unavailable(scope, send)
            return
        await api(scope, receive, send)

    async def aclose(self) -> None:
        """Stop and close the store; the next request opens it again."""
        api, link, tasks = self._api, self._link, self._tasks
        self._api, self._link, self._tasks = None, None, []
        if api is not None:
            await api.aclose()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if link is not None:
            await link.close()

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self.aclose()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return

    async def _opened(self) -> Api:
        if self._api is not None:
            return self._api
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._api is None:
                self._api = await self._open()
        return self._api

    async def _open(self) -> Api:
        link = await open_link(self._settings, self._url)
        assert link.engine is not None
        engine = link.engine
        membership = build_membership(self._settings, engine, [Role.API])
        assert membership is not None
        # Before the first request: payloads of the built-in type `http` are checked with its client.
        load_http()
        api = build_api(engine, self._settings, self._app, membership, CHECKS, known_types=None)
        if self._trusts_callers:
            api.context.settings = replace(api.context.settings, is_exposed=False)
        self._link = link
        self._start(membership.run())
        self._start(HistoryWriter(engine).run())
        api.start_counting()
        return api

    def _start(self, component: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(component))


async def _unavailable(scope: AsgiScope, send: Send) -> None:
    if scope["type"] != "http":
        return
    problem = {
        "type": "urn:rota:problem:store_unavailable",
        "title": "Service Unavailable",
        "status": 503,
        "detail": "the store is not available",
        "code": "store_unavailable",
        "fix": "check that the store runs; the log has the cause",
    }
    headers = [(b"content-type", b"application/problem+json"), (b"retry-after", b"1")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(problem).encode()})
