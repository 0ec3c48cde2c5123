"""The program of a child process: runs handlers for a worker, one after the other.

Two threads. The main thread runs handlers, since much code wants to be there. The other reads orders: a run, a wish
to stop it, or the end. It also carries progress and log back twice a second. When the orders end while a handler
runs, the worker is gone: nobody wants the outcome, so the whole group is killed, handler, grandchildren and all.
SIGTERM and SIGINT mean nothing here: the worker decides. A crash leaves its traceback on standard error, which the
worker reads.
"""

from __future__ import annotations

import asyncio
import contextvars
import faulthandler
import os
import select
import signal
import sys
import threading
import time
import traceback
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import count
from math import inf
from queue import SimpleQueue
from resource import RUSAGE_SELF, getrusage
from typing import Any, Final

from rota.core.identity import JobId
from rota.core.instant import from_micros
from rota.core.outcome import Succeeded
from rota.ports.guest import House
from rota.telemetry.logs import set_up
from rota.worker.context import CURRENT, JobContext, fields_for
from rota.worker.handlers import Handler, handler_of
from rota.worker.processes import outcome_to
from rota.worker.references import resolve
from rota.worker.steps import Act, Reply, Steps, reply_from
from rota.worker.verdict import outcome_of
from rota.worker.wire import CHUNK, Frames, frame
from rota.worker.within import Within

NEWS_EVERY_SECONDS: Final = 0.5


@dataclass(slots=True, eq=False)
class Errand:
    """One run, as a child knows it."""

    id: JobId
    type: str
    payload: str
    fence: int
    attempts: int
    max_attempts: int
    run_at: datetime
    fire_time: datetime | None
    deadline: float
    reference: str
    meta: dict[str, str]
    is_stopped: bool = False


