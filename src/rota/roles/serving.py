"""Serving the API as a part of a process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from rota import __version__
from rota.api import Api, ApiKey, ApiSettings, create_app, serve
from rota.core.retry import Backoff
from rota.engine import Engine
from rota.roles.presence import Presence
from rota.settings import Settings
from rota.wire.submission import Defaults

_log = logging.getLogger("rota.api")


def backoff_of(settings: Settings) -> Backoff:
    """Say how long to wait after failures of jobs that do not say so themselves."""
    return Backoff(base=settings.backoff_base, cap=settings.backoff_max, jitter=settings.backoff_jitter)


def api_of(
    engine: Engine,
    settings: Settings,
    presence: Presence,
    checks: Mapping[str, Callable[[object], None]],
    *,
    known_types: tuple[str, ...] | None,
) -> Api:
    """Make the API that the settings describe."""
    return create_app(
        engine,
        settings=ApiSettings(
            keys=(ApiKey.of("token", settings.token),) if settings.token else (),
            instance_id=presence.instance,
            version=__version__,
            is_leader=lambda: presence.is_leader,
            current_leader=lambda: presence.leader,
            payload_checks=checks,
            defaults=Defaults(max_attempts=settings.max_attempts, backoff=backoff_of(settings)),
            known_types=None if known_types is None else lambda: known_types,
            serves_any_host=settings.insecure,
        ),
    )


async def serve_api(api: Api, settings: Settings, ready: asyncio.Future[None]) -> None:
    """Serve until cancelled; `ready` is done once requests are taken."""

    def on_ready(host: str, port: int) -> None:
        _log.info("listening on http://%s:%d", host, port)
        if not ready.done():
            ready.set_result(None)

    await serve(api, host=settings.host, port=settings.port, insecure=settings.insecure, on_ready=on_ready)
