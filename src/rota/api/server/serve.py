"""Serves an ASGI application with uvicorn inside an asyncio program.

Cancel `serve` to stop it: it takes no new connections, answers long polls at once, finishes the requests under way, and
then returns. A second cancel drops the requests under way.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol, cast

from uvicorn import Config, Server

from rota.api.auth import is_loopback
from rota.api.http import AsgiScope, Receive, Send
from rota.api.limits import RejectionCounts
from rota.api.server.deadlines import Timeouts
from rota.api.server.protocol import ApiProtocol, protocol_class
from rota.api.server.tls import ServerTls, TlsListener
from rota.api.settings import ApiSettings
from rota.core.access import is_strong
from rota.core.errors import InvalidRequest
from rota.sockets import keep_alive

_BACKLOG: Final = 2_048
_WARN_EVERY: Final = timedelta(minutes=1)
_log = logging.getLogger("rota.api")

OnReady = Callable[[str, int], None]

__all__ = ["OnReady", "Protection", "ServedApp", "Timeouts", "bind_checked", "check_bind", "serve"]


class ServedApp(Protocol):
    """An ASGI application with settings, which can be closed."""

    @property
    def settings(self) -> ApiSettings:
        """The keys and limits."""
        ...

    @property
    def rejections(self) -> RejectionCounts:
        """Counts requests and connections that were rejected."""
        ...

    def close(self) -> None:
        """End long polls and streams; requests are still served."""
        ...

    async def aclose(self) -> None:
        """Close, and end background work."""
        ...

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        ...


@dataclass(frozen=True, slots=True)
class Protection:
    """What protects a port that other machines can reach."""

    token: str = ""
    has_tls: bool = False
    behind_proxy: bool = False
    #: Whether the operator accepts that something is missing.
    insecure: bool = False

    @property
    def missing(self) -> str:
        """What is missing, with its consequence; empty if nothing is."""
        if not self.token:
            return "no token is set, so anyone could run jobs here"
        if not (self.has_tls or self.behind_proxy):
            return "there is no TLS, so tokens and payloads could be read on the way"
        return "" if is_strong(self.token) else "the token could be guessed: it has less than 16 random bytes"


_REMEDIES: Final = (
    "set ROTA_TOKEN (`openssl rand -hex 16` makes one) and --tls-cert with --tls-key, or --behind-proxy if a proxy"
    " does TLS; or bind to 127.0.0.1; or say --insecure if you mean it"
)


def check_bind(host: str, protection: Protection, *, field: str = "host") -> None:
    """Refuse an address that other machines can reach without a strong token and TLS."""
    if protection.insecure or not protection.missing or _is_local_only(host):
        return
    raise InvalidRequest(
        f"{field}: {host or '0.0.0.0'!r} can be reached from other machines and {protection.missing}; {_REMEDIES}",  # noqa: S104 - refusing it
        field=field,
    )


def _is_local_only(host: str) -> bool:
    if is_loopback(host):
        return True
    try:
        resolved = socket.getaddrinfo(host or None, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        return False
    return all(is_loopback(str(address[0])) for *_, address in resolved)


async def serve(
    app: ServedApp,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    protection: Protection | None = None,
    tls: ServerTls | None = None,
    on_ready: OnReady | None = None,
    timeouts: Timeouts | None = None,
    sockets: list[socket.socket] | None = None,
) -> None:
    """Serve until cancelled. `on_ready` gets the address once requests are accepted; port 0 chooses a free one.

    `sockets` are bound already, by `bind_checked`; without them the port is bound here. With `tls` all connections are
    encrypted.
    """
    times = timeouts or Timeouts()
    given = protection or Protection()
    if sockets is None:
        sockets = bind_checked(host, port, given)
    server = _UvicornServer(_config(app, times), sockets, on_ready, tls)
    serving = asyncio.create_task(server.serve(sockets), name="rota-api")
    background = []
    if given.missing and not _is_local_only(host):
        background.append(asyncio.create_task(_warn_regularly(host, given.missing), name="rota-api-warning"))
    if tls is not None:
        background.append(asyncio.create_task(tls.watch(), name="rota-api-tls"))
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
        for task in background:
            task.cancel()
        await app.aclose()


def bind_checked(host: str, port: int, protection: Protection, *, field: str = "host") -> list[socket.socket]:
    """Listen on every address of a host, unless other machines could reach it unprotected."""
    check_bind(host, protection, field=field)
    return bind(host, port)


def bind(host: str, port: int) -> list[socket.socket]:
    """Listen on every address of a host."""
    sockets: list[socket.socket] = []
    try:
        resolved = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in dict.fromkeys((one[0], one[4][:2]) for one in resolved):
            # With port 0 all addresses get the port that the first one got.
            taken = sockets[0].getsockname()[1] if sockets else port
            listener = socket.create_server((str(address[0]), taken), family=family, backlog=_BACKLOG)
            sockets.append(listener)
            # Accepted connections inherit this. A slow reader has the write deadline, not the kernel's.
            keep_alive(listener)
    except (OSError, OverflowError) as error:
        for one in sockets:
            one.close()
        in_use = getattr(error, "errno", None) == errno.EADDRINUSE
        why = "another program listens there; choose another with --port" if in_use else str(error)
        raise InvalidRequest(f"port: cannot listen on {host}:{port}: {why}", field="port") from None
    return sockets


def _config(app: ServedApp, timeouts: Timeouts) -> Config:
    return Config(
        app,
        http=protocol_class(app.settings.limits, timeouts, app.rejections),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=math.ceil(timeouts.idle.total_seconds()),
        timeout_graceful_shutdown=math.ceil(timeouts.grace.total_seconds()),
    )


class _UvicornServer(Server):
    """uvicorn's server, which leaves the signals to the program it runs in."""

    def __init__(
        self, config: Config, sockets: Sequence[socket.socket], on_ready: OnReady | None, tls: ServerTls | None
    ) -> None:
        super().__init__(config)
        self._sockets = sockets
        self._on_ready = on_ready
        self._tls = tls
        self._tls_listeners: list[TlsListener] = []

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not install signal handlers."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start accepting requests, and call `on_ready`."""
        await super().startup(sockets if self._tls is None else [])
        if self._tls is not None:
            self._start_tls(self._tls)
        if self._on_ready is not None:
            host, port = self._sockets[0].getsockname()[:2]
            self._on_ready(str(host), int(port))

    def _start_tls(self, tls: ServerTls) -> None:
        """Accept connections with TLS on our own: uvicorn's loop would count none before its handshake is done."""
        kind = cast("type[ApiProtocol]", self.config.http_protocol_class)
        state = self.lifespan.state

        def make() -> ApiProtocol:
            return kind(config=self.config, server_state=self.server_state, app_state=state)

        self._tls_listeners = [TlsListener(tls, listener, make, kind) for listener in self._sockets]
        for listener in self._tls_listeners:
            listener.start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, and finish the requests under way."""
        for listener in self._tls_listeners:
            listener.stop()
        await super().shutdown(sockets)


async def _warn_regularly(host: str, missing: str) -> None:
    while True:
        _log.warning("%s can be reached from other machines and %s (--insecure)", host or "this machine", missing)
        await asyncio.sleep(_WARN_EVERY.total_seconds())
