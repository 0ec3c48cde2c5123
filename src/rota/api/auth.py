"""Authentication: checks of every request before a route sees it.

A caller is known by the bootstrap token of the settings or by a stored token (`token_cache`). Where a bootstrap token
is set, every path requires a token except the three exact paths for liveness and readiness probes. An unknown path
requires one too, so that callers without a token cannot learn which paths exist. All refusals are alike.

`admit` does not wait: a stored token that is not cached is left to `Authenticator.look_up`.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, MutableMapping
from functools import lru_cache
from hashlib import sha256
from ipaddress import ip_address
from typing import Any, Final

from rota.api.errors import HttpError
from rota.api.forwarded import MOUNT, PROXIED
from rota.api.limits import RejectionCounts, check_request
from rota.api.permissions import require
from rota.api.server.connections import client_network
from rota.api.sessions import SESSION, key_in_settings, refuse_forgery, session_of
from rota.api.settings import ApiKey, ApiSettings
from rota.api.token_cache import FailureLimit, TokenCache, too_many_failures
from rota.core.access import READS, Action

#: Exact paths: `/livez/` or `/v1/livez` are not among them.
PUBLIC_PATHS: Final = frozenset({"/livez", "/readyz", "/healthz"})
METRICS: Final = "/metrics"
LOGIN: Final = "/v1/session"
#: Key in the ASGI scope of a request that came with a valid token.
AUTHENTICATED: Final = "rota.authenticated"

FULL_ACCESS: Final = ApiKey("anonymous", b"", role="admin")
NO_ACCESS: Final = ApiKey("anonymous", b"", frozenset({Action.PUBLIC}))
#: A caller that may send a name and a password, which are then checked.
_LOGGING_IN: Final = ApiKey("anonymous", b"", frozenset({Action.PUBLIC, Action.SIGNED_IN}))
_METRICS_ONLY: Final = ApiKey("anonymous", b"", frozenset({Action.PUBLIC, Action.SYSTEM_READ}))
#: The caller sent a stored token that is not cached.
LOOK_UP: Final = ApiKey("unknown", b"", frozenset())
_PREFIX: Final = b"rota_"


def admit(
    scope: MutableMapping[str, Any],
    headers: Mapping[bytes, bytes],
    settings: ApiSettings,
    rejections: RejectionCounts,
    in_flight: int,
    tokens: TokenCache | None = None,
) -> ApiKey:
    """Check a request before it is routed, and give its caller's key, or `LOOK_UP`."""
    check_request(scope, headers, settings.limits, in_flight)
    refuse_cross_site(headers, settings)
    try:
        return identify(scope, headers, settings, tokens)
    except HttpError as error:
        rejections.add(error.code, _source(scope))
        raise


def identify(
    scope: MutableMapping[str, Any],
    headers: Mapping[bytes, bytes],
    settings: ApiSettings,
    tokens: TokenCache | None = None,
) -> ApiKey:
    """Return the key of a request without waiting, or `LOOK_UP`, or refuse it."""
    authorization = headers.get(b"authorization")
    if authorization is None:
        # Tested here too: a function call for each request would cost more.
        if not settings.keys:
            return FULL_ACCESS
        if settings.user_header and scope.get(PROXIED) and settings.user_header in headers:
            return _of_proxy(scope, headers, settings, tokens)
        return _of_session(scope, headers, settings, tokens) or _anonymous(scope, headers, settings)
    secret = _secret(authorization)
    key = _key_of(secret, settings.keys) if settings.keys else None
    if key is None and tokens is not None and (secret.startswith(_PREFIX) or _must_be_valid(scope, settings)):
        # Also what cannot be a stored token: wrong ones of all kinds are limited alike.
        key = tokens.cached(secret) or LOOK_UP
    if key is None:
        return _anonymous(scope, headers, settings)
    scope[AUTHENTICATED] = key is not LOOK_UP
    return key


def _must_be_valid(scope: Mapping[str, Any], settings: ApiSettings) -> bool:
    return bool(settings.keys) and scope["path"] not in PUBLIC_PATHS


def _of_session(
    scope: MutableMapping[str, Any],
    headers: Mapping[bytes, bytes],
    settings: ApiSettings,
    tokens: TokenCache | None,
) -> ApiKey | None:
    """Return the key of a browser session, or `LOOK_UP`; None without one."""
    if b"cookie" not in headers or tokens is None:
        return None
    session = session_of(headers, settings, tokens.now())
    if session is None:
        return None
    key = session.bound(key_in_settings(session, settings) or tokens.cached_by_id(session.token)) or LOOK_UP
    refuse_forgery(scope, headers)
    scope[SESSION], scope[AUTHENTICATED] = session.expires_at, key is not LOOK_UP
    return key


def proxy_user(scope: Mapping[str, Any], headers: Mapping[bytes, bytes], settings: ApiSettings) -> str | None:
    """Return the name of the user in the header of a trusted proxy; None without one."""
    if not settings.user_header or not scope.get(PROXIED):
        return None
    if sum(1 for name, _ in scope["headers"] if name == settings.user_header) > 1:
        # The caller may have sent one of them, through a proxy that adds its own instead of replacing it.
        raise HttpError(400, "repeated_header", "the header that names the user is repeated", fix="correct the proxy")
    return headers.get(settings.user_header, b"").decode("latin-1").strip() or None


