"""Serving the API as a part of a process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from rota import __version__
from rota.api import Api, ApiKey, ApiSettings, create_app, serve
from rota.core.retry import Backoff, shared
from rota.engine import Engine
from rota.roles.presence import Presence
from rota.sdk.app import Rota
from rota.sdk.options import Options, template_of
from rota.settings import Settings
from rota.wire.submission import Defaults

_log = logging.getLogger("rota.api")


def backoff_of(settings: Settings) -> Backoff:
    """Say how long to wait after failures of jobs that do not say so themselves."""
    return shared(Backoff(base=settings.backoff_base, cap=settings.backoff_max, jitter=settings.backoff_jitter))


def defaults_of(settings: Settings, app: Rota | None) -> Defaults:
    """Say what jobs get where their submission says nothing; what an app's task says of itself goes first."""
    server = Defaults(max_attempts=settings.max_attempts, backoff=backoff_of(settings))
    tasks = {} if app is None else {name: _defaults_of(server, task.options) for name, task in app.tasks.items()}
    return replace(server, tasks=tasks)


def _defaults_of(server: Defaults, options: Options) -> Defaults:
    told = template_of("task", "null", options)
    return Defaults(
        max_attempts=told.max_attempts if "retry" in options else server.max_attempts,
        backoff=told.backoff if "retry" in options else server.backoff,
        timeout=told.timeout,
        queue=told.queue,
        priority=told.priority,
        delivery=told.delivery,
        expires=told.expires,
        concurrency_key=told.concurrency_key,
        tags=told.tags,
        meta=told.meta,
        on_success=told.on_success,
        on_failure=told.on_failure,
    )


def api_of(
    engine: Engine,
    settings: Settings,
    presence: Presence,
    checks: Mapping[str, Callable[[object], None]],
    *,
    app: Rota | None,
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
            coordinator_is_healthy=lambda: presence.is_healthy,
            coordinator=presence.coordinator,
            payload_checks=checks,
            defaults=defaults_of(settings, app),
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
