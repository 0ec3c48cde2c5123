"""A task: a plain, typed function with a name, which can be called here and now or submitted as a job."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import fields, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Self, TypeVar, Unpack

from msgspec import Struct

from rota.core.identity import JobId
from rota.core.instant import EPOCH
from rota.core.request import hash_of_request
from rota.core.submission import IdempotencyKey, NewJob, Template
from rota.engine.engine import wall_clock
from rota.sdk.encoding import Form, encode_call
from rota.sdk.handle import Handle
from rota.sdk.options import Options, RetryDefaults, changed, merged, refuse_judging, template_of
from rota.telemetry.tracing import current_traceparent

if TYPE_CHECKING:
    from rota.sdk.app import Rota

P = ParamSpec("P")
R = TypeVar("R")
#: Options of which jobs are made one by one.
_OF_THE_MOMENT: Final = frozenset({"run_at", "idempotency_key"})


# A struct: made by C, in half the time of a class of Python. So are handles.
class Call(Struct, Generic[R], eq=False):
    """A submission not yet made: for batches, chains and follow-ups."""

    _app: Rota
    task: Wanted
    payload: str
    decode: Callable[[str], R]
    #: Of the span in which the call is made, wherever it is then sent from.
    traceparent: str | None

    def __repr__(self) -> str:
        # Without what it is called with, which may be for nobody else to read.
        return f"<Call of {self.task.name}>"

    @property
    def options(self) -> Options:
        """What was said about it."""
        return self.task.options

    def template(self, defaults: RetryDefaults | None = None) -> Template:
        """Give what this call submits; as a follow-up, with the defaults of the job before it."""
        task = self.task
        whole = task.template if defaults is None else template_of(task.name, "null", task.options, defaults)
        return replace(whole, payload=self.payload)

    def job(self, job_id: JobId, now: datetime | None = None) -> NewJob:
        """Make the job that this call submits; the time is read only if it counts."""
        task = self.task
        if task.rest is not None and self.traceparent is None:
            return NewJob(job_id, task.name, self.payload, *task.rest)
        return task.template.make(
            job_id,
            wall_clock() if now is None else now,
            payload=self.payload,
            traceparent=self.traceparent,
            run_at=task.options.get("run_at"),
            idempotency=self._key(),
        )

    def submit(self) -> Handle[R]:
        """Submit it."""
        app = self._app
        if "tx" in self.task.options:
            return app.submit_many([self])[0]
        (answer,) = app.reach.post([app.job(self)])
        return app.handle(self, answer)

    async def asubmit(self) -> Handle[R]:
        """Submit it."""
        app = self._app
        if "tx" in self.task.options:
            return (await app.asubmit_many([self]))[0]
        (answer,) = await app.reach.apost([app.job(self)])
        return app.handle(self, answer)

    def _key(self) -> IdempotencyKey | None:
        """Give the key under which a repetition is the same submission."""
        key = self.options.get("idempotency_key")
        if key is None:
            return None
        return IdempotencyKey(key, hash_of_request(self.template(), run_at=self.options.get("run_at")))


class Wanted:
    """A type of job with options: what all calls of it have in common, and what is found out once for all of them."""

    def __init__(self, app: Rota, name: str, options: Options) -> None:
        self._app = app
        self.name = name
        self.options = options

    @cached_property
    def template(self) -> Template:
        """What a call submits, but for the payload."""
        return template_of(self.name, "null", self.options, self._app.retry_defaults)

    @cached_property
    def rest(self) -> tuple[Any, ...] | None:
        """What a job of it has beyond id, type and payload; None if that depends on the moment, or on the payload."""
        template = self.template
        if template.delay or template.expires is not None or not _OF_THE_MOMENT.isdisjoint(self.options):
            return None
        job = template.make(JobId(0), EPOCH)
        return tuple(getattr(job, field.name) for field in fields(NewJob)[3:])


class TaskBase(Wanted, Generic[P, R]):
    """What sync and async tasks share."""

    def __init__(
        self, app: Rota, function: Callable[P, Any], name: str, options: Options, form: Form | None = None
    ) -> None:
        super().__init__(app, name, options)
        self.function = function
        #: Shared by all that `using` makes of a task: to inspect a function takes longer than to submit a job.
        self._form = Form(function) if form is None else form
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Submit a job that calls this task with these arguments."""
        return self.call(*args, **kwargs).submit()

    async def asubmit(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Submit a job that calls this task with these arguments."""
        # Async: who is given a function asks whether it is, and runs it in a thread if not. The job would be lost.
        # As `Call.asubmit` and not by it: to await only to hand on costs 0.2 us.
        app, call = self._app, self.call(*args, **kwargs)
        if "tx" in self.options:
            return (await app.asubmit_many([call]))[0]
        (answer,) = await app.reach.apost([app.job(call)])
        return app.handle(call, answer)

    def using(self, **options: Unpack[Options]) -> Self:
        """Give the same task with other options."""
        refuse_judging(self.name, options.get("retry"), self._app.tasks[self.name].options.get("retry"))
        defaults = self._app.retry_defaults
        template = changed(self.template, options, defaults)
        both = merged(self.options, options)
        if len(both) < len({*self.options, *options}):
            # One was taken away.
            template = template_of(self.name, "null", both, defaults)
        other = type(self)(self._app, self.function, self.name, both, self._form)
        other.template = template
        return other

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Make a submission without sending it."""
        payload = encode_call(self.name, self._form, args, kwargs)
        return Call(self._app, self, payload, self._form.decode, current_traceparent())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class Task(TaskBase[P, R]):
    """A task whose function is plain. Calling it runs the function, here and now."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function itself."""
        result: R = self.function(*args, **kwargs)
        return result


class AsyncTask(TaskBase[P, R]):
    """A task whose function is async. Awaiting its call runs the function, here and now."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Run the function itself."""
        coroutine: Coroutine[Any, Any, R] = self.function(*args, **kwargs)
        return coroutine