def _of_proxy(
    scope: MutableMapping[str, Any],
    headers: Mapping[bytes, bytes],
    settings: ApiSettings,
    tokens: TokenCache | None,
) -> ApiKey:
    """Return the key of the user that a trusted proxy names, or `LOOK_UP`."""
    name = proxy_user(scope, headers, settings)
    if name is None or tokens is None:
        return _anonymous(scope, headers, settings)
    # As with a session, a page of another site could have sent the request.
    refuse_forgery(scope, headers)
    key = tokens.cached_user(name) or LOOK_UP
    scope[AUTHENTICATED] = key is not LOOK_UP
    return key


def _anonymous(scope: Mapping[str, Any], headers: Mapping[bytes, bytes], settings: ApiSettings) -> ApiKey:
    """Return the key of a request without a valid token, or refuse it."""
    if not settings.keys:
        return FULL_ACCESS
    path = scope["path"]
    if path in PUBLIC_PATHS:
        return NO_ACCESS
    if path == METRICS and _is_local(scope, headers):
        return _METRICS_ONLY
    if path == LOGIN and scope["method"] == "POST" and b"authorization" not in headers:
        return _LOGGING_IN
    raise unauthorized()


def unauthorized() -> HttpError:
    return HttpError(
        401,
        "unauthorized",
        "this server requires a token",
        fix="send 'Authorization: Bearer <token>'",
        headers={"WWW-Authenticate": 'Bearer realm="rota"'},
    )


class Authenticator:
    """Looks up stored tokens that are not cached, and limits wrong ones per source."""

    def __init__(self, tokens: TokenCache, settings: ApiSettings, rejections: RejectionCounts) -> None:
        self.tokens = tokens
        self._settings = settings
        self._rejections = rejections
        self._failures = FailureLimit()

    async def look_up(self, scope: MutableMapping[str, Any], headers: Mapping[bytes, bytes]) -> ApiKey:
        """Return the key of a request whose token is not cached, or refuse it."""
        try:
            if b"authorization" in headers:
                key = await self._key(_secret(headers[b"authorization"]), client_network(_source(scope)))
            elif (name := proxy_user(scope, headers, self._settings)) is not None:
                key = await self.tokens.look_up_user(name)
            else:
                session = session_of(headers, self._settings, self.tokens.now())
                key = None if session is None else session.bound(await self.tokens.look_up_by_id(session.token))
            scope[AUTHENTICATED] = key is not None
            # A wrong stored token is refused even where none is required: its sender means to be someone.
            return key or self._public(scope, headers)
        except HttpError as error:
            self._rejections.add(error.code, _source(scope))
            raise

    async def _key(self, secret: bytes, source: str) -> ApiKey | None:
        if self._failures.is_reached(source) and not self.tokens.was_valid(secret):
            raise too_many_failures()
        key = await self.tokens.look_up(secret)
        if key is None:
            self._failures.add(source)
        return key

    def _public(self, scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> ApiKey:
        if self._settings.keys:
            return _anonymous(scope, headers, self._settings)
        if scope["path"] in PUBLIC_PATHS:
            return NO_ACCESS
        raise unauthorized()


def _source(scope: Mapping[str, Any]) -> str:
    return str((scope.get("client") or ("unknown",))[0])


def _secret(authorization: bytes) -> bytes:
    kind, _, token = authorization.partition(b" ")
    return token.strip() if kind.lower() == b"bearer" else b""


def _is_local(scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a request comes from this machine itself, and not through a proxy or another application on it."""
    client = scope.get("client")
    is_forwarded = b"x-forwarded-for" in headers or b"forwarded" in headers or b"via" in headers
    is_direct = not is_forwarded and not scope.get(PROXIED) and not scope.get(MOUNT)
    return client is not None and is_loopback(client[0]) and is_direct


def _key_of(secret: bytes, keys: tuple[ApiKey, ...]) -> ApiKey | None:
    digest = sha256(secret).digest()
    match = None
    # All keys are compared, so that the time taken reveals nothing.
    for key in keys:
        if hmac.compare_digest(digest, key.digest):
            match = key
    return match


def authorize(key: ApiKey, action: Action) -> None:
    """Refuse a key that lacks the action of a route."""
    if action not in key.actions:
        require(key, action)


def refuse_change(action: Action) -> None:
    """Refuse an action that changes something, on a read-only server."""
    if action not in READS:
        fix = "use another API server, or start this one without --read-only"
        raise HttpError(403, "read_only", f"this server is read-only and refuses '{action}'", fix=fix)


def refuse_cross_site(headers: Mapping[bytes, bytes], settings: ApiSettings) -> None:
    """Refuse requests that a page of another site makes a browser send."""
    if b"sec-fetch-site" in headers and headers[b"sec-fetch-site"] in {b"cross-site", b"same-site"}:
        raise HttpError(403, "cross_site", "requests from pages of other sites are refused")
    host, origin = headers.get(b"host", b""), headers.get(b"origin")
    if origin is not None and origin.partition(b"://")[2] != host:
        raise HttpError(403, "cross_site", "requests from pages of other sites are refused")
    if not settings.keys and not _is_our_host(host):
        refuse_foreign_hosts(host, settings)


def refuse_foreign_hosts(host: bytes, settings: ApiSettings) -> None:
    """Without keys, refuse a host name that is not of this machine: it may be a DNS rebinding attack."""
    if host and not settings.keys and not settings.serves_any_host and not _is_our_host(host):
        fix = "use http://127.0.0.1 or http://localhost, or set a token"
        raise HttpError(403, "foreign_host", "without a token only names of this machine are served", fix=fix)


@lru_cache(maxsize=64)
def _is_our_host(host: bytes) -> bool:
    name = host.decode("latin-1").lower()
    bare = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    return bare == "localhost" or bare.endswith(".localhost") or is_loopback(bare)


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
