"""One run of one world: set it up, run it, read what is left in the store, check it.

Each part of a world has random numbers of its own, derived from the seed and the name of the part. The order in which
hosts are made and started is fixed; everything after that is decided by the loop.

Which code runs as worker, scheduler and client is decided by a variant (`variants`): models, or Rota's own loops. Their
logs are switched off, since faults are expected here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from random import Random
from typing import Any, Final, TypeVar

from rota.core.waiting import Emission
from rota.stores.sqlite import SqliteStore
from rota.stores.sqlite.driver import StandardConnection
from simulation import describe, worlds
from simulation.checker import Report, check
from simulation.dump import Dump, dump
from simulation.faults import ALL_FAULTS, FaultClass, FaultInjector
from simulation.history import History, Record, digest_of
from simulation.hosts import Host
from simulation.loop import SimulatedLoop
from simulation.models.client import AcceptedIds
from simulation.models.environment import Environment
from simulation.network import Network, Service, remote_store
from simulation.variants import ProcessMain, Variant, variant_of
from simulation.web import Web
from simulation.worlds import World

T = TypeVar("T")

#: How many seconds after the faults have ended the last job must have ended, at the latest.
LONGEST_QUIET_SECONDS: Final = 400.0
_LOOK_SECONDS: Final = 4.0


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a run."""

    world: World
    variant: Variant
    records: list[Record]
    dump: Dump
    report: Report
    virtual_seconds: float

    def digest(self) -> str:
        """Return the hash of the history; the same seed gives the same one everywhere."""
        return digest_of(self.records)


def run(seed: int, classes: Collection[FaultClass] = ALL_FAULTS, variant: Variant | None = None) -> Run:
    """Run the world of a seed, with its own variant or another one, and check it."""
    variant = variant or variant_of(seed)
    scenario = Scenario(worlds.draw(seed, classes, has_apis=variant.api is not None), variant)
    with _without_logs():
        try:
            left = scenario.play()
        finally:
            scenario.close()
    report = check(scenario.history.records, left)
    return Run(scenario.world, variant, scenario.history.records, left, report, scenario.loop.time())


@contextmanager
def _without_logs() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)


