"""Being known: a process that keeps the time or serves the API says so again and again, and one of them leads.

The lead only saves work: every scheduler does its passes, and what one has done the others find done. If the store is
away, nobody is known to be alive, and that is the truth.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from rota import __version__
from rota.core.errors import RotaError
from rota.core.fleet import Leadership, Member, Role
from rota.engine import Engine
from rota.telemetry.events import LeaderChanged

BEAT: Final = timedelta(seconds=5)
TERM: Final = timedelta(seconds=15)
LEAD: Final = "scheduler"
_log = logging.getLogger("rota.presence")


class Presence:
    """Makes a process known, in one or more roles, until it is cancelled."""

    def __init__(self, engine: Engine, roles: Sequence[Role], *, address: str = "") -> None:
        self.instance = f"{socket.gethostname()}-{os.getpid()}"
        self._engine = engine
        self._boots = {role: secrets.token_hex(8) for role in roles}
        self._address = address
        self._leadership: Leadership | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this process leads, as far as it knows."""
        return self._leadership is not None and self._leadership.holder == self.instance

    @property
    def leader(self) -> str | None:
        """Who leads, as far as this process knows."""
        return None if self._leadership is None else self._leadership.holder

    async def run(self) -> None:
        """Say «alive» until cancelled, then say goodbye."""
        try:
            while True:
                try:
                    await self._say()
                except RotaError as error:
                    self._leadership = None
                    _log.warning("cannot make this process known: %s", error)
                await asyncio.sleep(BEAT.total_seconds())
        finally:
            await self._leave()

    async def _say(self) -> None:
        await self._engine.store.beat([self._member(role, boot) for role, boot in self._boots.items()])
        if Role.SCHEDULER in self._boots:
            before = self.leader
            self._leadership = await self._engine.store.lead(LEAD, self.instance, TERM)
            if self.leader != before:
                self._engine.telemetry.emit(LeaderChanged(self._leadership))

    def _member(self, role: Role, boot: str) -> Member:
        return Member(
            role=role,
            name=self.instance,
            boot=boot,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            address=self._address,
        )

    async def _leave(self) -> None:
        try:
            await self._engine.store.leave(self._boots.values())
            if Role.SCHEDULER in self._boots:
                await self._engine.store.resign(LEAD, self.instance)
        except RotaError as error:
            _log.warning("cannot say goodbye: %s", error)
