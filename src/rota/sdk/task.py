"""Tasks: typed functions with a name, which can be called directly or submitted as jobs; and calls of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

import msgspec
from msgspec import Struct

from rota.core.breaker import BREAKER_IS_KEY
from rota.core.errors import InvalidRequest
from rota.core.ids import JobId
from rota.core.limit import key_of
from rota.core.request_hash import canonical_request_hash
from rota.core.submission import HOST, TAKES, IdempotencyKey, NewJob, Takes, Template
from rota.core.time import EPOCH
from rota.core.unique_keys import CONTROL_OPTIONS, SubmitControl, UniqueKey, UniqueKind
from rota.ports.clock import wall_clock
from rota.sdk.encoding import NO_ARGUMENTS, TaskSignature, encode_call
from rota.sdk.flow import Failure, Flow, Step, flow_of
from rota.sdk.handle import Handle
from rota.sdk.options import Options, RetryDefaults, changed, control_in, merged, refuse_exceptions, template_of
from rota.telemetry.tracing import current_traceparent

if TYPE_CHECKING:
    from rota.sdk.app import Rota

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
R2 = TypeVar("R2")
R3 = TypeVar("R3")
#: With these options each job is built by itself: they depend on its arguments or on the time.
PER_JOB: Final = frozenset({"run_at", "idempotency_key"}) | CONTROL_OPTIONS


# A msgspec struct takes half as long to create as a Python class. Handles are structs too.
class Call(Struct, Generic[R], eq=False):
    """A call of a task that is not submitted yet: for batches, chains and follow-ups."""

    _app: Rota
    task: JobSpec
    payload: str
    decode: Callable[[str], R]
    #: The trace context in which the call was made; it may be submitted elsewhere.
    traceparent: str | None

    def __repr__(self) -> str:
        # Without the arguments, which may be secret.
        return f"<Call of {self.task.name}>"

    @property
    def options(self) -> Options:
        return self.task.options

    def template(self, defaults: RetryDefaults | None = None) -> Template:
        """Return the template of this call's job; as a follow-up, with the retry defaults of the job before it."""
        task = self.task
        template = task.template if defaults is None else template_of(task.name, "null", task.options, defaults)
        return replace(template, payload=self.payload)

    def job(self, job_id: JobId, now: datetime | None = None) -> NewJob:
        """Make the job of this call; the clock is read only if an option depends on it."""
        task = self.task
        if task.shared_fields is not None and self.traceparent is None:
            return NewJob(job_id, task.name, self.payload, *task.shared_fields)
        moment = wall_clock() if now is None else now
        return task.template.make(
            job_id,
            moment,
            payload=self.payload,
            traceparent=self.traceparent,
            run_at=task.options.get("run_at") if task.debounce is None else moment + task.debounce,
            idempotency=self._key(),
            unique=task.unique_key_of(self.payload),
        )

    def submit(self) -> Handle[R]:
        app = self._app
        if "tx" in self.task.options:
            return app.submit_many([self])[0]
        (answer,) = app.gateway.submit([app.job(self)])
        return app.handle(self, answer)

    async def asubmit(self) -> Handle[R]:
        app = self._app
        if "tx" in self.task.options:
            return (await app.asubmit_many([self]))[0]
        (answer,) = await app.gateway.asubmit([app.job(self)])
        return app.handle(self, answer)

    @overload
    def then(self, following: Step[R, R2], /) -> Flow[R2]: ...
    @overload
    def then(self, first: Step[R, R2], second: Step[R, R3], /) -> Flow[list[R2 | R3]]: ...
    @overload
    def then(self, first: Step[R, R2], second: Step[R, R2], /, *more: Step[R, R2]) -> Flow[list[R2]]: ...
    @overload
    def then(
        self, first: Step[R, Any], second: Step[R, Any], third: Step[R, Any], /, *more: Step[R, Any]
    ) -> Flow[list[Any]]: ...
    def then(self, *following: Any) -> Flow[Any]:
        """Chain: a task that takes the result of this call, or a call or flow of its own, runs after its success.

        Several run side by side, and the value is the list of theirs.
        """
        return flow_of(self).then(*following)

    @overload
    def always(self, following: Step[Any, R2], /) -> Flow[R2]: ...
    @overload
    def always(self, first: Step[Any, R2], second: Step[Any, R3], /) -> Flow[list[R2 | R3]]: ...
    @overload
    def always(self, first: Step[Any, R2], second: Step[Any, R2], /, *more: Step[Any, R2]) -> Flow[list[R2]]: ...
    @overload
    def always(
        self, first: Step[Any, Any], second: Step[Any, Any], third: Step[Any, Any], /, *more: Step[Any, Any]
    ) -> Flow[list[Any]]: ...
    def always(self, *following: Any) -> Flow[Any]:
        """Run a task, call or flow after this call has ended in any way; a task gets the result, or None.

        Several run side by side, and the value is the list of theirs.
        """
        return flow_of(self).always(*following)

    def on_failure(self, handler: Step[Failure, Any]) -> Flow[R]:
        """Run a task, call or flow if this call fails; a task gets what failed, its error and its payload."""
        return flow_of(self).on_failure(handler)

    def _key(self) -> IdempotencyKey | None:
        key = self.options.get("idempotency_key")
        if key is None:
            return None
        return IdempotencyKey(key, canonical_request_hash(self.template(), run_at=self.options.get("run_at")))


