"""Authentication and authorization: checks of every request before a route sees it.

Where keys are set, every path requires one except the three exact paths for liveness and readiness probes. An unknown
path requires a key too, so that callers without one cannot learn which paths exist.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, MutableMapping
from functools import lru_cache
from hashlib import sha256
from ipaddress import ip_address
from typing import Any, Final

from rota.api.errors import HttpError
from rota.api.limits import RejectionCounts, check_request
from rota.api.settings import ALL_SCOPES, ApiKey, ApiSettings, Scope

#: Exact paths: `/livez/` or `/v1/livez` are not among them.
PUBLIC_PATHS: Final = frozenset({"/livez", "/readyz", "/healthz"})
METRICS: Final = "/metrics"
#: Key in the ASGI scope of a request that came with a valid token.
AUTHENTICATED: Final = "rota.authenticated"

FULL_ACCESS: Final = ApiKey("anonymous", b"", ALL_SCOPES)
NO_ACCESS: Final = ApiKey("anonymous", b"", frozenset())
_READ_ONLY: Final = ApiKey("anonymous", b"", frozenset({Scope.READ}))


def admit(
    scope: MutableMapping[str, Any],
    headers: Mapping[bytes, bytes],
    settings: ApiSettings,
    rejections: RejectionCounts,
    in_flight: int,
) -> ApiKey:
    """Check a request before it is routed, and give the key it came with."""
    check_request(scope, headers, settings.limits, in_flight)
    refuse_cross_site(headers, settings)
    try:
        return identify(scope, headers, settings)
    except HttpError as error:
        rejections.add(error.code, (scope.get("client") or ("unknown",))[0])
        raise


def identify(scope: MutableMapping[str, Any], headers: Mapping[bytes, bytes], settings: ApiSettings) -> ApiKey:
    """Give the key of a request, or refuse it."""
    if not settings.keys:
        return FULL_ACCESS
    authorization = headers.get(b"authorization")
    if authorization is not None:
        key = _key_of(authorization, settings.keys)
        if key is not None:
            scope[AUTHENTICATED] = True
            return key
    path = scope["path"]
    if path in PUBLIC_PATHS:
        return NO_ACCESS
    if path == METRICS and _is_local(scope, headers):
        return _READ_ONLY
    raise HttpError(
        401,
        "unauthorized",
        "this server requires a token",
        fix="send 'Authorization: Bearer <token>'",
        headers={"WWW-Authenticate": 'Bearer realm="rota"'},
    )


def _is_local(scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> bool:
    """Say whether a request comes from this machine itself, and not through a proxy on it."""
    client = scope.get("client")
    is_forwarded = b"x-forwarded-for" in headers or b"forwarded" in headers or b"via" in headers
    return client is not None and is_loopback(client[0]) and not is_forwarded


def _key_of(authorization: bytes, keys: tuple[ApiKey, ...]) -> ApiKey | None:
    kind, _, token = authorization.partition(b" ")
    if kind.lower() != b"bearer":
        return None
    digest = sha256(token.strip()).digest()
    match = None
    # All keys are compared, so that the time taken reveals nothing.
    for key in keys:
        if hmac.compare_digest(digest, key.digest):
            match = key
    return match


def authorize(key: ApiKey, scope: Scope) -> None:
    """Refuse a key that lacks the scope of a route."""
    if not key.allows(scope):
        raise HttpError(
            403, "forbidden", f"this token lacks the scope '{scope}'", fix=f"use a token with the scope '{scope}'"
        )


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
