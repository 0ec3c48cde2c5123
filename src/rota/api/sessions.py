"""Browser sessions: a cookie that stands for a token, so that no script of a page can read the token.

The cookie is `<expiry>.<signature>.<token>`, where the last part is the id of a stored token, or the name of a key in
the settings behind an equals sign. A namespace that the caller chose for the session stands before it with a slash.
Nothing is stored: the signature is made with a key that is derived from the
bootstrap token, which all API processes share. A session ends with its token: after it expires or is revoked, and all
sessions after the bootstrap token is changed. A browser sends cookies also when a page of another site asks it to, so
a change by a session is accepted only if the browser says that a page of this server asked for it.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from rota.api.errors import HttpError
from rota.api.forwarded import MOUNT
from rota.api.settings import ApiKey, ApiSettings
from rota.core.access import Action
from rota.core.value import value

LASTS: Final = timedelta(hours=12)
COOKIE: Final = "rota_session"
#: Key in the ASGI scope of a request that came with a valid session: the time at which it ends.
SESSION: Final = "rota.session"
_IN_HEADER: Final = re.compile(rb"(?:^|;)\s*rota_session=([^;\s]+)")
_SAFE: Final = frozenset({"GET", "HEAD"})


@value
class BrowserSession:
    """A session whose signature is right and whose time is not over."""

    #: The id of a stored token, or `=` and the name of a key in the settings.
    token: str
    expires_at: datetime
    #: The namespace that was chosen for it; None for the token's own.
    namespace: str | None = None

    def bound(self, key: ApiKey | None) -> ApiKey | None:
        """Return the key of its token bound to its namespace; None if the token may not choose one any more."""
        if key is None or self.namespace is None:
            return key
        return replace(key, namespace=self.namespace) if Action.NAMESPACES_USE in key.actions else None


def begin_session(
    key: ApiKey, settings: ApiSettings, now: datetime, namespace: str | None = None
) -> tuple[str, datetime]:
    """Return the value of a new session's cookie, and when it ends; `namespace` is the one that the caller chose."""
    expires_at = (now + LASTS).replace(microsecond=0)
    if key.expires_at is not None:
        expires_at = min(expires_at, key.expires_at.replace(microsecond=0))
    seconds, token = f"{expires_at.timestamp():.0f}", key.token_id or f"={key.name}"
    if namespace is not None:
        token = f"{namespace}/{token}"
    return f"{seconds}.{_signature(settings, seconds, token)}.{token}", expires_at


def session_of(headers: Mapping[bytes, bytes], settings: ApiSettings, now: datetime) -> BrowserSession | None:
    """Return the session of a request; None without a valid one."""
    match = _IN_HEADER.search(headers.get(b"cookie", b""))
    parts = [] if match is None or not settings.keys else match[1].decode("latin-1").split(".", 2)
    if len(parts) != 3 or not parts[0].isdecimal() or len(parts[0]) > 11:  # noqa: PLR2004 - its three parts, and a time
        return None
    seconds, signature, token = parts
    if not hmac.compare_digest(signature.encode("latin-1"), _signature(settings, seconds, token).encode()):
        return None
    expires_at = datetime.fromtimestamp(int(seconds), UTC)
    namespace, chosen, token = token.rpartition("/")
    return BrowserSession(token, expires_at, namespace if chosen else None) if now < expires_at else None


def key_in_settings(session: BrowserSession, settings: ApiSettings) -> ApiKey | None:
    """Return the key of a session that was begun with a key in the settings."""
    return next((key for key in settings.keys if session.token == f"={key.name}"), None)


def refuse_forgery(scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> None:
    """Refuse a change by a session unless the browser says where it comes from; other sites are refused before."""
    if scope["method"] not in _SAFE and b"sec-fetch-site" not in headers and b"origin" not in headers:
        raise HttpError(403, "cross_site", "a change by a session needs the header 'Sec-Fetch-Site' or 'Origin'")


def cookie_header(scope: Mapping[str, Any], text: str, lasts: timedelta) -> str:
    """Return the header that sets the cookie; with an empty text, the one that removes it."""
    secure = "; Secure" if scope.get("scheme") == "https" else ""
    path = scope.get(MOUNT) or "/"
    return f"{COOKIE}={text}; Path={path}; Max-Age={lasts.total_seconds():.0f}; HttpOnly; SameSite=Strict{secure}"


def _signature(settings: ApiSettings, seconds: str, token: str) -> str:
    key = hmac.digest(settings.keys[0].digest, b"rota session", sha256)
    return hmac.digest(key, f"{seconds}.{token}".encode("latin-1", "replace"), sha256).hex()