class JobSpec:
    """A job type with options: what all calls of a task have in common, computed once."""

    def __init__(self, app: Rota, name: str, options: Options) -> None:
        self._app = app
        self.name = name
        self.options = options

    @cached_property
    def template(self) -> Template:
        """The template of the jobs, without a payload."""
        return template_of(self.name, "null", self.options, self._app.retry_defaults)

    @cached_property
    def control(self) -> SubmitControl | None:
        """How repeated submissions are treated."""
        return control_in(self.options)

    @property
    def debounce(self) -> timedelta | None:
        """How long a job waits for further submissions; None if it does not."""
        control = self.control
        return None if control is None or control.kind is not UniqueKind.DEBOUNCE else control.period

    def unique_key_of(self, payload: str) -> UniqueKey | None:
        """Return the key by which a submission with this payload is recognised as a repetition."""
        return None if self.control is None else self.control.key_of(payload)

    @cached_property
    def shared_fields(self) -> tuple[Any, ...] | None:
        """The fields of a job after id, type and payload; None if they depend on the time or on the payload."""
        template = self.template
        if (
            template.delay
            or template.expires is not None
            or HOST in (template.concurrency_key or "")
            or not PER_JOB.isdisjoint(self.options)
        ):
            return None
        job = template.make(JobId(0), EPOCH)
        return tuple(getattr(job, field.name) for field in fields(NewJob)[3:])


