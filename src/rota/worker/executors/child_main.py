"""The program of a child process: runs handlers for a worker, one after the other.

Two threads. The main thread runs handlers, since much code expects to be there. The other one reads orders: a job to
run, a request to stop it, or the end. It also sends progress and log lines back twice a second. When the orders end
while a handler runs, the worker is gone and the outcome is of no use, so the whole process group is killed: handler,
grandchildren and all. SIGTERM and SIGINT have no effect here: the worker decides. A crash leaves its traceback on
standard error, which the worker reads.
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

from rota.core.ids import JobId
from rota.core.outcome import Succeeded
from rota.core.time import from_micros
from rota.core.waiting import Wait
from rota.ports.caller_tx import CallerTxConfig
from rota.telemetry.logs import set_up
from rota.worker.context import CURRENT, JobContext, fields_for
from rota.worker.executors.child_protocol import MessageReader, encode_message, encode_outcome
from rota.worker.handlers import Handler, handler_of
from rota.worker.lease_keeper.pipe import READ_BYTES
from rota.worker.log_capture import capture_records
from rota.worker.outcomes import outcome_of
from rota.worker.references import resolve
from rota.worker.steps import AttemptSteps, StepAnswer, StepVerb, decode_answer
from rota.worker.transactions import TransactionSteps
from rota.worker.waiting import encode_wait

UPDATE_EVERY_SECONDS: Final = 0.5


@dataclass(slots=True, eq=False)
class ChildJob:
    """A job as it is sent to a child process."""

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
    """Reads orders, runs handlers, sends answers."""

    def __init__(self, orders: int, answers: int) -> None:
        self._orders = orders
        self._answers = answers
        self._lock = threading.Lock()
        self._inbox: SimpleQueue[ChildJob | None] = SimpleQueue()
        self._job: ChildJob | None = None
        self._context: JobContext | None = None
        self._handlers: dict[str, Handler] = {}
        #: Step requests that wait for their answers.
        self._step_requests: dict[int, Future[StepAnswer]] = {}
        self._numbers = count(1)
        self._caller_tx_config: CallerTxConfig | None = None

    def run(self) -> None:
        """Serve until the orders end."""
        threading.Thread(target=self._listen, name="rota-orders", daemon=True).start()
        self._answer({"ready": os.getpid()})
        while (job := self._inbox.get()) is not None:
            context = JobContext(job, job, partial(self._steps_of, job))
            self._context = context
            outcome = self._perform(job, context)
            self._context = self._job = None
            size = getrusage(RUSAGE_SELF).ru_maxrss * 1024
            log, progress = context.take_last()
            self._answer({"outcome": outcome, "bytes": size, "log": log, "progress": progress})

    def _steps_of(self, job: ChildJob) -> AttemptSteps:
        return AttemptSteps(self, TransactionSteps(job.id, job.fence, self._caller_tx_config))

    def _perform(self, job: ChildJob, context: JobContext) -> dict[str, Any]:
        handler: Handler | None = None
        try:
            handler = self._handler_of(job)
            arguments, named = handler.decode(job.payload)
            variables = contextvars.copy_context()
            variables.run(CURRENT.set, context)
            result = variables.run(_call, handler, arguments, named)
            return encode_outcome(Succeeded(handler.encode(result)))
        except BaseException as raised:  # noqa: BLE001 - whatever a handler raises is its outcome
            return encode_outcome(outcome_of(raised, handler or _NOT_FOUND), raised)

    def _handler_of(self, job: ChildJob) -> Handler:
        handler = self._handlers.get(job.reference)
        if handler is None:
            target = resolve(job.reference)
            # A decorator may have replaced the function under its name; a task of the Python SDK keeps the function.
            handler = target if isinstance(target, Handler) else _make(getattr(target, "function", target), job)
            self._handlers[job.reference] = handler
        return handler

    def _listen(self) -> None:
        try:
            self._read_orders()
        except BaseException:  # noqa: BLE001 - whatever it is
            # Without orders this process would run on after the worker's end.
            traceback.print_exc()
            os.killpg(0, signal.SIGKILL)

    def _read_orders(self) -> None:
        messages = MessageReader()
        while True:
            ready, _, _ = select.select([self._orders], [], [], UPDATE_EVERY_SECONDS if self._job else None)
            if not ready:
                self._send_updates()
                continue
            data = os.read(self._orders, READ_BYTES)
            if not data:
                break
            for message in messages.feed(data):
                self._apply_orders(message)
        if self._job is not None:
            os.killpg(0, signal.SIGKILL)
        self._inbox.put(None)

    def _apply_orders(self, message: dict[str, Any]) -> None:
        match message:
            case {"path": [*entries]}:
                sys.path[:] = entries
            case {"logs": [level, form, worker]}:
                set_up(level, form, fields_for(worker))
            case {"capture": True}:
                capture_records()
            case {"caller_tx": [factory, url, encryption_keys]}:
                self._caller_tx_config = CallerTxConfig(factory, url, encryption_keys)
            case {"run": _}:
                self._job = _child_job_of(message["run"])
                self._inbox.put(self._job)
            case {"stepped": {"number": number}}:
                self._resolve_step(self._step_requests.pop(number, None), message["stepped"])
            case {"stop": _} if self._job is not None:
                self._job.is_stopped = True
            case _:
                pass

    def send(
        self, verb: StepVerb, key: str, outcome: str | None = None, wait: Wait | None = None
    ) -> Future[StepAnswer]:
        """Send a request about a step to the worker."""
        answer: Future[StepAnswer] = Future()
        number = next(self._numbers)
        self._step_requests[number] = answer
        request = {"number": number, "verb": verb.value, "key": key, "outcome": outcome, "wait": encode_wait(wait)}
        self._answer({"step": request})
        return answer

    def _resolve_step(self, waiting: Future[StepAnswer] | None, message: dict[str, Any]) -> None:
        if waiting is None or not waiting.set_running_or_notify_cancel():
            return  # the handler does not wait for it any more
        try:
            answer = decode_answer(message)
        except BaseException as raised:  # noqa: BLE001 - raised in the handler
            waiting.set_exception(raised)
        else:
            waiting.set_result(answer)

    def _send_updates(self) -> None:
        context = self._context
        progress, log = (None, None) if context is None else context.take_updates()
        if progress is not None or log is not None:
            self._answer({"progress": progress, "log": log})

    def _answer(self, message: dict[str, Any]) -> None:
        data = memoryview(encode_message(message))
        with self._lock, suppress(BrokenPipeError):
            while data:
                data = data[os.write(self._answers, data) :]


def _child_job_of(message: dict[str, Any]) -> ChildJob:
    seconds, fire_time = message["seconds"], message["fire_time"]
    return ChildJob(
        id=JobId(message["id"]),
        type=message["type"],
        payload=message["payload"],
        fence=message["fence"],
        attempts=message["attempts"],
        max_attempts=message["max_attempts"],
        run_at=from_micros(message["run_at"]),
        fire_time=None if fire_time is None else from_micros(fire_time),
        deadline=inf if seconds is None else time.monotonic() + seconds,
        reference=message["reference"],
        meta=message["meta"],
    )


def _make(function: Any, job: ChildJob) -> Handler:  # noqa: ANN401 - whatever the reference names
    return handler_of(function, type=job.type, executor="process", reference=job.reference)


def _call(handler: Handler, arguments: Any, named: Any) -> Any:  # noqa: ANN401 - the handler's
    result = handler.function(*arguments, **named)
    return asyncio.run(result) if asyncio.iscoroutine(result) else result


def _nothing() -> None: ...


#: Gives the error policy for a handler that could not be imported.
_NOT_FOUND: Final = handler_of(_nothing, executor="thread")


def main() -> None:
    """Run as ``python -m rota.worker.executors.child_main ORDERS ANSWERS``."""
    orders, answers = int(sys.argv[1]), int(sys.argv[2])
    for descriptor in (orders, answers):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - its only form
    # Not SIG_IGN, which processes started by a handler would inherit.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    faulthandler.enable()
    ChildProgram(orders, answers).run()


if __name__ == "__main__":
    main()