class Scenario:
    """A running world: the loop, the hosts, the network, the store."""

    def __init__(self, world: World, variant: Variant) -> None:
        self.world = world
        self.loop = SimulatedLoop(world.seed, end=world.quiet_at + 2 * LONGEST_QUIET_SECONDS)
        self.history = History(self.loop)
        self._variant = variant
        self._accepted_ids = AcceptedIds()
        self._store_host = Host("store", None, self.loop, self.history, self._rng("store"))
        self.store = _open_store(self._store_host)
        if world.seed >= worlds.FIRST_WITH_LIMITS:
            _run_now_sync(self.store.put_limits([limit for limit in world.limits if not limit.is_empty]))
            for limit in world.limits:
                if limit.closed_until is not None:
                    _run_now_sync(self.store.close_limit(limit))
            self.history.note("limits", limits=[describe.limit(limit) for limit in world.limits])
        self._service = Service(self._store_host, self.store)
        self._network = Network(self.loop, self._service, self.history, self._rng("network"), world.patience_seconds)
        self._web = Web(self.loop, self._network, world.topology.apis)
        self._hosts = [self._host(name, program) for name, program in self._programs()]
        self._injector = FaultInjector(
            self.loop, self.history, self._network, self._service, self._hosts, self._rng("nemesis")
        )

    def _rng(self, name: str) -> Random:
        return Random(f"{self.world.seed}:{name}")

    def _programs(self) -> list[tuple[str, Callable[[Environment], ProcessMain]]]:
        world, variant = self.world, self._variant
        plays: list[Callable[[Environment], ProcessMain]] = []
        plays += [partial(_play, variant.worker, (config,)) for config in world.workers]
        plays += [partial(_play, variant.scheduler, (config,)) for config in world.schedulers]
        for number, share in enumerate(world.clients):
            # The first client makes the schedules.
            schedules = () if number else world.schedules
            plays.append(partial(_play, variant.client, ((self._accepted_ids, *share, schedules),)))
        plays += [partial(_play, variant.api, ()) for _ in range(world.apis) if variant.api is not None]
        return list(zip(world.topology.everyone, plays, strict=True))

    def _host(self, name: str, play: Callable[[Environment], ProcessMain]) -> Host:
        rng = self._rng(name)

        def program(host: Host) -> ProcessMain:
            view = remote_store(self._network, host)
            web = self._web
            return play(Environment(host, view, self.history, self._injector, rng, web, self.world.can_poison))

        return Host(name, program, self.loop, self.history, rng)

    def play(self) -> Dump:
        """Run the world, and return what is left in the store."""
        self._store_host.start()
        for host in self._hosts:
            host.start()
        self._injector.prepare(self.world.faults, self.world.lease.total_seconds())
        return self.loop.run_until_complete(self._run_to_end())

    async def _run_to_end(self) -> Dump:
        """Wait for the end of the faults, then for the end of all jobs, then a little longer."""
        world = self.world
        await asyncio.sleep(world.quiet_at * worlds.COMING)
        # When all jobs have ended early, further faults would find nothing to break.
        await self._until_idle(world.quiet_at)
        self._injector.heal()
        # Long enough for each delayed message to arrive and each abandoned lease to lapse.
        await asyncio.sleep(2.5 * world.lease.total_seconds())
        await self._until_idle(world.quiet_at + LONGEST_QUIET_SECONDS, emits=True)
        await asyncio.sleep(world.lease.total_seconds())
        self.history.note("end_of_run", clock=self._store_host.clock.micros())
        left = await dump(self.store)
        self.history.close()
        return left

    async def _until_idle(self, latest: float, *, emits: bool = False) -> None:
        """Wait until no process has anything left to do, at most until `latest`."""
        while self.loop.time() < latest and await self._is_busy():
            if emits:
                await self._emit_all()
            await asyncio.sleep(min(_LOOK_SECONDS, latest - self.loop.time()))

    async def _emit_all(self) -> None:
        """Emit what jobs may wait for without a timeout; again and again, since an earlier emission may expire."""
        for name in self.world.events:
            emission = Emission(name, '"at the end"')
            emitted = await self.store.emit(emission)
            if emitted.is_new:
                ask, got = describe.asked("emit", (emission,), {}), describe.answered("emit", emitted)
                fields = {"call": -1, "copy": 1, "host": "end", "verb": "emit"}
                self.history.note("apply", **fields, clock=self._store_host.clock.micros(), ask=ask, got=got)

    async def _is_busy(self) -> bool:
        return any(host.busy for host in self._hosts) or bool((await self.store.census()).lanes)

    def close(self) -> None:
        """Release the loop and the store."""
        self.history.close()
        self.loop.close()
        _run_now_sync(self.store.close())


def _play(part: Callable[..., ProcessMain], rest: tuple[object, ...], environment: Environment) -> ProcessMain:
    return part(environment, *rest)


# The store


class _SharedConnection(StandardConnection):
    """A connection that is emptied and used again.

    Creating a database and preparing its statements costs more than many runs do.
    """

    def close(self) -> None:
        """Stay open for the next world."""

    def clear(self) -> None:
        """Delete every row, and roll back what an aborted run left open."""
        if self._connection.in_transaction:
            self._connection.rollback()
        for table in _tables(self):
            self.run(f"DELETE FROM {table}")  # noqa: S608 - names that the database itself gave us


@cache
def _tables(connection: StandardConnection) -> list[str]:
    listing = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'rota_migration' ORDER BY name"
    return [name for (name,) in connection.rows(listing)]


@cache
def _shared_connection(location: str) -> _SharedConnection:
    return _SharedConnection(location)


def raw_connection() -> StandardConnection:
    """Return the connection of every world's store, for planted bugs."""
    return _shared_connection(":memory:")


def _open_store(host: Host) -> SqliteStore:
    store = _run_now_sync(SqliteStore.open(":memory:", clock=host.clock, connect=_shared_connection))
    _shared_connection(":memory:").clear()
    return store


def _run_now_sync(working: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends to its end, without a loop."""
    try:
        working.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    working.close()
    raise AssertionError("the store in memory suspended; it has to answer at once")
