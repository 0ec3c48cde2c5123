"""The nemesis: what is done to a world, when, and to whom.

Faults come in classes, and each class draws from rng of its own: a class that is switched off does not move the
faults of another one. That is what lets a failure be shrunk to the few classes it needs.

A fault has a beginning and an end. All of them end, and all that is broken is mended, when the quiet time begins: from
then on the world has to find its way back by itself. Processes that ended, for whatever reason, are started again
after a while, as a service manager would.

*Failpoints* are named places in the models (``worker.claimed``); armed for a host, the process dies the moment it comes
by.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

from simulation.history import History
from simulation.hosts import Host
from simulation.loop import SimulatedLoop
from simulation.network import Network, Service, Weather

HOUR: Final = 3600.0
#: Where the store has given a worker jobs, and its answer is still on its way.
_GIVEN: Final = "given"


class FaultClass(StrEnum):
    """What can go wrong; each can be switched off by itself."""

    CRASH = "crash"
    PAUSE = "pause"
    PARTITION = "partition"
    REQUEST_LOSS = "request_loss"
    REPLY_LOSS = "reply_loss"
    DUPLICATION = "duplication"
    DELAY = "delay"
    CLOCK = "clock"
    STORE_CLOCK = "store_clock"
    STORE_DOWN = "store_down"
    STORE_PAUSE = "store_pause"
    STORE_CRASH = "store_crash"
    FAILPOINT = "failpoint"
    #: Handlers that take their worker down with them.
    POISON = "poison"
    #: No fault at all: SIGTERM and a restart. Listed here because it, too, can be left out.
    TERMINATE = "terminate"


ALL_FAULTS: Final = tuple(FaultClass)

FAILPOINTS: Final = {
    "worker": ("worker.claimed", "worker.started", "worker.ended", "worker.settled"),
    "scheduler": ("scheduler.lost", "scheduler.reaped", "scheduler.planned", "scheduler.fired"),
    "client": ("client.submitting", "client.submitted", "client.cancelling"),
    "api": ("api.asked", "api.answering", "api.answering"),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong at a moment, for a while."""

    kind: FaultClass
    at: float
    lasting: float
    target: str = ""
    detail: str = ""
    amount: float = 0.0


@dataclass(frozen=True, slots=True)
class ExplainContext:
    """What the nemesis needs to know of a world to be nasty to it."""

    workers: Sequence[str]
    schedulers: Sequence[str]
    clients: Sequence[str]
    #: Where the API is served, in worlds in which others reach the store through it.
    apis: Sequence[str]
    #: When the quiet time begins.
    quiet_at: float
    lease: float
    drain: float

    @property
    def everyone(self) -> list[str]:
        """All hosts but the store's."""
        return [*self.workers, *self.schedulers, *self.clients, *self.apis]


# Drawing


def draw(seed: int, around: ExplainContext, classes: Collection[FaultClass]) -> list[Fault]:
    """Draw the faults of a world, in the order in which they begin."""
    faults: list[Fault] = []
    for kind in ALL_FAULTS:
        rng = Random(f"{seed}:fault:{kind}")
        # About a third of the classes strike in a world; all at once would leave nothing standing.
        if rng.random() < _LIKELIHOOD.get(kind, 0.3) and kind in classes and kind in _DRAWN:
            faults += [_DRAWN[kind](rng, around) for _ in range(rng.choice((1, 1, 2, 3)))]
    return sorted(faults, key=lambda fault: (fault.at, fault.kind))


_LIKELIHOOD: Final = {FaultClass.CRASH: 0.5, FaultClass.PAUSE: 0.5, FaultClass.TERMINATE: 0.6, FaultClass.DELAY: 0.4}


def _moment(rng: Random, around: ExplainContext) -> float:
    return around.quiet_at * (0.02 + 0.93 * rng.random())


def _crash(rng: Random, around: ExplainContext) -> Fault:
    lasting = rng.choice((0.2, 1.0, around.lease * 1.5)) * (0.5 + rng.random())
    return Fault(FaultClass.CRASH, _moment(rng, around), lasting, rng.choice(around.everyone))


def _pause(rng: Random, around: ExplainContext) -> Fault:
    lasting = around.lease * rng.uniform(0.3, 2.5)
    targets = [*around.workers, *around.workers, *around.schedulers, *around.apis]
    return Fault(FaultClass.PAUSE, _moment(rng, around), lasting, rng.choice(targets))


def _partition(rng: Random, around: ExplainContext) -> Fault:
    direction = rng.choice(("both", "out", "in"))
    lasting = around.lease * rng.uniform(0.2, 2.0)
    return Fault(FaultClass.PARTITION, _moment(rng, around), lasting, rng.choice(around.everyone), direction)


def _weather(kind: FaultClass, most: float) -> Callable[[Random, ExplainContext], Fault]:
    def make(rng: Random, around: ExplainContext) -> Fault:
        lasting = rng.uniform(5, 40)
        return Fault(kind, _moment(rng, around), lasting, amount=rng.uniform(0.05, most))

    return make


