"""Cluster membership: heartbeats of this process, leader election among schedulers, and the shared configuration.

Three loops. The first campaigns for the lead every `LEAD_INTERVAL`; a process without a scheduler only reads the
current leader, less often. The second records every `HEARTBEAT` that this process is alive. The third watches the
shared configuration and applies it. If the coordinator is the store, the first loop does all of this in one statement,
also for a worker in this process, so that an idle process sends few statements. Its answer also holds the rank of the
worker among those that take the same jobs; see `rota.stagger`.

Clocks: a lead is valid from the moment of the request, by a monotonic clock that goes on while the process is stopped,
and for less than its term. So a process that was stopped for longer detects at once that it does not lead any more; and
what it did in between does no harm, because the lead only avoids double work. A leader that dies is replaced within
`TERM` and one interval: nine seconds. A campaign whose answer was lost is repeated soon, while the lead may still be
trusted.

If the coordinator is unavailable: no leader is known, `is_healthy` becomes false some seconds later, jobs run, every
scheduler does all the work that it would do alone, and the loops keep trying. No failure of the coordinator ends this
process.
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

from rota.backoff import JitteredBackoff
from rota.core.cluster import LEAD, TERM, Leadership, Member, MemberHeartbeat, Role, trusted_seconds
from rota.core.configuration import LOG_LEVEL, Configuration, checked
from rota.core.errors import CoordinatorUnavailable, InvalidRequest, RotaError
from rota.core.worker_orders import NO_ORDERS, WorkerOrders
from rota.engine import Engine
from rota.ports.coordinator import Coordinator, SendHeartbeat
from rota.telemetry.events import LeaderChanged
from rota.telemetry.logs import set_level
from rota.version import __version__

HEARTBEAT: Final = timedelta(seconds=5)
LEAD_INTERVAL: Final = timedelta(seconds=3)
#: For a process that only reads the leader: often enough that the leader is always known.
READ_INTERVAL: Final = timedelta(seconds=4)
#: How soon a failed call is repeated.
RETRY_SECONDS: Final = 1.0
#: Longer than an interval, an answer's timeout and the pause before it is repeated: one lost answer is no outage.
HEALTHY_FOR_SECONDS: Final = 13.5
#: How long one watch of the configuration lasts at most: a watch whose connection died costs no more.
WATCH: Final = timedelta(seconds=30)
LEAVE_SECONDS: Final = 5.0
#: Longer than an interval: if this process has not checked in for that time, its worker records itself.
SILENCE_SECONDS: Final = 7.0
#: How long to wait for an answer when checking in. A dead connection shows only by that, and all calls of this process
#: use it: it is opened anew before this process counts as gone.
ANSWER_SECONDS: Final = 7.0
_log = logging.getLogger("rota.membership")


class Membership:
    """Keeps this process a member of the cluster, with its roles and its worker, until it is cancelled."""

    def __init__(
        self,
        coordinator: Coordinator,
        engine: Engine | None,
        roles: Sequence[Role] = (),
        *,
        address: str = "",
        log_level: str = "info",
        instance: str = "",
        follows_configuration: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.instance = instance or f"{socket.gethostname()}-{os.getpid()}"
        self.coordinator = coordinator
        self._engine = engine
        self._boots = {role: secrets.token_hex(8) for role in roles}
        self._describe_workers: list[Callable[[], Member]] = []
        self._apply_orders: list[Callable[[WorkerOrders], None]] = []
        self._address = address
        self._log_level = log_level
        #: False for a namespace that this process hosts beside its own, which must not set the log level of all.
        self._follows_configuration = follows_configuration
        self._clock = clock
        self._leadership: Leadership | None = None
        self._trusted_until = clock()
        self._answered_at = clock()
        self._failing: set[str] = set()
        #: Whether the last write to the store succeeded.
        self.is_store_writable = True
        #: The workers that have been recorded, by boot, and whether they were draining.
        self._recorded: dict[str, bool] = {}

    @property
    def is_leader(self) -> bool:
        """Whether this process leads; False if that cannot be trusted any more."""
        return self.leader == self.instance

    @property
    def leader(self) -> str | None:
        """The name of the leader; None if it is unknown or cannot be trusted any more."""
        if self._leadership is None or self._clock() >= self._trusted_until:
            return None
        return self._leadership.holder

    @property
    def stands_by(self) -> bool:
        """Whether another process is known to lead."""
        return self.leader not in {None, self.instance}

    @property
    def is_healthy(self) -> bool:
        """Whether the coordinator answered in the last seconds."""
        return self._clock() - self._answered_at <= HEALTHY_FOR_SECONDS

    def add_worker(
        self, describe: Callable[[], Member], apply_orders: Callable[[WorkerOrders], None] = lambda _: None
    ) -> None:
        """Record a worker of this process with every heartbeat, as `describe` gives it, and pass it its orders."""
        self._describe_workers.append(describe)
        self._apply_orders.append(apply_orders)

    async def announce(self, member: Member) -> WorkerOrders | None:
        """Take a worker's heartbeat. Checking in covers it: only a worker that is new or drains is recorded at once.

        If checking in fails, the worker is recorded by a call of its own, whose failure is raised to the worker.
        """
        is_recorded = self._recorded.get(member.boot) == member.is_draining
        if is_recorded and self._clock() - self._answered_at <= SILENCE_SECONDS:
            return None
        await self.coordinator.register([member])
        self._recorded[member.boot] = member.is_draining
        return None

    async def run(self) -> None:
        """Send heartbeats until cancelled, then leave."""
        interval = LEAD_INTERVAL if Role.SCHEDULER in self._boots else READ_INTERVAL if self._boots else HEARTBEAT
        check_in = self.coordinator.check_in
        try:
            async with asyncio.TaskGroup() as group:
                if check_in is not None:
                    group.create_task(self._repeated("leader election", partial(self._check_in, check_in), interval))
                else:
                    group.create_task(self._repeated("leader election", self._campaign, interval))
                    group.create_task(self._repeated("heartbeat", self._enlist, HEARTBEAT))
                if self._follows_configuration:
                    group.create_task(self._follow_configuration())
        finally:
            await self._leave()

    async def _repeated(self, what: str, act: Callable[[], Awaitable[None]], every: timedelta) -> None:
        while True:
            pause = every.total_seconds() if await self._tried(what, act) else RETRY_SECONDS
            # With jitter: all processes call the same few nodes.
            await asyncio.sleep(pause * random.uniform(0.8, 1))  # noqa: S311 - no secret

    async def _tried(self, what: str, act: Callable[[], Awaitable[None]]) -> bool:
        """Call the coordinator; log a failure once until it works again."""
        try:
            await act()
        except Exception as error:  # noqa: BLE001 - a coordinator may fail in any way: jobs run without it
            if what not in self._failing:
                message = "coordinator %s: %s fails; it is repeated, and jobs run without it: %s"
                _log.warning(message, self.coordinator.name, what, error, exc_info=not isinstance(error, RotaError))
            self._failing.add(what)
            return False
        if what in self._failing:
            _log.info("coordinator %s: %s works again", self.coordinator.name, what)
        self._failing.discard(what)
        return True

    async def _campaign(self) -> None:
        sent = self._clock()
        leadership: Leadership | None
        if Role.SCHEDULER in self._boots:
            leadership = await self.coordinator.campaign(LEAD, self.instance, TERM)
        else:
            leadership = await self.coordinator.leader(LEAD)
        self._on_leadership(leadership, sent)

    async def _check_in(self, check_in: SendHeartbeat) -> None:
        holder = self.instance if Role.SCHEDULER in self._boots else None
        workers = self._workers()
        sent = self._clock()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                view = await check_in(MemberHeartbeat((*self._own(), *workers), LEAD, holder, TERM))
        except TimeoutError as error:
            self.is_store_writable = False
            raise CoordinatorUnavailable(f"no answer within {ANSWER_SECONDS:g} s") from error
        except Exception:
            self.is_store_writable = False
            raise
        self.is_store_writable = True
        self._on_leadership(view.leadership, sent)
        engine = self._engine
        if engine is not None:
            engine.leases.ranks = view.ranks
        for worker, apply_orders in zip(workers, self._apply_orders, strict=False):
            apply_orders(view.orders.get(worker.boot, NO_ORDERS))

    def _on_leadership(self, now: Leadership | None, sent: float) -> None:
        before, self._leadership = self._leadership, now
        self._trusted_until = sent + trusted_seconds(TERM)
        self._answered_at = self._clock()
        is_new = now is not None and (before is None or (now.holder, now.term) != (before.holder, before.term))
        if now is not None and is_new and self._engine is not None:
            self._engine.telemetry.emit(LeaderChanged(now))

    async def _enlist(self) -> None:
        members = self._own()
        if self._engine is not None:
            try:
                # A write that waits for a lock counts as failed: health must report it before this process counts as
                # stopped.
                async with asyncio.timeout(ANSWER_SECONDS):
                    await self._engine.store.beat(members)
                self.is_store_writable = True
            except (RotaError, TimeoutError) as error:
                self.is_store_writable = False
                why = str(error) or f"no answer within {ANSWER_SECONDS:g} s"
                _log.warning("cannot record in the store that this process is alive: %s", why)
        # A worker records itself in the store.
        await self.coordinator.register([*members, *self._workers()])

    def _own(self) -> list[Member]:
        return [self._member(role, boot) for role, boot in self._boots.items()]

    def _workers(self) -> list[Member]:
        return [describe() for describe in self._describe_workers]

    async def _follow_configuration(self) -> None:
        """Apply the shared configuration whenever it changes. If it cannot be read, the last one stays in force."""
        backoff = JitteredBackoff(random.random)
        seen = Configuration(revision=-1)
        while True:
            begun, is_first = self._clock(), seen.revision < 0
            try:
                now = await (self.coordinator.configuration() if is_first else self.coordinator.changed(seen, WATCH))
            except Exception as error:  # noqa: BLE001 - as above
                _log.debug("cannot read the shared configuration: %s", error)
                await asyncio.sleep(backoff.next())
                continue
            if is_first or now.values != seen.values:
                self._apply(now, is_first=is_first)
                backoff.reset()
            elif self._clock() - begun < 1:
                # A watch that ends at once without a change must not be repeated in a busy loop.
                await asyncio.sleep(backoff.next())
            seen = now

    def _apply(self, configuration: Configuration, *, is_first: bool) -> None:
        try:
            level = checked(LOG_LEVEL, configuration.values.get(LOG_LEVEL, self._log_level))
        except InvalidRequest as error:
            # Written past the API; it must not end the process.
            _log.warning("the shared configuration is ignored: %s", error)
            return
        if not is_first or LOG_LEVEL in configuration.values:
            set_level(level)
            origin = "by the shared configuration" if LOG_LEVEL in configuration.values else "by the own setting again"
            _log.info("log level is %s %s", level, origin)

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
        """Resign the lead and remove this process from the members; if that fails, missing heartbeats remove it."""
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                if Role.SCHEDULER in self._boots:
                    await self.coordinator.resign(LEAD, self.instance)
                workers = () if self.coordinator.keeps_members_in_store else [worker.boot for worker in self._workers()]
                if self._engine is not None and not self.coordinator.keeps_members_in_store:
                    await self._engine.store.leave(self._boots.values())
                await self.coordinator.deregister([*self._boots.values(), *workers])
        except TimeoutError:
            _log.warning("cannot leave the cluster: no answer in time")
        except RotaError as error:
            _log.warning("cannot leave the cluster: %s", error)
