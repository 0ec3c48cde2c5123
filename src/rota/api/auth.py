"""Who asks, and what they may: every request is looked at here before a route sees it (S1, S4, S5, S20).

Where keys are set, everything asks for one but the three exact paths by which a machine sees whether we live. An
unknown path asks too, so that nobody learns without a key what there is.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from ipaddress import ip_address
from typing import Final

from rota.api.calls import AsgiScope
from rota.api.errors import Refusal
from rota.api.settings import ALL_SCOPES, ApiKey, ApiSettings, Scope

#: Exact paths; what merely ends or begins like one of these is not meant.
OPEN_PATHS: Final = frozenset({"/livez", "/readyz", "/healthz"})
METRICS: Final = "/metrics"
#: In the scope of a request that came with a valid token.
AUTHENTICATED: Final = "rota.authenticated"

ANYONE: Final = ApiKey("anonymous", b"", ALL_SCOPES)
NOBODY: Final = ApiKey("anonymous", b"", frozenset())
_OBSERVER: Final = ApiKey("anonymous", b"", frozenset({Scope.READ}))


def identify(scope: AsgiScope, headers: Mapping[bytes, bytes], settings: ApiSettings) -> ApiKey:
    """Say with which key a request comes, or refuse it."""
    if not settings.keys:
        return ANYONE
    presented = headers.get(b"authorization")
    if presented is not None:
        found = _found(presented, settings.keys)
        if found is not None:
            scope[AUTHENTICATED] = True
            return found
    path = scope["path"]
    if path in OPEN_PATHS:
        return NOBODY
    if path == METRICS and _is_from_here(scope, headers):
        return _OBSERVER
    raise Refusal(
        401,
        "unauthorized",
        "this server asks for a token",
        fix="send 'Authorization: Bearer <token>'",
        headers={"WWW-Authenticate": 'Bearer realm="rota"'},
    )


def _is_from_here(scope: AsgiScope, headers: Mapping[bytes, bytes]) -> bool:
    """Say whether a request comes from this machine itself, and not through a proxy on it."""
    client = scope.get("client")
    is_forwarded = b"x-forwarded-for" in headers or b"forwarded" in headers or b"via" in headers
    return client is not None and is_loopback(client[0]) and not is_forwarded


def _found(presented: bytes, keys: tuple[ApiKey, ...]) -> ApiKey | None:
    kind, _, token = presented.partition(b" ")
    if kind.lower() != b"bearer":
        return None
    digest = sha256(token.strip()).digest()
    found = None
    # All of them, always: how long this takes tells nothing.
    for key in keys:
        if hmac.compare_digest(digest, key.digest):
            found = key
    return found


def authorize(key: ApiKey, scope: Scope) -> None:
    """Refuse a key that does not open a route."""
    if not key.allows(scope):
        raise Refusal(
            403, "forbidden", f"this token lacks the scope '{scope}'", fix=f"use a token with the scope '{scope}'"
        )


def refuse_strangers(headers: Mapping[bytes, bytes], settings: ApiSettings) -> None:
    """Refuse what a web page of someone else makes a browser send, and names that only pretend to be ours."""
    host = headers.get(b"host", b"")
    if b"sec-fetch-site" in headers and headers[b"sec-fetch-site"] in {b"cross-site", b"same-site"}:
        raise Refusal(403, "cross_site", "requests from other sites' pages are refused")
    origin = headers.get(b"origin")
    if origin is not None and origin.partition(b"://")[2] != host:
        raise Refusal(403, "cross_site", "requests from other sites' pages are refused")
    if host and not settings.keys and not settings.serves_any_host and not _is_ours(host):
        fix = "use http://127.0.0.1 or http://localhost, or set a token"
        raise Refusal(403, "foreign_host", "without a token only names of this machine are served", fix=fix)


@lru_cache(maxsize=64)
def _is_ours(host: bytes) -> bool:
    name = host.decode("latin-1").lower()
    bare = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    return bare == "localhost" or bare.endswith(".localhost") or is_loopback(bare)


def is_loopback(host: str) -> bool:
    """Say whether an address is of this machine itself."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