def _clock(rng: Random, around: ExplainContext) -> Fault:
    target = rng.choice(around.everyone)
    detail = rng.choice(("step", "step", "drift"))
    amount = rng.uniform(0.5, 2.0) if detail == "drift" else rng.choice((HOUR, -HOUR, 20.0, -20.0))
    # A client that believes it is an hour later asks for jobs an hour later; rightly, and we will not wait for them.
    if target in around.clients:
        amount = max(min(amount, 20.0), -20.0)
    return Fault(FaultClass.CLOCK, _moment(rng, around), around.quiet_at * rng.random(), target, detail, amount)


def _store_clock(rng: Random, around: ExplainContext) -> Fault:
    # Set ahead for good: it had been wrong before. Every other error is noticed and taken back.
    detail = rng.choice(("ahead", "behind", "spike", "drift"))
    amount = {"ahead": HOUR, "behind": -HOUR, "spike": rng.uniform(-20, 20), "drift": rng.uniform(0.93, 1.07)}[detail]
    return Fault(FaultClass.STORE_CLOCK, _moment(rng, around), rng.uniform(2, 40), "store", detail, amount)


def _store(kind: FaultClass, longest: float) -> Callable[[Random, ExplainContext], Fault]:
    def make(rng: Random, around: ExplainContext) -> Fault:
        lasting = rng.uniform(0.5, longest)
        return Fault(kind, _moment(rng, around), lasting, "store", amount=rng.uniform(0.02, 0.3))

    return make


def _failpoint(rng: Random, around: ExplainContext) -> Fault:
    target = rng.choice(around.everyone)
    role = next(role for role, names in _roles(around).items() if target in names)
    hits = float(rng.choice((1, 1, 2, 3, 5)))
    return Fault(FaultClass.FAILPOINT, _moment(rng, around), 0.0, target, rng.choice(FAILPOINTS[role]), hits)


def _roles(around: ExplainContext) -> dict[str, Sequence[str]]:
    return {
        "worker": around.workers,
        "scheduler": around.schedulers,
        "client": around.clients,
        "api": around.apis,
    }


def _terminate(rng: Random, around: ExplainContext) -> Fault:
    # Some of them in the quiet time, where nothing else can be blamed.
    at = around.quiet_at * (0.2 + 0.95 * rng.random())
    grace = around.drain + rng.uniform(0.5, 3)
    # Some of them at a bad moment: when the worker is being given jobs and does not know it yet, or has begun one.
    detail = rng.choice(("", _GIVEN, "worker.started"))
    return Fault(FaultClass.TERMINATE, at, rng.uniform(0.1, 3), rng.choice(around.workers), detail, grace)


_DRAWN: Final[dict[FaultClass, Callable[[Random, ExplainContext], Fault]]] = {
    FaultClass.CRASH: _crash,
    FaultClass.PAUSE: _pause,
    FaultClass.PARTITION: _partition,
    FaultClass.REQUEST_LOSS: _weather(FaultClass.REQUEST_LOSS, 0.4),
    FaultClass.REPLY_LOSS: _weather(FaultClass.REPLY_LOSS, 0.4),
    FaultClass.DUPLICATION: _weather(FaultClass.DUPLICATION, 0.6),
    FaultClass.DELAY: _weather(FaultClass.DELAY, 0.3),
    FaultClass.CLOCK: _clock,
    FaultClass.STORE_CLOCK: _store_clock,
    FaultClass.STORE_DOWN: _store(FaultClass.STORE_DOWN, 12.0),
    FaultClass.STORE_PAUSE: _store(FaultClass.STORE_PAUSE, 12.0),
    FaultClass.STORE_CRASH: _store(FaultClass.STORE_CRASH, 25.0),
    FaultClass.FAILPOINT: _failpoint,
    FaultClass.TERMINATE: _terminate,
}


# Acting


