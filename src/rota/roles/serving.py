"""Serving the API as a part of a process."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping

from rota.api import Api, ApiKey, ApiSettings, create_app, serve
from rota.engine import Engine
from rota.roles.assembly import Program, defaults_of
from rota.roles.presence import Presence
from rota.settings import Settings
from rota.version import __version__

_log = logging.getLogger("rota.api")


def build_api(
    engine: Engine,
    settings: Settings,
    program: Program,
    presence: Presence,
    checks: Mapping[str, Callable[[object], None]],
    *,
    known_types: tuple[str, ...] | None,
) -> Api:
    """Build the API."""
    return create_app(
        engine,
        settings=ApiSettings(
            keys=(ApiKey.of("token", settings.token),) if settings.token else (),
            instance_id=presence.instance,
            version=__version__,
            is_leader=lambda: presence.is_leader,
            current_leader=lambda: presence.leader,
            coordinator_is_healthy=lambda: presence.is_healthy,
            store_is_writable=lambda: presence.is_store_writable,
            coordinator=presence.coordinator,
            payload_checks=checks,
            defaults=defaults_of(settings, program),
            known_types=None if known_types is None else lambda: known_types,
            serves_any_host=settings.insecure,
        ),
    )


async def serve_api(api: Api, settings: Settings, sockets: list[socket.socket], ready: asyncio.Future[None]) -> None:
    """Serve on bound sockets until cancelled; `ready` is done once requests are taken."""

    def on_ready(host: str, port: int) -> None:
        _log.info("listening on http://%s:%d", host, port)
        if not ready.done():
            ready.set_result(None)

    api.begin()
    await serve(
        api, host=settings.host, port=settings.port, insecure=settings.insecure, on_ready=on_ready, sockets=sockets
    )
