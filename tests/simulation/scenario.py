"""One run of one world: set it up, let it happen, look at what is left, judge.

Each part of a world throws its own rng, all of them derived from the seed by name. The order in which hosts are made
and started is fixed; everything after that is up to the loop.

Who plays the worker, the scheduler and the client is decided by a cast (`casts`): the models, or the real loops.
What the real loops log is not heard: in here everything goes wrong all the time.
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
from simulation import plain, worlds
from simulation.casts import Cast, Playing, cast_of
from simulation.checker import Verdict, check
from simulation.dump import Dump, dump
from simulation.faults import ALL_FAULTS, FaultClass, Nemesis
from simulation.history import History, Record, digest_of
from simulation.hosts import Host
from simulation.loop import SimulatedLoop
from simulation.models.client import Notebook
from simulation.models.stage import Stage
from simulation.network import Network, Service, remote_store
from simulation.web import Web
from simulation.worlds import World

T = TypeVar("T")

#: How long after the quiet time began the last job must have ended, at the latest.
LONGEST_QUIET_SECONDS: Final = 400.0
_LOOK_SECONDS: Final = 4.0


@dataclass(frozen=True, slots=True)
class Run:
    """What became of a world."""

    world: World
    cast: Cast
    records: list[Record]
    dump: Dump
    verdict: Verdict
    virtual_seconds: float

    def digest(self) -> str:
        """Name the history; the same seed must give the same name, everywhere."""
        return digest_of(self.records)


def run(seed: int, classes: Collection[FaultClass] = ALL_FAULTS, cast: Cast | None = None) -> Run:
    """Run the world of a seed, with its own cast or with another one, and judge it."""
    players = cast or cast_of(seed)
    theatre = Theatre(worlds.draw(seed, classes, has_apis=players.api is not None), players)
    with _in_silence():
        try:
            left = theatre.play()
        finally:
            theatre.close()
    verdict = check(theatre.history.records, left)
    return Run(theatre.world, players, theatre.history.records, left, verdict, theatre.loop.time())


@contextmanager
def _in_silence() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)


class Theatre:
    """A world in motion: the loop, the hosts, the network, the store."""

    def __init__(self, world: World, cast: Cast) -> None:
        self.world = world
        self.loop = SimulatedLoop(world.seed, end=world.quiet_at + 2 * LONGEST_QUIET_SECONDS)
        self.history = History(self.loop)
        self._cast = cast
        self._notebook = Notebook()
        self._store_host = Host("store", None, self.loop, self.history, self._rng("store"))
        self.store = _open_store(self._store_host)
        if world.seed >= worlds.FIRST_WITH_LIMITS:
            _at_once(self.store.put_limits([limit for limit in world.limits if not limit.is_empty]))
            for limit in world.limits:
                if limit.closed_until is not None:
                    _at_once(self.store.close_limit(limit))
            self.history.note("limits", limits=[plain.limit(limit) for limit in world.limits])
        self._service = Service(self._store_host, self.store)
        self._network = Network(self.loop, self._service, self.history, self._rng("network"), world.patience_seconds)
        self._web = Web(self.loop, self._network, world.surroundings.apis)
        self._hosts = [self._host(name, program) for name, program in self._programs()]
        self._nemesis = Nemesis(
            self.loop, self.history, self._network, self._service, self._hosts, self._rng("nemesis")
        )

    def _rng(self, name: str) -> Random:
        return Random(f"{self.world.seed}:{name}")

    def _programs(self) -> list[tuple[str, Callable[[Stage], Playing]]]:
        world, cast = self.world, self._cast
        plays: list[Callable[[Stage], Playing]] = []
        plays += [partial(_play, cast.worker, (habits,)) for habits in world.workers]
        plays += [partial(_play, cast.scheduler, (habits,)) for habits in world.schedulers]
        for number, share in enumerate(world.clients):
            # Schedules are the first client's to make.
            schedules = () if number else world.schedules
            plays.append(partial(_play, cast.client, ((self._notebook, *share, schedules),)))
        plays += [partial(_play, cast.api, ()) for _ in range(world.apis) if cast.api is not None]
        return list(zip(world.surroundings.everyone, plays, strict=True))

    def _host(self, name: str, play: Callable[[Stage], Playing]) -> Host:
        rng = self._rng(name)

        def program(host: Host) -> Playing:
            view = remote_store(self._network, host)
            web = self._web
            return play(Stage(host, view, self.history, self._nemesis, rng, web, self.world.can_poison))

        return Host(name, program, self.loop, self.history, rng)

    def play(self) -> Dump:
        """Let the world happen, and give what is left in the store."""
        self._store_host.start()
        for host in self._hosts:
            host.start()
        self._nemesis.prepare(self.world.faults, self.world.lease.total_seconds())
        return self.loop.run_until_complete(self._direct())

    async def _direct(self) -> Dump:
        """Wait for the quiet time, then for the end of all jobs, then a little longer: nothing may happen after it."""
        world = self.world
        await asyncio.sleep(world.quiet_at * worlds.COMING)
        # Where all is done early there is nothing left to break, and the quiet time may as well begin.
        await self._until_idle(world.quiet_at)
        self._nemesis.heal()
        # Long enough for every straggler to arrive and every forgotten lease to run out.
        await asyncio.sleep(2.5 * world.lease.total_seconds())
        await self._until_idle(world.quiet_at + LONGEST_QUIET_SECONDS, emits=True)
        await asyncio.sleep(world.lease.total_seconds())
        self.history.note("end_of_run", clock=self._store_host.clock.micros())
        left = await dump(self.store)
        self.history.close()
        return left

    async def _until_idle(self, latest: float, *, emits: bool = False) -> None:
        """Wait until nobody has anything to do any more, but no longer than until a moment."""
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
                ask, got = plain.asked("emit", (emission,), {}), plain.answered("emit", emitted)
                told = {"call": -1, "copy": 1, "host": "end", "verb": "emit"}
                self.history.note("apply", **told, clock=self._store_host.clock.micros(), ask=ask, got=got)

    async def _is_busy(self) -> bool:
        return any(host.busy for host in self._hosts) or bool((await self.store.census()).lanes)

    def close(self) -> None:
        """Let go of everything."""
        self.history.close()
        self.loop.close()
        _at_once(self.store.close())


def _play(part: Callable[..., Playing], rest: tuple[object, ...], stage: Stage) -> Playing:
    return part(stage, *rest)


# The store


class _LastingConnection(StandardConnection):
    """A connection that is emptied and used again.

    Making a database and preparing some seventy statements costs more than many a run does.
    """

    def close(self) -> None:
        """Stay open for the next world."""

    def clear(self) -> None:
        """Delete every row, and whatever an unlucky run left undone."""
        if self._connection.in_transaction:
            self._connection.rollback()
        for table in _tables(self):
            self.run(f"DELETE FROM {table}")  # noqa: S608 - names that the database itself gave us


@cache
def _tables(connection: StandardConnection) -> list[str]:
    listing = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'rota_migration' ORDER BY name"
    return [name for (name,) in connection.rows(listing)]


@cache
def _lasting(location: str) -> _LastingConnection:
    return _LastingConnection(location)


def raw_connection() -> StandardConnection:
    """Give the connection under every world's store, for whoever plants bugs in it."""
    return _lasting(":memory:")


def _open_store(host: Host) -> SqliteStore:
    store = _at_once(SqliteStore.open(":memory:", clock=host.clock, connect=_lasting))
    _lasting(":memory:").clear()
    return store


def _at_once(working: Coroutine[Any, Any, T]) -> T:
    """Drive a coroutine that never suspends to its end, without any loop."""
    try:
        working.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    working.close()
    raise AssertionError("the store in memory suspended: it is to answer at once")
