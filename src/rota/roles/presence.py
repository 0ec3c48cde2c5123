"""Being known: a process says again and again that it is alive, one scheduler leads, and all heed the configuration.

Three loops. One asks for the lead every `LEAD_BEAT`, or only who has it, less often. One says who is alive, every
`BEAT`. One watches the shared configuration and follows it. Where the coordinator is the store, the first does all of
it in one statement, also for a worker in this process: an idle process sends few. It learns there, too, which of the
workers that take the same jobs ours is; see `precedence`.

Clocks: a lead is trusted from the moment it was asked for, by a clock that only goes forward and goes on while we are
stopped, and for less than it lasts. So a process that was stopped for longer knows at once that it leads no more; and
what it did in between harms nobody, for the lead only saves work. A leader that dies is followed by the next within
`TERM` and a beat: nine seconds. One whose word was lost says it again soon, while it may still trust its lead.

If the coordinator is away: nobody is known to lead, `is_healthy` says so some seconds later, jobs run, every scheduler
does all that it would do alone, and the loops go on asking. Nothing that the coordinator does ends this process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

from rota.core.configuration import LOG_LEVEL, Configuration, checked
from rota.core.errors import CoordinatorUnavailable, InvalidRequest, RotaError
from rota.core.fleet import CheckIn, Leadership, Member, Role, trusted_seconds
from rota.core.patience import Patience
from rota.engine import Engine
from rota.ports.coordinator import CheckingIn, Coordinator
from rota.telemetry.events import LeaderChanged
from rota.telemetry.logs import set_level
from rota.version import __version__

BEAT: Final = timedelta(seconds=5)
LEAD_BEAT: Final = timedelta(seconds=3)
#: For who only wants to know who leads: often enough to know it all the time.
LOOK_BEAT: Final = timedelta(seconds=4)
#: How soon to say again what failed.
HASTE_SECONDS: Final = 1.0
TERM: Final = timedelta(seconds=6)
LEAD: Final = "scheduler"
#: Longer than a beat, the time in which no answer comes, and the pause before it is asked again: one is no outage.
HEALTHY_FOR_SECONDS: Final = 14.0
#: How long a watch of the configuration lasts at most: a watch that died without a word costs no more.
WATCH: Final = timedelta(seconds=30)
GOODBYE_SECONDS: Final = 5.0
#: Longer than a beat: how long nobody may have checked in before a worker speaks for itself.
SILENCE_SECONDS: Final = 7.0
#: How long an answer is waited for when we check in. A way that is gone without a word shows only by that, and all that
#: this process says goes the same way: it is tried anew before we are taken for gone.
ANSWER_SECONDS: Final = 7.0
_log = logging.getLogger("rota.presence")


class Presence:
    """Makes a process known, in the roles that it has, until it is cancelled; a worker in it describes itself."""

    def __init__(
        self,
        coordinator: Coordinator,
        engine: Engine | None,
        roles: Sequence[Role] = (),
        *,
        address: str = "",
        log_level: str = "info",
        instance: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.instance = instance or f"{socket.gethostname()}-{os.getpid()}"
        self.coordinator = coordinator
        self._engine = engine
        self._boots = {role: secrets.token_hex(8) for role in roles}
        self._others: list[Callable[[], Member]] = []
        self._address = address
        self._log_level = log_level
        self._clock = clock
        self._leadership: Leadership | None = None
        self._trusted_until = clock()
        self._heard_at = clock()
        self._failing: set[str] = set()
        #: Whether the store took the last write of ours.
        self.is_store_writable = True
        #: The workers whose word has been passed on, and whether they were leaving.
        self._known: dict[str, bool] = {}

    @property
    def is_leader(self) -> bool:
        """Whether this process leads, as far as it may trust what it knows."""
        return self.leader == self.instance

    @property
    def leader(self) -> str | None:
        """Who leads, as far as this process may trust what it knows."""
        if self._leadership is None or self._clock() >= self._trusted_until:
            return None
        return self._leadership.holder

    @property
    def stands_by(self) -> bool:
        """Whether another is known to lead."""
        return self.leader not in {None, self.instance}

    @property
    def is_healthy(self) -> bool:
        """Whether the coordinator answered lately."""
        return self._clock() - self._heard_at <= HEALTHY_FOR_SECONDS

    def introduce(self, describe: Callable[[], Member]) -> None:
        """Make someone in this process known too, as it describes itself each time."""
        self._others.append(describe)

    async def announce(self, member: Member) -> None:
        """Hear from a worker in this process, where checking in tells of it: at once only what cannot wait for that.

        If checking in fails, the worker's own word is tried, so that whoever gives it knows whether it was taken.
        """
        is_known = self._known.get(member.boot) == member.is_draining
        if is_known and self._clock() - self._heard_at <= SILENCE_SECONDS:
            return
        await self.coordinator.enlist([member])
        self._known[member.boot] = member.is_draining

    async def run(self) -> None:
        """Say «alive» until cancelled, then say goodbye."""
        beat = LEAD_BEAT if Role.SCHEDULER in self._boots else LOOK_BEAT if self._boots else BEAT
        check_in = self.coordinator.check_in
        try:
            async with asyncio.TaskGroup() as group:
                if check_in is not None:
                    group.create_task(self._repeated("say who leads", partial(self._check_in, check_in), beat))
                else:
                    group.create_task(self._repeated("say who leads", self._ask, beat))
                    group.create_task(self._repeated("take note of this process", self._enlist, BEAT))
                group.create_task(self._follow())
        finally:
            await self._leave()

    async def _repeated(self, what: str, act: Callable[[], Awaitable[None]], every: timedelta) -> None:
        while True:
            pause = every.total_seconds() if await self._tried(what, act) else HASTE_SECONDS
            # Never in step with the others: they all ask the same few nodes.
            await asyncio.sleep(pause * random.uniform(0.8, 1))  # noqa: S311 - no secret

    async def _tried(self, what: str, act: Callable[[], Awaitable[None]]) -> bool:
        """Do something with the coordinator; if that fails say so, once until it works again."""
        try:
            await act()
        except Exception as error:  # noqa: BLE001 - a coordinator may fail in any way: jobs run without it
            if what not in self._failing:
                said = "the coordinator %s does not %s; it is asked again and again, and jobs run without it: %s"
                _log.warning(said, self.coordinator.name, what, error, exc_info=not isinstance(error, RotaError))
            self._failing.add(what)
            return False
        if what in self._failing:
            _log.info("the coordinator %s does %s again", self.coordinator.name, what)
        self._failing.discard(what)
        return True

    async def _ask(self) -> None:
        sent = self._clock()
        found: Leadership | None
        if Role.SCHEDULER in self._boots:
            found = await self.coordinator.campaign(LEAD, self.instance, TERM)
        else:
            found = await self.coordinator.leader(LEAD)
        self._learn(found, sent)

    async def _check_in(self, check_in: CheckingIn) -> None:
        holder = self.instance if Role.SCHEDULER in self._boots else None
        sent = self._clock()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                found = await check_in(CheckIn((*self._own(), *self._workers()), LEAD, holder, TERM))
        except TimeoutError as error:
            self.is_store_writable = False
            raise CoordinatorUnavailable(f"no answer within {ANSWER_SECONDS:g} s") from error
        except Exception:
            self.is_store_writable = False
            raise
        self.is_store_writable = True
        self._learn(found.leadership, sent)
        if self._engine is not None:
            self._engine.work.ranks = found.ranks

    def _learn(self, found: Leadership | None, sent: float) -> None:
        before, self._leadership = self._leadership, found
        self._trusted_until = sent + trusted_seconds(TERM)
        self._heard_at = self._clock()
        if found is not None and (before is None or (found.holder, found.term) != (before.holder, before.term)):
            self._tell(found)

    def _tell(self, found: Leadership) -> None:
        if self._engine is not None:
            self._engine.telemetry.emit(LeaderChanged(found))

    async def _enlist(self) -> None:
        members = self._own()
        if self._engine is not None:
            try:
                await self._engine.store.beat(members)
                self.is_store_writable = True
            except RotaError as error:
                self.is_store_writable = False
                _log.warning("the store cannot be told that this process is alive: %s", error)
        # A worker tells the store of itself.
        await self.coordinator.enlist([*members, *self._workers()])

    def _own(self) -> list[Member]:
        return [self._member(role, boot) for role, boot in self._boots.items()]

    def _workers(self) -> list[Member]:
        return [describe() for describe in self._others]

    async def _follow(self) -> None:
        """Heed the configuration. One that cannot be read is heeded as it was last seen."""
        patience = Patience(random.random)
        seen = Configuration(revision=-1)
        while True:
            begun, is_first = self._clock(), seen.revision < 0
            try:
                now = await (self.coordinator.configuration() if is_first else self.coordinator.changed(seen, WATCH))
            except Exception as error:  # noqa: BLE001 - as above
                _log.debug("the configuration cannot be read: %s", error)
                await asyncio.sleep(patience.next())
                continue
            if is_first or now.values != seen.values:
                self._heed(now, is_first=is_first)
                patience.reset()
            elif self._clock() - begun < 1:
                # A watch that ends at once, for no change: whatever ails it, we must not spin.
                await asyncio.sleep(patience.next())
            seen = now

    def _heed(self, configuration: Configuration, *, is_first: bool) -> None:
        try:
            level = checked(LOG_LEVEL, configuration.values.get(LOG_LEVEL, self._log_level))
        except InvalidRequest as error:
            # Whoever wrote it was not asked; a process must not die of it.
            _log.warning("the shared configuration is not heeded: %s", error)
            return
        if not is_first or LOG_LEVEL in configuration.values:
            set_level(level)
            _log.info("log level is %s by the shared configuration", level)

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
        """Say goodbye. Whoever cannot be told finds out by our silence."""
        try:
            async with asyncio.timeout(GOODBYE_SECONDS):
                if Role.SCHEDULER in self._boots:
                    await self.coordinator.resign(LEAD, self.instance)
                others = () if self.coordinator.enlists_in_store else [describe().boot for describe in self._others]
                if self._engine is not None and not self.coordinator.enlists_in_store:
                    await self._engine.store.leave(self._boots.values())
                await self.coordinator.dismiss([*self._boots.values(), *others])
        except TimeoutError:
            _log.warning("cannot say goodbye: no answer in time")
        except RotaError as error:
            _log.warning("cannot say goodbye: %s", error)
