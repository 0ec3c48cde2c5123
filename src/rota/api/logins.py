"""Logins with a user's name and password: failures are limited by address and by name, and answered alike."""

from __future__ import annotations

from typing import Final

from rota.api.errors import HttpError
from rota.api.limits import RejectionCounts
from rota.api.server.connections import client_network
from rota.api.settings import ApiKey
from rota.api.token_cache import WINDOW_SECONDS, FailureLimit
from rota.core.access import Token
from rota.core.errors import TooManyLogins
from rota.engine import Engine

#: How many wrong passwords an address may send within a minute, and how many may be sent for one name.
MOST_BY_SOURCE: Final = 10
MOST_BY_NAME: Final = 20


class Logins:
    """Checks passwords, and limits wrong ones."""

    def __init__(self, engine: Engine, rejections: RejectionCounts) -> None:
        self._engine = engine
        self._rejections = rejections
        self._by_source = FailureLimit(most=MOST_BY_SOURCE)
        self._by_name = FailureLimit(most=MOST_BY_NAME)

    async def log_in(self, name: str, password: str, source: str) -> ApiKey:
        """Return the key of a user, or refuse the login."""
        network = client_network(source)
        if self._by_source.is_reached(network) or self._by_name.is_reached(name):
            raise self._refusal(
                HttpError(
                    429,
                    "too_many_failures",
                    "too many logins with a wrong name or password",
                    fix=f"wait {WINDOW_SECONDS:.0f} s",
                    headers={"Retry-After": f"{WINDOW_SECONDS:.0f}"},
                ),
                source,
            )
        # Counted before the password is checked, which takes a while: many at once must not slip through.
        self._by_source.add(network)
        self._by_name.add(name)
        user = await self._checked(name, password, source)
        if user is None:
            raise self._refusal(
                HttpError(401, "unauthorized", "the name or the password is wrong", fix="check both"), source
            )
        self._by_source.take_back(network)
        self._by_name.take_back(name)
        return ApiKey.of_token(user)

    async def _checked(self, name: str, password: str, source: str) -> Token | None:
        """Check a password, unless too many others are being checked: that is counted, and logged once a minute."""
        try:
            return await self._engine.users.check(name, password)
        except TooManyLogins as error:
            busy = HttpError(429, "too_many_logins", str(error), fix="wait a little", headers={"Retry-After": "2"})
            raise self._refusal(busy, source) from None

    def _refusal(self, error: HttpError, source: str) -> HttpError:
        self._rejections.add(error.code, source)
        return error
