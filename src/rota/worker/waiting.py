"""Durable waits of a handler: sleeps, events, and calls of child jobs.

Each wait has a key. It is begun in the store; if it is over, the handler goes on with its outcome. If not, the handler
is left by `Suspend`, its slot and lease are given back, and when the wait is over the handler is run again from its
beginning: steps and waits that are done answer at once from the store. Only the keys count. The code between them may
change while a job waits.

What happens on a crash. Before the wait is stored: nothing happened. After it is stored, before the job is suspended:
the lease lapses, and the next attempt finds the wait. An event that comes meanwhile ends the wait, and the job is not
suspended. After the job is suspended nothing of it is in this process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Protocol, TypeVar

from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest
from rota.core.ids import JobId
from rota.core.job import Job, JobFailed
from rota.core.lifecycle import State
from rota.core.settlement import JobError, Reason
from rota.core.step import Step, StepKind
from rota.core.submission import Template
from rota.core.time import MICROSECOND, from_micros, span_to_micros
from rota.core.trace import traced
from rota.core.waiting import Wait, check_wait

if TYPE_CHECKING:
    from rota.worker.steps import AttemptSteps

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Span = timedelta | float | str
#: Options of a call that a child job cannot have.
_REFUSED: Final = ("run_at", "idempotency_key", "tx")


class TaskCall(Protocol[R_co]):
    """A call of a task that is not submitted yet."""

    @property
    def decode(self) -> Callable[[str], R_co]: ...

    @property
    def traceparent(self) -> str | None: ...

    @property
    def options(self) -> Mapping[str, Any]: ...

    def template(self) -> Template: ...


class CallableTask(Protocol[P, R_co]):
    """A task, as it is defined with `@app.task`."""

    def call(self, *args: P.args, **kwargs: P.kwargs) -> TaskCall[R_co]: ...


def sleep_of(key: str, span: Span) -> Wait:
    return _checked(Wait(key, StepKind.SLEEP, span=parse_duration(span, field="span")))


def event_wait_of(key: str, event: str, timeout: Span | None) -> Wait:
    span = None if timeout is None else parse_duration(timeout, field="timeout")
    return _checked(Wait(key, StepKind.EVENT, span=span, event=event))


def call_of(key: str, call: TaskCall[R]) -> Wait:
    """Make the wait for a child job."""
    for name in _REFUSED:
        if call.options.get(name) is not None:
            raise InvalidRequest(
                f"{name}: a job that another one calls cannot have it; its key {key!r} makes it unique, and it starts"
                " at once or after `delay`",
                field=name,
            )
    template = call.template()
    return _checked(Wait(key, StepKind.CALL, child=replace(template, meta=traced(template.meta, call.traceparent))))


def _checked(wait: Wait) -> Wait:
    check_wait(wait)
    return wait


def value_of(step: Step) -> Any:  # noqa: ANN401 - any JSON
    """Return the outcome of a wait that is over."""
    return json.loads(step.outcome or "null")


@dataclass(frozen=True, slots=True)
class ChildCall(Generic[R]):
    """A child job that the handler has called. It runs; `result` waits for it without holding the slot."""

    _steps: AttemptSteps
    _wait: Wait
    _step: Step
    _decode: Callable[[str], R]

    @property
    def id(self) -> str:
        """The id of the child job."""
        return self._step.subject or ""

    def result(self) -> R:
        """Return the result of the child; suspend this job until it has ended. `JobFailed` if it did not succeed."""
        return self._result(self._step if self._step.is_done else self._steps.wait(self._wait))

    async def aresult(self) -> R:
        """Return the result of the child as `result` does, for async handlers."""
        return self._result(self._step if self._step.is_done else await self._steps.wait_async(self._wait))

    def _result(self, step: Step) -> R:
        outcome = value_of(step)
        if "failed" in outcome:
            raise JobFailed(_failed_job(outcome["failed"]))
        return self._decode(json.dumps(outcome["result"]))

    def __repr__(self) -> str:
        return f"<ChildCall of job {self.id}>"


def _failed_job(known: dict[str, Any]) -> Job:
    """Return a child that failed, without payload and result."""
    created_at, finished_at = map(from_micros, known["times"])
    return Job(
        id=JobId(known["id"]),
        type=known["type"],
        payload="null",
        queue=known["queue"],
        priority=known["priority"],
        state=State(known["state"]),
        run_at=created_at,
        created_at=created_at,
        updated_at=finished_at,
        attempts=known["attempts"],
        finished_at=finished_at,
        reason=None if known["reason"] is None else Reason(known["reason"]),
        error=None if known["error"] is None else JobError(*known["error"]),
    )


def encode_wait(wait: Wait | None) -> dict[str, Any] | None:
    """Encode a wait for the worker of a child process."""
    if wait is None:
        return None
    span = None if wait.span is None else span_to_micros(wait.span)
    child = None if wait.child is None else wait.child.to_text()
    return {"kind": wait.kind.value, "span": span, "event": wait.event, "child": child}


def decode_wait(key: str, message: dict[str, Any] | None) -> Wait | None:
    """Decode a wait of a child process."""
    if message is None:
        return None
    span = None if message["span"] is None else message["span"] * MICROSECOND
    child = None if message["child"] is None else Template.from_text(message["child"])
    return Wait(key, StepKind(message["kind"]), span=span, event=message["event"], child=child)