class Nemesis:
    """Does to a world what was drawn, and mends it all when the quiet time begins."""

    def __init__(
        self,
        loop: SimulatedLoop,
        history: History,
        network: Network,
        service: Service,
        hosts: Sequence[Host],
        rng: Random,
    ) -> None:
        self._loop = loop
        self._history = history
        self._network = network
        self._service = service
        self._hosts = {host.name: host for host in hosts}
        self._rng = rng
        self._world = loop.world.context
        self._armed: dict[tuple[str, str], int] = {}
        #: Who is to be asked to end, within which grace, when it comes by a place.
        self._signals: dict[tuple[str, str], float] = {}
        self._slowest = 0.0
        self.is_quiet = False
        network.on_service_crash = self._lose_store
        network.on_given = lambda worker: self._signal(worker, _GIVEN)
        for host in hosts:
            host.on_exit = self._restart_later

    def prepare(self, faults: Sequence[Fault], lease: float) -> None:
        """Set a timer for the beginning of each fault."""
        self._slowest = lease * 2
        for fault in faults:
            self._loop.call_at(fault.at, self._begin, fault, context=self._world)

    def _begin(self, fault: Fault) -> None:
        if self.is_quiet and fault.kind is not FaultClass.TERMINATE:
            return
        self._note(fault, "begin")
        end = self._act(fault)
        if end is not None:
            self._loop.call_later(fault.lasting, self._end, fault, end, context=self._world)

    def _end(self, fault: Fault, end: Callable[[], None]) -> None:
        end()
        if not self.is_quiet:
            self._note(fault, "end")

    def _act(self, fault: Fault) -> Callable[[], None] | None:
        """Begin a fault and say how it ends; None when it ends by itself."""
        host = self._hosts.get(fault.target)
        match fault.kind:
            case FaultClass.CRASH if host is not None:
                host.crash()
                return host.start
            case FaultClass.PAUSE if host is not None:
                host.pause()
                return host.resume
            case FaultClass.STORE_PAUSE:
                self._service.host.pause()
                return self._service.host.resume
            case FaultClass.PARTITION:
                return self._cut(fault)
            case FaultClass.CLOCK if host is not None:
                return _meddle(host, fault)
            case FaultClass.STORE_CLOCK:
                return _meddle(self._service.host, fault)
            case FaultClass.FAILPOINT:
                self._armed[fault.target, fault.detail] = round(fault.amount)
                return None
            case FaultClass.TERMINATE if fault.detail:
                self._signals[fault.target, fault.detail] = fault.amount
                return None
            case FaultClass.TERMINATE if host is not None:
                host.terminate(fault.amount)
                return None
            case _:
                return self._disturb(fault)

    def _cut(self, fault: Fault) -> Callable[[], None]:
        # From everyone that serves: the store, and the API if there is one.
        others = [self._service.host.name, *(name for name in self._hosts if name.startswith("api-"))]
        outward = [(fault.target, other) for other in others if other != fault.target]
        inward = [(other, fault.target) for other in others if other != fault.target]
        cuts = {"out": outward, "in": inward}.get(fault.detail, outward + inward)
        for source, target in cuts:
            self._network.cut(source, target)

        def mend() -> None:
            for source, target in cuts:
                self._network.mend(source, target)

        return mend

    def _disturb(self, fault: Fault) -> Callable[[], None]:
        """Change how the network or the store behaves, for a while."""
        owner, name, value = self._knob(fault)
        setattr(owner, name, value)
        if fault.kind is FaultClass.DELAY:
            self._network.weather.slowest = self._slowest
        return lambda: setattr(owner, name, type(value)(0))

    def _knob(self, fault: Fault) -> tuple[object, str, float | bool]:
        match fault.kind:
            case FaultClass.REQUEST_LOSS | FaultClass.REPLY_LOSS | FaultClass.DUPLICATION:
                return self._network.weather, fault.kind.value, fault.amount
            case FaultClass.DELAY:
                return self._network.weather, "straggling", fault.amount
            case FaultClass.STORE_CRASH:
                return self._service, "forgetfulness", fault.amount
            case _:
                return self._service, "is_refusing", True

    def heal(self) -> None:
        """Mend everything and let nothing break any more: the quiet time begins."""
        self.is_quiet = True
        self._network.mend_all()
        self._network.weather = Weather()
        self._service.is_refusing, self._service.forgetfulness = False, 0.0
        self._armed.clear()
        for host in [*self._hosts.values(), self._service.host]:
            host.resume()
            host.clock.correct()
            host.start()
        self._history.note("fault", fault="all", phase="end", target="", detail="quiet")

    # Deaths that nobody planned the end of

    async def reach(self, host: Host, point: str) -> None:
        """Come by a failpoint: a place where the process may die, or be asked to end."""
        self._signal(host.name, point)
        if not self._armed:
            return
        left = self._armed.get((host.name, point), 0)
        if left == 0:
            return
        self._armed[host.name, point] = left - 1
        if left == 1:
            self.slay(host, FaultClass.FAILPOINT, point)
            await asyncio.Event().wait()  # never: the process is dead

    def _signal(self, name: str, point: str) -> None:
        """Ask a process to end, if it was to be asked here."""
        if self._signals and (grace := self._signals.pop((name, point), None)) is not None:
            self._loop.call_soon(self._hosts[name].terminate, grace, context=self._world)

    def slay(self, host: Host, kind: FaultClass, detail: str) -> None:
        """Let a process die of itself, to be started again after a while."""
        self._history.note("fault", fault=str(kind), phase="hit", target=host.name, detail=detail)
        host.crash()
        self._restart_later(host)

    def _lose_store(self) -> None:
        self.slay(self._service.host, FaultClass.STORE_CRASH, "between commit and reply")

    def _restart_later(self, host: Host) -> None:
        self._loop.call_later(0.2 + 3 * self._rng.random(), host.start, context=self._world)

    def _note(self, fault: Fault, phase: str) -> None:
        detail = f"{fault.detail} {fault.amount:.6g} for {fault.lasting:.3f} s".strip()
        self._history.note("fault", fault=str(fault.kind), phase=phase, target=fault.target, detail=detail)


def _meddle(host: Host, fault: Fault) -> Callable[[], None]:
    if fault.detail == "drift":
        host.clock.drift(fault.amount)
    else:
        host.clock.step(fault.amount, for_good=fault.detail == "ahead")
    return host.clock.correct
