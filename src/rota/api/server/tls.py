"""TLS of a server: the handshake of each connection, and the renewal of certificates while the server runs.

The context is chosen for each new connection, so certificates and the authority of clients can be replaced without an
effect on open connections. `ServerTls.reload` reads the files again; `watch` does so when they have changed. If the new
files are not usable, the old ones stay in use.

A connection counts from its first byte: one that does not finish its handshake is closed after the time for a request's
head, and at the limit of connections it is closed first.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, cast

from rota.api.errors import HttpError
from rota.api.server.connections import TOO_MANY_CONNECTIONS, client_network
from rota.api.server.protocol import ApiProtocol
from rota.core.errors import InvalidRequest
from rota.tls import ServerFiles

WATCH_SECONDS: Final = 60.0
#: How long to wait after an error of the listening socket.
_PAUSE_SECONDS: Final = 1.0
#: The largest TLS record.
RECORD_BYTES: Final = 16_384
_log = logging.getLogger("rota.api")


class ServerTls:
    """The context for new connections, which can be replaced."""

    def __init__(self, files: ServerFiles) -> None:
        self._files = files
        self.context: ssl.SSLContext = files.context()
        self._versions = files.versions

    def reload(self) -> None:
        """Use the files as they are now; keep what is in use if they are not usable."""
        try:
            versions = self._files.versions
            self.context, self._versions = self._files.context(), versions
        except (InvalidRequest, OSError) as error:
            _log.error("the TLS certificate was not renewed, and the former one stays in use: %s", error)
        else:
            _log.info("read the TLS certificate again from %s", self._files.cert)

    def reload_if_changed(self) -> None:
        try:
            is_changed = self._files.versions != self._versions
        except OSError:
            is_changed = True
        if is_changed:
            self.reload()

    async def watch(self) -> None:
        """Reload within a minute after the files have changed, until cancelled."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            self.reload_if_changed()


class TlsListener:
    """Accepts the connections of one socket, and makes their TLS handshakes."""

    def __init__(
        self, tls: ServerTls, listener: socket.socket, make: Callable[[], ApiProtocol], kind: type[ApiProtocol]
    ) -> None:
        self._tls = tls
        self._listener = listener
        self._make = make
        #: The class of the protocols, which has the registry and the limits of the server.
        self.kind = kind
        #: Those under way.
        self.handshakes: set[Handshake] = set()
        self._accepting: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._listener.setblocking(False)  # noqa: FBT003 - its signature
        self._accepting = asyncio.create_task(self._accept(), name="rota-tls-accept")

    def stop(self) -> None:
        """Accept no more, and end the handshakes under way."""
        if self._accepting is not None:
            self._accepting.cancel()
        for one in tuple(self.handshakes):
            one.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(self._listener)
            except OSError as error:
                # There is no free descriptor; or the caller is gone already, which is rare.
                _log.warning("cannot accept a connection: %s", error)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            Handshake(self, accepted, client_network(peer[0])).start()

    async def secure(self, handshake: Handshake, accepted: socket.socket) -> None:
        """Make the handshake; then the protocol of the server takes over."""
        times = self.kind.timeouts
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._protocol(handshake),
                accepted,
                ssl=self._tls.context,
                ssl_handshake_timeout=times.head.total_seconds(),
                ssl_shutdown_timeout=times.linger.total_seconds(),
            )
        except OSError as error:
            self.kind.rejections.add("tls_handshake", handshake.source)
            _log.debug("a TLS handshake with %s failed: %s", handshake.source, error)
        finally:
            handshake.leave()

    def _protocol(self, handshake: Handshake) -> ApiProtocol:
        """Make the protocol of a connection, which counts as one only once its handshake is done."""
        protocol = self._make()
        begin = protocol.connection_made

        def connection_made(transport: asyncio.Transport) -> None:
            del protocol.connection_made
            handshake.leave()
            begin(cast("asyncio.Transport", RecordTransport(transport)))

        protocol.connection_made = connection_made  # type: ignore[method-assign]
        return protocol


class Handshake:
    """A connection until its handshake is done, as the registry of connections sees it."""

    is_authenticated = False
    held_bytes = 0
    unsent_bytes = 0

    def __init__(self, owner: TlsListener, accepted: socket.socket, source: str) -> None:
        self._owner = owner
        self._accepted = accepted
        self.source = source
        self.waiting_since: float | None = None
        self._task: asyncio.Task[None] | None = None
        #: From then on the socket belongs to the loop, which closes it.
        self._has_begun = False

    def start(self) -> None:
        self.waiting_since = asyncio.get_running_loop().time()
        self._owner.handshakes.add(self)
        if self._owner.kind.registry.enter(self):
            self._task = asyncio.create_task(self._run(), name="rota-tls-handshake")
        else:
            self.evict(TOO_MANY_CONNECTIONS)

    async def _run(self) -> None:
        self._has_begun = True
        await self._owner.secure(self, self._accepted)

    def leave(self) -> None:
        """Stop counting this as a connection."""
        self._owner.handshakes.discard(self)
        self._owner.kind.registry.leave(self)

    def evict(self, error: HttpError) -> None:
        """Close at once: a caller without TLS can be sent nothing."""
        self.abort(error.code)

    def abort(self, reason: str) -> None:
        """Close at once."""
        self._owner.kind.rejections.add(reason, self.source)
        self.close()

    def close(self) -> None:
        """Close without counting a rejection."""
        if self._task is not None:
            self._task.cancel()
        if not self._has_begun:
            self._accepted.close()
            self.leave()


class RecordTransport:
    """A TLS transport that writes a record at a time, so that the protocol notices a caller that does not read.

    The loop reports a full TLS buffer, but not the buffer of the socket below it, which takes a whole write.
    """

    __slots__ = ("_transport",)

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def write(self, data: bytes) -> None:
        if len(data) <= RECORD_BYTES:
            self._transport.write(data)
            return
        view = memoryview(data)
        for start in range(0, len(data), RECORD_BYTES):
            self._transport.write(view[start : start + RECORD_BYTES])

    def set_write_buffer_limits(self, high: int) -> None:
        """Set when the protocol is paused; with 0 the loop would pause it though nothing was written."""
        self._transport.set_write_buffer_limits(max(high, 1))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a transport has
        return getattr(self._transport, name)
