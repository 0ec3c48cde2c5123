"""Tasks: typed functions with a name, which can be called directly or submitted as jobs; and calls of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import fields, replace
from datetime import datetime
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Self, TypeVar, Unpack

import msgspec
from msgspec import Struct

from rota.core.ids import JobId
from rota.core.limit import key_of
from rota.core.request_hash import canonical_request_hash
from rota.core.submission import IdempotencyKey, NewJob, Template
from rota.core.time import EPOCH
from rota.engine.engine import wall_clock
from rota.sdk.encoding import TaskSignature, encode_call
from rota.sdk.handle import Handle
from rota.sdk.options import Options, RetryDefaults, changed, merged, refuse_exceptions, template_of
from rota.telemetry.tracing import current_traceparent

if TYPE_CHECKING:
    from rota.sdk.app import Rota

P = ParamSpec("P")
R = TypeVar("R")
#: With these options each job is built by itself.
_PER_JOB: Final = frozenset({"run_at", "idempotency_key"})


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
        """Give the template of this call's job; as a follow-up, with the retry defaults of the job before it."""
        task = self.task
        template = task.template if defaults is None else template_of(task.name, "null", task.options, defaults)
        return replace(template, payload=self.payload)

    def job(self, job_id: JobId, now: datetime | None = None) -> NewJob:
        """Make the job of this call; the clock is read only if an option depends on it."""
        task = self.task
        if task.shared_fields is not None and self.traceparent is None:
            return NewJob(job_id, task.name, self.payload, *task.shared_fields)
        return task.template.make(
            job_id,
            wall_clock() if now is None else now,
            payload=self.payload,
            traceparent=self.traceparent,
            run_at=task.options.get("run_at"),
            idempotency=self._key(),
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
    def shared_fields(self) -> tuple[Any, ...] | None:
        """The fields of a job after id, type and payload; None if they depend on the time or on the payload."""
        template = self.template
        if template.delay or template.expires is not None or not _PER_JOB.isdisjoint(self.options):
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

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Submit a job that calls this task with these arguments."""
        return self.call(*args, **kwargs).submit()

    async def asubmit(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Submit a job that calls this task with these arguments."""
        # A coroutine function: frameworks ask whether a callback is one, and would run it in a thread if not.
        # Repeats `Call.asubmit` instead of awaiting it, which would cost 0.2 us.
        app, call = self._app, self.call(*args, **kwargs)
        if "tx" in self.options:
            return (await app.asubmit_many([call]))[0]
        (answer,) = await app.gateway.asubmit([app.job(call)])
        return app.handle(call, answer)

    def using(self, **options: Unpack[Options]) -> Self:
        """Give the same task with changed options."""
        refuse_exceptions(self.name, options.get("retry"), self._app.tasks[self.name].options.get("retry"))
        defaults = self._app.retry_defaults
        template = changed(self.template, options, defaults)
        both = merged(self.options, options)
        if len(both) < len({*self.options, *options}):
            # An option was removed by None.
            template = template_of(self.name, "null", both, defaults)
        other = type(self)(self._app, self.function, self.name, both, self._signature)
        other.template = template
        # A key that is given by hand counts, not the argument.
        other.per = None if "concurrency_key" in options else self.per
        return other

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Make a call without submitting it."""
        payload = encode_call(self.name, self._signature, args, kwargs)
        task = self if self.per is None else self._keyed(self.per, args, kwargs)
        return Call(self._app, task, payload, self._signature.decode, current_traceparent())

    def _keyed(self, per: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Self:
        """Give this task with the concurrency key that the value of an argument makes."""
        bound = signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        value = bound.arguments[per]
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        return self.using(concurrency_key=key_of(self.name, text))

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
