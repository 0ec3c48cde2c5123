"""The API as a component of a process: built from the settings and served on bound sockets."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping

from rota.api import Api, ApiKey, ApiSettings, create_app, serve
from rota.api.auth import is_loopback
from rota.engine import Engine
from rota.runtime.assembly import AppDefinition, defaults_of
from rota.runtime.membership import Membership
from rota.settings import Settings
from rota.version import __version__

_log = logging.getLogger("rota.api")


def bootstrap_keys(settings: Settings) -> tuple[ApiKey, ...]:
    """Give the key of `ROTA_TOKEN`, which may do everything."""
    return (ApiKey.of("token", settings.token),) if settings.token else ()


def build_api(
    engine: Engine,
    settings: Settings,
    app: AppDefinition,
    membership: Membership,
    checks: Mapping[str, Callable[[object], None]],
    *,
    known_types: tuple[str, ...] | None,
) -> Api:
    return create_app(
        engine,
        settings=ApiSettings(
            keys=bootstrap_keys(settings),
            instance_id=membership.instance,
            version=__version__,
            store_name=type(engine.store).__name__.removesuffix("Store").lower(),
            is_leader=lambda: membership.is_leader,
            current_leader=lambda: membership.leader,
            coordinator_is_healthy=lambda: membership.is_healthy,
            store_is_writable=lambda: membership.is_store_writable,
            coordinator=membership.coordinator,
            payload_checks=checks,
            defaults=defaults_of(settings, app),
            known_types=None if known_types is None else lambda: known_types,
            serves_any_host=settings.insecure,
            is_exposed=not settings.token and not is_loopback(settings.host),
            read_only=settings.read_only,
            ui=settings.ui,
        ),
    )


async def serve_api(api: Api, settings: Settings, sockets: list[socket.socket], ready: asyncio.Future[None]) -> None:
    """Serve on bound sockets until cancelled; `ready` is done once requests are accepted."""

    def on_ready(host: str, port: int) -> None:
        _log.info("listening on http://%s:%d", host, port)
        if not ready.done():
            ready.set_result(None)

    api.start_counting()
    await serve(
        api, host=settings.host, port=settings.port, insecure=settings.insecure, on_ready=on_ready, sockets=sockets
    )