class TaskBase(JobSpec, Generic[P, R]):
    """The part that sync and async tasks share."""

    def __init__(
        self, app: Rota, function: Callable[P, Any], name: str, options: Options, signature: TaskSignature | None = None
    ) -> None:
        super().__init__(app, name, options)
        self.function = function
        #: The argument whose value is the concurrency key of each job.
        self.per: str | None = None
        #: Shared by all tasks that `using` derives: inspecting a function takes longer than submitting a job.
        self._signature = TaskSignature(function) if signature is None else signature
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        if "unique_by" in options:
            self._signature.require(name, options["unique_by"])

    def unique_key_of(self, payload: str) -> UniqueKey | None:
        """Return the key of a submission; positional arguments are known by their names."""
        return (
            None if self.control is None else self.control.key_of(payload, self.argument_names, self.argument_defaults)
        )

    @property
    def argument_names(self) -> tuple[str, ...]:
        """The names of the parameters that positional arguments go to."""
        return self._signature.positional_names

    @property
    def argument_defaults(self) -> Mapping[str, Any]:
        """The values of arguments that are left out, as JSON."""
        return self._signature.defaults

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Submit a job that calls this task with these arguments."""
        return self.call(*args, **kwargs).submit()

    async def asubmit(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Submit a job that calls this task with these arguments."""
        # A coroutine function: frameworks check whether a callback is one, and would run it in a thread if not. Repeats
        # `Call.asubmit` instead of awaiting it, which would cost 0.2 us.
        app, call = self._app, self.call(*args, **kwargs)
        if "tx" in self.options:
            return (await app.asubmit_many([call]))[0]
        (answer,) = await app.gateway.asubmit([app.job(call)])
        return app.handle(call, answer)

    def using(self, **options: Unpack[Options]) -> Self:
        """Return the same task with changed options."""
        refuse_exceptions(self.name, options.get("retry"), self._app.tasks[self.name].options.get("retry"))
        defaults = self._app.retry_defaults
        template = changed(self.template, options, defaults)
        both = merged(self.options, options)
        if len(both) < len({*self.options, *options}):
            # An option was removed by None.
            template = template_of(self.name, "null", both, defaults)
        if not CONTROL_OPTIONS.isdisjoint(both):
            control_in(both)
        other = type(self)(self._app, self.function, self.name, both, self._signature)
        other.template = template
        # A key that is given by hand counts, not the argument.
        other.per = None if "concurrency_key" in options else self.per
        if options.get("breaker") is not None and (other.per is not None or "concurrency_key" in both):
            raise InvalidRequest(f"task {self.name!r}: breaker: {BREAKER_IS_KEY}", field="breaker")
        return other

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Make a call without submitting it."""
        payload = encode_call(self.name, self._signature, args, kwargs)
        task = self if self.per is None else self.keyed(*args, **kwargs)
        return Call(self._app, task, payload, self._signature.decode, current_traceparent())

    def call_with(self, payload: str) -> Call[Any]:
        """Make a call of a payload in JSON, as other programs write it: checked as the arguments of `call` are."""
        args, kwargs = self._signature.arguments(self.name, payload)
        return Call(self._app, self.keyed(*args, **kwargs), payload, json.loads, current_traceparent())

    def keyed(self, *args: Any, **kwargs: Any) -> Self:  # noqa: ANN401 - arguments of the function
        """Return this task with the concurrency key that the value of the argument `per` makes, if it names one."""
        if self.per is None:
            return self
        bound = signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        value = bound.arguments[self.per]
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        return self.using(concurrency_key=key_of(self.name, text))

    @property
    def takes_one_argument(self) -> bool:
        """Whether the task can follow another job and take its result."""
        return self._signature.takes_one_argument

    def taking(self, takes: Takes) -> Call[R]:
        """Make a call whose only argument comes from the jobs before it."""
        if self.per is not None:
            remedy = f"give a key, as in {self.name}.using(concurrency_key=…), or a call, as in {self.name}.call(…)"
            message = (
                f"task {self.name!r}: per: {self.per!r} comes from the job before it, so there is no key yet; {remedy}"
            )
            raise InvalidRequest(message, field="per")
        meta = {**self.options.get("meta", {}), TAKES: takes.value}
        return Call(self._app, self.using(meta=meta), NO_ARGUMENTS, self._signature.decode, current_traceparent())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class Task(TaskBase[P, R]):
    """A task whose function is not async. Calling it runs the function in this process."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self.function(*args, **kwargs)
        return result


class AsyncTask(TaskBase[P, R]):
    """A task whose function is async. Awaiting its call runs the function in this process."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        coroutine: Coroutine[Any, Any, R] = self.function(*args, **kwargs)
        return coroutine


class Decorator(Protocol):
    """The decorator that `task(…)` returns: it makes a function a task and keeps its types."""

    @overload
    def __call__(  # type: ignore[overload-overlap]  # an async function is a function too
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


class BatchDecorator(Protocol):
    """The decorator that `task(batch=…)` returns: of a function of a list it makes a task of one item."""

    @overload
    def __call__(
        self, function: Callable[[list[T]], Coroutine[Any, Any, Sequence[R | BaseException]]], /
    ) -> AsyncTask[[T], R]: ...
    @overload
    def __call__(self, function: Callable[[list[T]], Coroutine[Any, Any, None]], /) -> AsyncTask[[T], None]: ...
    @overload
    def __call__(self, function: Callable[[list[T]], Sequence[R | BaseException]], /) -> Task[[T], R]: ...
    @overload
    def __call__(self, function: Callable[[list[T]], None], /) -> Task[[T], None]: ...
