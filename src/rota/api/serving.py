"""Serving the API: uvicorn inside an asyncio program, bound where it may be, stopped without cutting anyone off.

Cancelling `serve` is the signal to stop: no new connections, whoever waits is answered at once, requests under way are
finished, and only then does it end. Cancelling it again hurries.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, Protocol

from uvicorn import Config, Server

from rota.api.auth import is_loopback
from rota.api.calls import AsgiScope, Receive, Send
from rota.api.deadlines import Timeouts
from rota.api.guarding import guarded
from rota.api.rejections import Rejections
from rota.api.settings import ApiSettings
from rota.core.errors import InvalidRequest
from rota.sockets import keep_alive

_BACKLOG: Final = 2_048
_REMIND_EVERY: Final = timedelta(minutes=1)
_log = logging.getLogger("rota.api")

Ready = Callable[[str, int], None]

__all__ = ["Ready", "Served", "Timeouts", "bind_checked", "check_bind", "serve"]


class Served(Protocol):
    """An application that can be served: it says how it wants to be, and can be told to end."""

    @property
    def settings(self) -> ApiSettings:
        """Its keys and limits."""
        ...

    @property
    def rejections(self) -> Rejections:
        """Where requests are counted that no route has seen."""
        ...

    def close(self) -> None:
        """Answer whoever waits; requests are still served."""
        ...

    async def aclose(self) -> None:
        """End for good."""
        ...

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        ...


def check_bind(host: str, has_token: bool, insecure: bool, *, field: str = "host") -> None:  # noqa: FBT001 - the runtime's contract
    """Refuse to be reachable from elsewhere without asking for a token (S1)."""
    if has_token or insecure or _stays_here(host):
        return
    raise InvalidRequest(
        f"{field}: {host or '0.0.0.0'!r} can be reached from other machines and no token is set, so anyone could"  # noqa: S104 - refusing it
        " run jobs here; set ROTA_TOKEN, bind to 127.0.0.1, or say --insecure if you mean it",
        field=field,
    )


def _stays_here(host: str) -> bool:
    if is_loopback(host):
        return True
    try:
        found = socket.getaddrinfo(host or None, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        return False
    return all(is_loopback(str(address[0])) for *_, address in found)


async def serve(
    app: Served,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    insecure: bool = False,
    on_ready: Ready | None = None,
    timeouts: Timeouts | None = None,
    sockets: list[socket.socket] | None = None,
) -> None:
    """Serve until cancelled. `on_ready` is told the address once requests are taken; port 0 chooses a free one.

    `sockets` are bound already, by `bind_checked`; without them the port is bound here.
    """
    has_token = bool(app.settings.keys)
    times = timeouts or Timeouts()
    if sockets is None:
        sockets = bind_checked(host, port, has_token, insecure)
    server = _Server(_config(app, times), sockets, on_ready)
    serving = asyncio.create_task(server.serve(sockets), name="rota-api")
    reminder = None
    if not has_token and not _stays_here(host):
        reminder = asyncio.create_task(_remind(host), name="rota-api-reminder")
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        app.close()
        server.should_exit = True
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            server.force_exit = True
            await serving
        raise
    finally:
        if reminder is not None:
            reminder.cancel()
        await app.aclose()


def bind_checked(host: str, port: int, has_token: bool, insecure: bool, *, field: str = "host") -> list[socket.socket]:  # noqa: FBT001 - as above
    """Listen on every address of a host, unless anyone could reach it without a token."""
    check_bind(host, has_token, insecure, field=field)
    return bind(host, port)


def bind(host: str, port: int) -> list[socket.socket]:
    """Listen on every address of a host; refuse with a sentence what cannot be had."""
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in dict.fromkeys((one[0], one[4][:2]) for one in found):
            # With port 0 all addresses get the port that the first one got.
            taken = sockets[0].getsockname()[1] if sockets else port
            listener = socket.create_server((str(address[0]), taken), family=family, backlog=_BACKLOG)
            sockets.append(listener)
            # What is accepted inherits this. A caller that reads slowly has the write deadline, not the kernel's.
            keep_alive(listener)
    except (OSError, OverflowError) as error:
        for one in sockets:
            one.close()
        in_use = getattr(error, "errno", None) == errno.EADDRINUSE
        why = "another program listens there; choose another with --port" if in_use else str(error)
        raise InvalidRequest(f"port: cannot listen on {host}:{port}: {why}", field="port") from None
    return sockets


def _config(app: Served, timeouts: Timeouts) -> Config:
    return Config(
        app,
        http=guarded(app.settings.limits, timeouts, app.rejections),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=math.ceil(timeouts.idle.total_seconds()),
        timeout_graceful_shutdown=math.ceil(timeouts.grace.total_seconds()),
    )


class _Server(Server):
    """uvicorn's server, without its hands on the signals: those belong to the program it runs in."""

    def __init__(self, config: Config, sockets: Sequence[socket.socket], on_ready: Ready | None) -> None:
        super().__init__(config)
        self._sockets = sockets
        self._on_ready = on_ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to take requests, and tell so."""
        await super().startup(sockets)
        if self._on_ready is not None:
            host, port = self._sockets[0].getsockname()[:2]
            self._on_ready(str(host), int(port))


async def _remind(host: str) -> None:
    while True:
        _log.warning("anyone who can reach %s can run jobs here: no token is set (--insecure)", host or "this machine")
        await asyncio.sleep(_REMIND_EVERY.total_seconds())