class ChildProgram:
    """Takes orders, runs handlers, answers."""

    def __init__(self, orders: int, answers: int) -> None:
        self._orders = orders
        self._answers = answers
        self._guard = threading.Lock()
        self._inbox: SimpleQueue[Errand | None] = SimpleQueue()
        self._errand: Errand | None = None
        self._context: JobContext | None = None
        self._handlers: dict[str, Handler] = {}
        #: The questions about steps that wait for their answers.
        self._asked: dict[int, Future[Reply]] = {}
        self._numbers = count(1)
        self._house: House | None = None

    def run(self) -> None:
        """Serve until the orders end."""
        threading.Thread(target=self._listen, name="rota-orders", daemon=True).start()
        self._say({"ready": os.getpid()})
        while (errand := self._inbox.get()) is not None:
            context = JobContext(errand, errand, partial(self._steps_of, errand))
            self._context = context
            outcome = self._perform(errand, context)
            self._context = self._errand = None
            size = getrusage(RUSAGE_SELF).ru_maxrss * 1024
            self._say({"outcome": outcome, "bytes": size, "log": context.log_tail()})

    def _steps_of(self, errand: Errand) -> Steps:
        return Steps(self, Within(errand.id, errand.fence, self._house))

    def _perform(self, errand: Errand, context: JobContext) -> dict[str, Any]:
        handler: Handler | None = None
        try:
            handler = self._handler_of(errand)
            arguments, named = handler.decode(errand.payload)
            surroundings = contextvars.copy_context()
            surroundings.run(CURRENT.set, context)
            result = surroundings.run(_call, handler, arguments, named)
            return outcome_to(Succeeded(handler.encode(result)))
        except BaseException as raised:  # noqa: BLE001 - whatever a handler raises is its outcome
            return outcome_to(outcome_of(raised, handler or _UNKNOWN), raised)

    def _handler_of(self, errand: Errand) -> Handler:
        handler = self._handlers.get(errand.reference)
        if handler is None:
            found = resolve(errand.reference)
            # A name may by now stand for what a decorator made of the function; a task of the Python SDK keeps it.
            handler = found if isinstance(found, Handler) else _plain(getattr(found, "function", found), errand)
            self._handlers[errand.reference] = handler
        return handler

    def _listen(self) -> None:
        try:
            self._take_orders()
        except BaseException:  # noqa: BLE001 - whatever it is
            # Without ears this process would run on when nobody wants it: better none.
            traceback.print_exc()
            os.killpg(0, signal.SIGKILL)

    def _take_orders(self) -> None:
        frames = Frames()
        while True:
            ready, _, _ = select.select([self._orders], [], [], NEWS_EVERY_SECONDS if self._errand else None)
            if not ready:
                self._tell_news()
                continue
            data = os.read(self._orders, CHUNK)
            if not data:
                break
            for message in frames.feed(data):
                self._obey(message)
        if self._errand is not None:
            os.killpg(0, signal.SIGKILL)
        self._inbox.put(None)

    def _obey(self, message: dict[str, Any]) -> None:
        match message:
            case {"path": [*entries]}:
                sys.path[:] = entries
            case {"logs": [level, form, worker]}:
                set_up(level, form, fields_for(worker))
            case {"house": [factory, url]}:
                self._house = House(factory, url)
            case {"run": _}:
                self._errand = _errand_of(message["run"])
                self._inbox.put(self._errand)
            case {"stepped": {"number": number}}:
                self._answer(self._asked.pop(number, None), message["stepped"])
            case {"stop": _} if self._errand is not None:
                self._errand.is_stopped = True
            case _:
                pass

    def ask(self, act: Act, key: str, outcome: str | None = None) -> Future[Reply]:
        """Ask about a step: the worker knows whom."""
        asked: Future[Reply] = Future()
        number = next(self._numbers)
        self._asked[number] = asked
        self._say({"step": {"number": number, "act": act.value, "key": key, "outcome": outcome}})
        return asked

    def _answer(self, asked: Future[Reply] | None, answer: dict[str, Any]) -> None:
        if asked is None or not asked.set_running_or_notify_cancel():
            return  # nobody waits for it any more
        try:
            reply = reply_from(answer)
        except BaseException as raised:  # noqa: BLE001 - it is the handler's to hear
            asked.set_exception(raised)
        else:
            asked.set_result(reply)

    def _tell_news(self) -> None:
        context = self._context
        progress, log = (None, None) if context is None else context.take_news()
        if progress is not None or log is not None:
            self._say({"progress": progress, "log": log})

    def _say(self, message: dict[str, Any]) -> None:
        data = memoryview(frame(message))
        with self._guard, suppress(BrokenPipeError):
            while data:
                data = data[os.write(self._answers, data) :]


def _errand_of(told: dict[str, Any]) -> Errand:
    seconds, fire_time = told["seconds"], told["fire_time"]
    return Errand(
        id=JobId(told["id"]),
        type=told["type"],
        payload=told["payload"],
        fence=told["fence"],
        attempts=told["attempts"],
        max_attempts=told["max_attempts"],
        run_at=from_micros(told["run_at"]),
        fire_time=None if fire_time is None else from_micros(fire_time),
        deadline=inf if seconds is None else time.monotonic() + seconds,
        reference=told["reference"],
        meta=told["meta"],
    )


def _plain(function: Any, errand: Errand) -> Handler:  # noqa: ANN401 - whatever the reference names
    return handler_of(function, type=errand.type, executor="process", reference=errand.reference)


def _call(handler: Handler, arguments: Any, named: Any) -> Any:  # noqa: ANN401 - the handler's
    result = handler.function(*arguments, **named)
    return asyncio.run(result) if asyncio.iscoroutine(result) else result


def _nothing() -> None:
    """Stand in for a handler that could not be found."""


_UNKNOWN: Final = handler_of(_nothing, executor="thread")


def main() -> None:
    """Run as ``python -m rota.worker.child ORDERS ANSWERS``."""
    orders, answers = int(sys.argv[1]), int(sys.argv[2])
    for descriptor in (orders, answers):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - its only form
    # Handlers of our own rather than SIG_IGN, which what a handler starts would inherit.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    faulthandler.enable()
    ChildProgram(orders, answers).run()


if __name__ == "__main__":
    main()
