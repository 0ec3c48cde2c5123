"""Stored tokens as the API checks them: looked up by id, cached for a few seconds, failures limited per source.

A revocation must take effect on every API process within five seconds, so a cached token is read again after four; also
that of a stream or a long poll, which ends with its token (`end_of`). The
limit on failures answers 429 instead of 401 after some wrong tokens from one address, and looks up no further unknown
ids for it. Callers behind the same address with a token that was valid before are not affected by it.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Final

from rota.api.errors import HttpError
from rota.api.settings import ApiKey
from rota.core.access import digest_of_secret, id_of_secret, qualified_id, split_id
from rota.core.errors import NamespaceNotFound, RotaError
from rota.engine import Engine

FRESH_SECONDS: Final = 4.0
#: How many wrong tokens one address may send within a window before it is answered 429.
MOST_FAILURES: Final = 50
WINDOW_SECONDS: Final = 60.0
_MOST_ENTRIES: Final = 10_000
#: How soon a look that failed is repeated.
_RETRY_SECONDS: Final = 1.0


@dataclass(slots=True)
class _CachedKey:
    key: ApiKey
    read_at: float


class TokenCache:
    """Finds the key of a secret, or of a token's qualified id, among the stored tokens of all namespaces."""

    def __init__(self, engine: Engine, clock: Callable[[], float] = monotonic) -> None:
        self._engine = engine
        self._clock = clock
        #: Gives the engine of another namespace, or raises `NamespaceNotFound`; None where there is no other.
        self.engine_of: Callable[[str], Awaitable[Engine]] | None = None
        self._cached: OrderedDict[str, _CachedKey] = OrderedDict()
        #: Ids of users by name.
        self._users: dict[str, str] = {}

    def now(self) -> datetime:
        """Return the time by which tokens expire."""
        return self._engine.clock()

    def was_valid(self, secret: bytes) -> bool:
        """Return whether this secret was valid at the last lookup of its token; the id alone is not enough."""
        entry = self._cached.get(token_id_of(secret) or "")
        return entry is not None and _is_secret_of(entry.key, secret)

    def cached(self, secret: bytes) -> ApiKey | None:
        """Return the key of a secret if it is cached and fresh."""
        token_id = token_id_of(secret)
        key = None if token_id is None else self.cached_by_id(token_id)
        return key if key is not None and _is_secret_of(key, secret) else None

    def cached_by_id(self, token_id: str) -> ApiKey | None:
        """Return the key of a token if it is cached and fresh."""
        entry = self._cached.get(token_id)
        if entry is None or self._clock() - entry.read_at > FRESH_SECONDS:
            return None
        return entry.key if self._is_unexpired(entry.key) else None

    async def look_up(self, secret: bytes) -> ApiKey | None:
        """Read the token of a secret from the store; None if the secret is wrong, expired or revoked."""
        token_id = token_id_of(secret)
        key = None if token_id is None else await self.look_up_by_id(token_id)
        return key if key is not None and _is_secret_of(key, secret) else None

    async def look_up_by_id(self, token_id: str) -> ApiKey | None:
        """Read a token from the store; None if it is unknown, expired or revoked."""
        read_at = self._clock()
        namespace, bare_id = split_id(token_id)
        engine = await self._in_namespace(namespace)
        tokens = () if engine is None else await engine.store.tokens(ids=[bare_id])
        if not tokens or not tokens[0].is_live(self._engine.clock()):
            self._cached.pop(token_id, None)
            return None
        key = ApiKey.of_token(tokens[0], namespace)
        self._cached[token_id] = _CachedKey(key, read_at)
        self._cached.move_to_end(token_id)
        if len(self._cached) > _MOST_ENTRIES:
            self._cached.popitem(last=False)
        return key

    async def end_of(self, token_id: str, expires_at: datetime | None) -> None:
        """Return when a token has ended, or a session at its time: when another request with it would be refused.

        Without an id only the time counts. While the store cannot be read, nothing ends.
        """
        while expires_at is None or self.now() < expires_at:
            left = FRESH_SECONDS if expires_at is None else (expires_at - self.now()).total_seconds()
            pause = min(self._fresh_seconds(token_id), left)
            if pause > 0:
                await asyncio.sleep(pause)
                continue
            try:
                if await self.look_up_by_id(token_id) is None:
                    return
            except RotaError:
                await asyncio.sleep(_RETRY_SECONDS)

    def _fresh_seconds(self, token_id: str) -> float:
        """Return how long what is cached of a token may still be used."""
        entry = self._cached.get(token_id)
        if not token_id:
            return FRESH_SECONDS
        return 0.0 if entry is None else entry.read_at + FRESH_SECONDS - self._clock()

    def cached_user(self, name: str) -> ApiKey | None:
        """Return the key of a user if it is cached and fresh."""
        token_id = self._users.get(name)
        return None if token_id is None else self.cached_by_id(token_id)

    async def look_up_user(self, name: str) -> ApiKey | None:
        """Read a user from the store by name; None if it is unknown or expired."""
        user = await self._engine.users.find(name)
        if user is None:
            self._users.pop(name, None)
            return None
        token_id = self._users[name] = qualified_id(self._engine.namespace, user.id)
        if len(self._users) > _MOST_ENTRIES:
            self._users.clear()
        return await self.look_up_by_id(token_id)

    async def _in_namespace(self, name: str) -> Engine | None:
        if name == self._engine.namespace:
            return self._engine
        if self.engine_of is None:
            return None
        try:
            return await self.engine_of(name)
        except NamespaceNotFound:
            return None

    def forget(self) -> None:
        """Drop everything, after a token was changed through this process."""
        self._cached.clear()
        self._users.clear()

    def _is_unexpired(self, key: ApiKey) -> bool:
        return key.expires_at is None or self._engine.clock() < key.expires_at


def token_id_of(secret: bytes) -> str | None:
    """Return the id in a secret; None if it is not the secret of a stored token."""
    return id_of_secret(secret.decode("latin-1"))


def _is_secret_of(key: ApiKey, secret: bytes) -> bool:
    return hmac.compare_digest(digest_of_secret(secret), key.digest)


class FailureLimit:
    """Counts wrong tokens by the address they come from."""

    def __init__(self, clock: Callable[[], float] = monotonic, most: int | None = None) -> None:
        self._clock = clock
        self._most = most
        #: By source: when its window began, and the failures in it.
        self._failures: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def is_reached(self, source: str) -> bool:
        """Return whether a source has sent too many wrong tokens."""
        began_at, count = self._failures.get(source, (0.0, 0))
        return count >= (self._most or MOST_FAILURES) and self._clock() - began_at < WINDOW_SECONDS

    def add(self, source: str) -> None:
        """Count a failure."""
        now = self._clock()
        began_at, count = self._failures.pop(source, (now, 0))
        if now - began_at >= WINDOW_SECONDS:
            began_at, count = now, 0
        self._failures[source] = (began_at, count + 1)
        if len(self._failures) > _MOST_ENTRIES:
            self._failures.popitem(last=False)

    def take_back(self, source: str) -> None:
        """Count one failure less: it was none."""
        if source in self._failures:
            began_at, count = self._failures[source]
            self._failures[source] = (began_at, max(count - 1, 0))


def too_many_failures() -> HttpError:
    return HttpError(
        429,
        "too_many_failures",
        "too many requests with a wrong token came from this address",
        fix=f"wait {WINDOW_SECONDS:.0f} s, and check the token",
        headers={"Retry-After": f"{WINDOW_SECONDS:.0f}"},
    )
