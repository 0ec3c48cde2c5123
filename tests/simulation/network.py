"""Calls across a network that cannot be trusted, to a service that can.

A call is a request and a reply. Each may be delayed, lost or cut off; a request may also arrive twice. So a call ends
in one of three ways, and the caller must be content with what it knows:

- answered: it was done, and here is the answer;
- failed: it was not done (the connection was refused, or the request was wrong);
- unknown: no answer came in time. It was done, or not, or will be done later, when the request finally arrives.

The second and the third look alike to the caller (`StoreUnavailable`); only the history tells them apart.

What the service does is atomic: it happens at one moment of virtual time, whole. Its process may be paused, then
requests wait at its door and are served when their callers have long given up; or it may die after it has committed and
before it could say so. Cut links are directed: a partition may let requests through and no replies.

Everything random is drawn from the network's own rng, in the order in which calls are made.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final, cast

from rota.core.errors import RotaError, StoreUnavailable
from rota.ports.store import Store
from simulation import plain
from simulation.history import History
from simulation.hosts import Host
from simulation.loop import Process, SimulatedLoop

#: Calls whose answers tell the store's time.
_LOOKS: Final = frozenset({"time", "timetable"})
_LONGEST_BLIND_SECONDS: Final = 7.0


@dataclass(slots=True)
class Weather:
    """How bad the network is at the moment; all chances are per message. Calm by default."""

    fastest: float = 0.0005
    spread: float = 0.01
    request_loss: float = 0.0
    reply_loss: float = 0.0
    duplication: float = 0.0
    #: The chance that a message takes up to `slowest` seconds: more than a caller waits, more than a lease lasts.
    straggling: float = 0.0
    slowest: float = 0.0


@dataclass(slots=True, eq=False)
class Call:
    """One call under way."""

    number: int
    host: Host
    verb: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    ask: Any
    future: asyncio.Future[Any]
    process: Process
    gives_up_at: float
    copies: int = 0


class Service:
    """Something on a host that answers calls, each at one moment. Its methods must not suspend."""

    def __init__(self, host: Host, target: object) -> None:
        self.host = host
        self.target = target
        #: Refuse every call, as a server does that is not there.
        self.is_refusing = False
        #: The chance that the service dies between doing what was asked and saying so.
        self.forgetfulness = 0.0

    def perform(self, call: Call) -> Any:  # noqa: ANN401 - as the verb does
        """Do what was asked, at once."""
        working: Coroutine[Any, Any, Any] = getattr(self.target, call.verb)(*call.arguments, **call.options)
        try:
            working.send(None)
        except StopIteration as done:
            return done.value
        working.close()
        raise AssertionError(f"{call.verb} suspended: a simulated service must answer at once")


class Network:
    """Carries calls between hosts and one service."""

    def __init__(
        self, loop: SimulatedLoop, service: Service, history: History, rng: Random, patience_seconds: float
    ) -> None:
        self.weather = Weather()
        self._patience = patience_seconds
        self._loop = loop
        self._service = service
        self._history = history
        self._rng = rng
        self._number = 0
        self._cut: dict[tuple[str, str], int] = {}
        self._waiting: dict[str, deque[Call]] = {}
        #: When the last answer that told each process the store's time was asked for.
        self._looked_at: dict[str, float] = {}
        #: Told of each crash of the service between commit and reply.
        self.on_service_crash: Callable[[], None] | None = None
        #: Told of each worker that was given jobs, before it can know.
        self.on_given: Callable[[str], None] | None = None

    # Links

    def cut(self, source: str, target: str) -> None:
        """Let nothing through from `source` to `target`."""
        self._cut[source, target] = self._cut.get((source, target), 0) + 1

    def mend(self, source: str, target: str) -> None:
        """Take one cut back."""
        self._cut[source, target] = max(self._cut.get((source, target), 0) - 1, 0)

    def mend_all(self) -> None:
        """Take every cut back."""
        self._cut.clear()

    def is_cut(self, source: str, target: str) -> bool:
        """Say whether nothing gets from `source` to `target`."""
        return bool(self._cut) and self._cut.get((source, target), 0) > 0

    # Calls

    async def call(self, host: Host, verb: str, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as the verb does
        """Ask the service for something; `StoreUnavailable` when no answer came."""
        loop = self._loop
        self._number += 1
        ask = plain.asked(verb, arguments, options)
        future = loop.create_future()
        deadline = loop.time() + self._patience
        call = Call(self._number, host, verb, arguments, options, ask, future, loop.current(), deadline)
        if plain.is_api_given(verb):
            self._history.note("invoke", call=call.number, host=host.name, boot=host.boot, verb=verb, ask=ask)
        self._watch(call)
        self._send(call)
        if self.is_likely(self.weather.duplication):
            self._send(call)
        try:
            return await future
        except asyncio.CancelledError:
            self._history.note("unknown", call=call.number, host=host.name, verb=verb, why="abandoned")
            raise

    def _send(self, call: Call) -> None:
        if self.is_likely(self.weather.request_loss):
            return
        loop = self._loop
        loop.call_at(loop.time() + self.delay(), self._arrive, call, context=self._service.host.process.context)

    def _arrive(self, call: Call) -> None:
        """Serve a request, in the process of the service."""
        service = self._service
        if self.is_cut(call.host.name, service.host.name):
            return
        if service.is_refusing:
            self._reply(call, StoreUnavailable("connection refused"), is_failure=True)
            return
        call.copies += 1
        try:
            answer = service.perform(call)
        except RotaError as error:
            self._reply(call, error, is_failure=True)
            return
        if plain.is_worth_telling(call.verb, answer):
            told = {"call": call.number, "copy": call.copies, "host": call.host.name, "verb": call.verb}
            got = plain.answered(call.verb, answer)
            self._history.note("apply", **told, clock=service.host.clock.micros(), ask=call.ask, got=got)
        if answer and call.verb == "claim" and self.on_given is not None:
            self.on_given(call.ask["worker"])
        if call.copies > 1:
            return  # The caller has one connection, and hears on it what the first copy came to.
        if self.is_likely(service.forgetfulness) and self.on_service_crash is not None:
            self.on_service_crash()
            return
        self._reply(call, answer)

    def _reply(self, call: Call, answer: object, *, is_failure: bool = False) -> None:
        if self.is_likely(self.weather.reply_loss) or self.is_cut(self._service.host.name, call.host.name):
            return
        loop = self._loop
        loop.call_at(loop.time() + self.delay(), self._hear, call, answer, is_failure, context=call.process.context)

    def _hear(self, call: Call, answer: object, is_failure: bool) -> None:  # noqa: FBT001 - carried by a timer
        """Take the answer, in the process of the caller."""
        if call.future.done():
            return
        told = {"call": call.number, "host": call.host.name, "verb": call.verb}
        if isinstance(answer, RotaError):
            kind = "fail" if is_failure else "unknown"
            self._history.note(kind, **told, why=str(answer))
            call.future.set_exception(answer)
            return
        if plain.is_api_given(call.verb):
            self._history.note("ok", **told, got=plain.answered(call.verb, answer))
        if call.verb in _LOOKS:
            self._note_look(call)
        call.future.set_result(answer)

    def _note_look(self, call: Call) -> None:
        """Tell when a process has not seen the store's clock for long: steps of the clock may have escaped it."""
        asked_at = call.gives_up_at - self._patience
        before = self._looked_at.get(call.process.name, asked_at)
        self._looked_at[call.process.name] = max(asked_at, before)
        if self._loop.time() - before > _LONGEST_BLIND_SECONDS:
            self._history.note("blind", host=call.host.name, since=round(before * 1e6))

    def _watch(self, call: Call) -> None:
        """See to it that the caller does not wait for ever.

        Everybody is equally patient, so the calls of a process run out in the order in which they were made, and one
        timer for the first of them is enough.
        """
        waiting = self._waiting.setdefault(call.process.name, deque())
        waiting.append(call)
        if len(waiting) == 1:
            self._loop.call_at(call.gives_up_at, self._give_up, waiting, context=call.process.context)

    def _give_up(self, waiting: deque[Call]) -> None:
        """Tell those who have waited long enough that no answer will come, in their own process."""
        while waiting and (waiting[0].future.done() or waiting[0].gives_up_at <= self._loop.time()):
            call = waiting.popleft()
            if not call.future.done():
                self._history.note("unknown", call=call.number, host=call.host.name, verb=call.verb, why="no answer")
                call.future.set_exception(StoreUnavailable(f"{call.verb}: no answer after {self._patience} s"))
        if waiting:
            first = waiting[0]
            self._loop.call_at(first.gives_up_at, self._give_up, waiting, context=first.process.context)

    # Chance

    def is_likely(self, chance: float) -> bool:
        """Throw for something."""
        return chance > 0 and self._rng.random() < chance

    def delay(self) -> float:
        """Draw how long a message takes."""
        weather = self.weather
        if self.is_likely(weather.straggling):
            return self._rng.random() * weather.slowest
        # Most messages are quick and a few take long: squares lean to the left.
        return weather.fastest + weather.spread * self._rng.random() ** 2


class RemoteStore:
    """The store as a host sees it: every verb is a call. Whoever takes a `Store` can be given one of these."""

    keeps_waiting_claims = False

    def __init__(self, network: Network, host: Host) -> None:
        self._network = network
        self._host = host

    def frees_permit(self, _ids: object) -> bool:
        """No: there are no limits in here. This asks the process's own memory, and is no call."""
        return False

    def limit_pause(self, _wanted: object) -> None:
        """No pause: as above."""

    def __getattr__(self, verb: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        if verb.startswith("_"):
            raise AttributeError(verb)
        network, host = self._network, self._host

        def ask(*arguments: Any, **options: Any) -> Coroutine[Any, Any, Any]:  # noqa: ANN401 - as the verb does
            return network.call(host, verb, arguments, options)

        # The next time Python finds it without asking us.
        self.__dict__[verb] = ask
        return ask


def remote_store(network: Network, host: Host) -> Store:
    """Give a host its view of the store."""
    return cast("Store", RemoteStore(network, host))
