"""The API as a component of a process: built from the settings and served on bound sockets."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from rota.api import Api, ApiKey, ApiSettings, Protection, create_app, serve
from rota.api.auth import is_loopback
from rota.api.context import Context
from rota.api.server.tls import ServerTls
from rota.core.errors import InvalidRequest
from rota.core.redaction import SecretKeys
from rota.engine import Engine
from rota.runtime.assembly import AppDefinition, defaults_of, retention_of
from rota.runtime.membership import Membership
from rota.runtime.namespaces import NamespaceServices
from rota.settings import Settings, shown
from rota.tls import ServerFiles
from rota.version import __version__

_HEADER: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}", re.ASCII)
#: Headers with another meaning.
_TAKEN: Final = frozenset(
    {"authorization", "cookie", "host", "origin", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"}
)
_log = logging.getLogger("rota.api")


def bootstrap_keys(settings: Settings) -> tuple[ApiKey, ...]:
    """Return the key of `ROTA_TOKEN`, which may do everything."""
    return (ApiKey.of("token", settings.token),) if settings.token else ()


def protection_of(settings: Settings) -> Protection:
    """Return what protects the ports of a process."""
    return Protection(settings.token, bool(settings.tls_cert), bool(settings.behind_proxy), settings.insecure)


def server_tls(settings: Settings) -> ServerTls | None:
    """Read the certificate of the settings; None without one."""
    if not settings.tls_cert:
        return None
    return ServerTls(ServerFiles(settings.tls_cert, settings.tls_key, settings.tls_client_ca))


def user_header_of(settings: Settings) -> bytes:
    """Return the name of the header in which trusted proxies name the user; refuse one that anybody could send."""
    name = settings.proxy_user_header.lower()
    if not name:
        return b""
    if not settings.behind_proxy or not settings.token:
        missing = "behind_proxy" if not settings.behind_proxy else "token"
        raise InvalidRequest(
            f"proxy_user_header: {name!r} can name users only if requests come from a trusted proxy and need a token,"
            f" and {missing} is not set; set --behind-proxy with the addresses of your proxies, and ROTA_TOKEN",
            field="proxy_user_header",
        )
    if not _HEADER.fullmatch(name) or name in _TAKEN:
        raise InvalidRequest(
            f"proxy_user_header: {name!r} is not the name of a header that can name a user; use X-Forwarded-User, say",
            field="proxy_user_header",
        )
    return name.encode()


def build_api(
    engine: Engine,
    settings: Settings,
    app: AppDefinition,
    membership: Membership,
    checks: Mapping[str, Callable[[object], None]],
    *,
    known_types: tuple[str, ...] | None,
) -> Api:
    return create_app(engine, settings=api_settings(engine, settings, app, membership, checks, known_types=known_types))


def api_settings(
    engine: Engine,
    settings: Settings,
    app: AppDefinition,
    membership: Membership,
    checks: Mapping[str, Callable[[object], None]],
    *,
    known_types: tuple[str, ...] | None = None,
) -> ApiSettings:
    """Return the settings of the API in one namespace."""
    return ApiSettings(
        namespace=settings.namespace,
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
        proxies=settings.behind_proxy,
        user_header=user_header_of(settings),
        is_exposed=not settings.token and not is_loopback(settings.host),
        read_only=settings.read_only,
        secret_keys=SecretKeys(settings.redact_keys),
        effective=lambda: shown(settings),
        ui=settings.ui,
        retention=retention_of(settings),
    )


def host_namespaces(api: Api, namespaces: NamespaceServices, checks: Mapping[str, Callable[[object], None]]) -> None:
    """Have an API serve the other namespaces too."""

    def make_context(engine: Engine, settings: Settings, membership: Membership) -> Context:
        own = api_settings(engine, settings, AppDefinition(), membership, checks)
        return api.context.for_namespace(engine, replace(own, effective=None))

    namespaces.make_context = make_context
    api.context.namespaces = namespaces
    api.context.tokens.engine_of = namespaces.engine_of


async def serve_api(
    api: Api,
    settings: Settings,
    sockets: list[socket.socket],
    ready: asyncio.Future[None],
    tls: ServerTls | None,
) -> None:
    """Serve on bound sockets until cancelled; `ready` is done once requests are accepted."""

    def on_ready(host: str, port: int) -> None:
        _log.info("listening on %s://%s:%d", "http" if tls is None else "https", host, port)
        if not ready.done():
            ready.set_result(None)

    api.start_counting()
    await serve(
        api, host=settings.host, protection=protection_of(settings), tls=tls, on_ready=on_ready, sockets=sockets
    )
