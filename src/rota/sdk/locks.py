"""Named advisory locks of an app: `with app.lock("report"):` and `async with app.alock("report"):`.

States of a lock: free -> held (renewed three times within `hold`) -> released, or lost. It is lost if it could not be
renewed in time, or if an operator released it. `is_held`, `check` and a warning in the log show it to the holder; the
block is not interrupted.

Clocks: a lock is valid from the moment of the request, by the monotonic clock, and for less than `hold`. So a process
that was suspended for longer detects at once that it lost its lock.

Renewals run on the portal's loop: code that blocks its own thread or loop does not delay them. If this process dies,
the lock lapses after `hold`. If the answer to a request was lost, it is repeated: the same holder keeps the lock.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import random
import secrets
import socket
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from rota.core.cluster import Lock, trusted_seconds
from rota.core.duration import format_duration, parse_duration
from rota.core.errors import InvalidRequest, LockHeld, LockLost, RotaError
from rota.core.locks import RENEWALS_PER_HOLD, check_lock_name, hold_of
from rota.ports.coordinator import LockSource
from rota.sdk.options import Duration

if TYPE_CHECKING:
    from rota.sdk.app import Rota

#: The pauses between two requests for a lock that another holder has: the first, and the longest.
FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 1.0
_log = logging.getLogger("rota.locks")


class _AppLock:
    """A named lock of an app, and its renewal while it is held."""

    def __init__(self, app: Rota, name: str, wait: Duration, hold: Duration) -> None:
        self.name = check_lock_name(name)
        self._app = app
        self._wait = parse_duration(wait, field="wait")
        self._hold = hold_of(hold)
        self._holder = ""
        self._held: Lock | None = None
        self._is_lost = False
        self._trusted_until = 0.0
        self._renewing: concurrent.futures.Future[None] | None = None

    @property
    def is_held(self) -> bool:
        """Whether the lock is held; False from the moment on at which that cannot be trusted any more."""
        return self._held is not None and not self._is_lost and time.monotonic() < self._trusted_until

    @property
    def fence(self) -> int:
        """The number of this hold, greater than that of every earlier holder."""
        if self._held is None:
            raise InvalidRequest(f"lock {self.name!r} has no fence before it is held; use it in the block", field="")
        return self._held.fence

    def check(self) -> None:
        """Raise `LockLost` unless the lock is held."""
        if not self.is_held:
            raise LockLost(f"lock {self.name!r} is not held any more; another holder may have it")

    def _begin(self) -> None:
        if self._holder:
            raise InvalidRequest(f"lock {self.name!r}: this object is in use; make another with app.lock()", field="")
        self._holder = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._held, self._is_lost = None, False

    async def _source(self) -> LockSource:
        locks = (await self._app.link()).locks
        assert locks is not None
        return locks()

    async def _acquire(self) -> None:
        """Request the lock until it is granted or the wait is over. Runs on the portal's loop."""
        give_up_at = time.monotonic() + self._wait.total_seconds()
        source, pause = await self._source(), FIRST_PAUSE_SECONDS
        while not await self._ask(source):
            left = give_up_at - time.monotonic()
            if left <= 0:
                waited = format_duration(self._wait)
                raise LockHeld(f"lock {self.name!r}: another holder has had it for the {waited} of the wait; try again")
            # With jitter: several may wait for it.
            await asyncio.sleep(min(pause * random.uniform(0.5, 1), left))  # noqa: S311 - no secret
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _ask(self, source: LockSource) -> bool:
        """Take or renew the lock; return whether it is the same hold as before, or the first."""
        sent = time.monotonic()
        lock = await source.lock(self.name, self._holder, self._hold)
        if lock is None or (self._held is not None and lock.fence != self._held.fence):
            return False
        self._held, self._trusted_until = lock, sent + trusted_seconds(self._hold)
        return True

    async def _renew(self) -> None:
        """Renew the lock until it is released or lost. Runs on the portal's loop."""
        while not self._is_lost:
            await asyncio.sleep(self._hold.total_seconds() / RENEWALS_PER_HOLD)
            try:
                self._is_lost = not await self._ask(await self._source())
            except RotaError as error:
                _log.warning("lock %s: cannot be renewed, which is repeated: %s", self.name, error)
                self._is_lost = not self.is_held
        _log.warning("lock %s is lost: another holder may have it", self.name)

    async def _release(self) -> None:
        """Release the lock. If that fails, it lapses by itself. Runs on the portal's loop."""
        try:
            await (await self._source()).unlock(self.name, self._holder)
        except RotaError as error:
            _log.warning("lock %s: cannot be released, and lapses by itself: %s", self.name, error)

    def _start(self) -> None:
        self._renewing = self._app.portal.start(self._renew())

    def _stop_renewing(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
        self._renewing = None
        self._is_lost = True

    def _end(self) -> None:
        self._holder = ""


class NamedLock(_AppLock):
    """A named lock for `with`. Made by `app.lock`."""

    def __enter__(self) -> Self:
        self._begin()
        try:
            self._app.portal.call(self._acquire())
            self._start()
        except BaseException:
            self._abandon()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._abandon()

    def _abandon(self) -> None:
        try:
            self._stop_renewing()
            self._app.portal.call(self._release())
        finally:
            self._end()


class AsyncNamedLock(_AppLock):
    """A named lock for `async with`. Made by `app.alock`."""

    async def __aenter__(self) -> Self:
        self._begin()
        try:
            await self._app.portal.acall(self._acquire())
            self._start()
        except BaseException:
            await self._abandon()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._abandon()

    async def _abandon(self) -> None:
        try:
            self._stop_renewing()
            await self._app.portal.acall(self._release())
        finally:
            self._end()
