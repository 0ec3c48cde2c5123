"""The app (`Rota`): defines tasks, submits them, and runs them in this process.

Nothing is opened before it is needed: importing a module that defines tasks touches neither file nor network.
"""

from __future__ import annotations

import inspect
import json
import os
import random
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, TypeVar, Unpack, overload

from rota.core.bulk import UniformJobs
from rota.core.errors import InvalidRequest, KeyReused
from rota.core.ids import LARGEST, JobId, to_number, to_text
from rota.core.limit import Limit
from rota.core.schedule import Draft
from rota.core.submission import NewJob
from rota.engine.engine import wall_clock
from rota.engine.ids import IdMaker
from rota.engine.jobs import full
from rota.ports.caller_tx import run_sync
from rota.ports.client import Control
from rota.ports.store import AllCreated, Inserted, Receipt
from rota.runtime import Link
from rota.sdk.definition import Executor, app_name_of, check_executor, limit_for, name_of, rule_for
from rota.sdk.gateway import Gateway
from rota.sdk.handle import Handle
from rota.sdk.options import Duration, Options, RetryDefaults, check_defaults, merged, refuse_exceptions
from rota.sdk.portal import Portal
from rota.sdk.task import AsyncTask, Call, JobSpec, Task
from rota.sdk.transactions import require_async, require_blocking, submit_in, transaction_of
from rota.settings import Settings, read
from rota.telemetry.tracing import current_traceparent

if TYPE_CHECKING:
    from rota.sdk.embedded import Embedded, Signals

P = ParamSpec("P")
R = TypeVar("R")
_task_of: Final = attrgetter("task")
_payload_of: Final = attrgetter("payload")
_traceparent_of: Final = attrgetter("traceparent")
_receipt_of: Final = attrgetter("receipt")
_ACCEPTED: Final = (Receipt.CREATED, Receipt.REPLAYED)


class Decorator(Protocol):
    """The decorator that `task(…)` returns: it makes a function a task and keeps its types."""

    @overload
    def __call__(  # type: ignore[overload-overlap]  # an async function is a function too
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


class Rota:
    """Defines tasks and submits them: to a file (`Rota()`), a database, or an API (`Rota("https://…")`)."""

    def __init__(self, url: str | None = None, *, name: str = "default") -> None:
        if url is not None and not isinstance(url, str):
            remedy = 'give a file, a database URL or the URL of an API, as in Rota("rota.db")'
            raise InvalidRequest(f"url: {url!r} is not text; {remedy}", field="url")
        self.name = app_name_of(name)
        self._url = url
        self._process_url = ""
        self._settings: Settings | None = None
        self.tasks: dict[str, Task[..., Any] | AsyncTask[..., Any]] = {}
        self.executors: dict[str, Executor] = {}
        #: By task, the rule and the zone that it was given by `cron` or `every`.
        #: The limits of tasks with `max_running` or `rate_limit`; stored when a worker or a scheduler starts.
        self.limits: list[Limit] = []
        self._rules: dict[str, tuple[str, str]] = {}
        self._fresh_id = IdMaker(wall_clock, random.random)
        self._runs = 0
        self._guard = threading.Lock()

    @property
    def settings(self) -> Settings:
        """The settings: of the process that runs this app, else of the environment and the files here. Read once."""
        if self._settings is None:
            self._settings = read(environment=os.environ, folder=Path.cwd())
        return self._settings

    def configure(self, settings: Settings, url: str = "") -> None:
        """Use the settings of a process, and its store or API unless the app names its own.

        Submissions made before this used the former settings.
        """
        self.close()
        self._settings, self._process_url = settings, url
        for name in ("gateway", "retry_defaults", "_queue_bound"):
            self.__dict__.pop(name, None)

    @property
    def url(self) -> str:
        """Where jobs are stored: as given to the app, else as the process or the settings say."""
        return self._url or self._process_url or self.settings.store

    @cached_property
    def gateway(self) -> Gateway:
        """The connection to the store or API."""
        return Gateway(self.url, self.settings)

    @cached_property
    def retry_defaults(self) -> RetryDefaults:
        """The retries of jobs whose options do not mention them."""
        return RetryDefaults(self.settings.max_attempts, self.settings.backoff)

    @property
    def recurring(self) -> list[Draft]:
        """The schedules of tasks with `cron` or `every`; a scheduler stores them when it starts."""
        return [_draft(self.tasks[name], rule, zone) for name, (rule, zone) in self._rules.items()]

    @overload
    def task(  # type: ignore[overload-overlap]  # as above
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        *,
        name: str | None = None,
        cron: str | None = None,
        every: Duration | None = None,
        tz: str = "UTC",
        executor: Executor = "auto",
        max_running: int | None = None,
        rate_limit: str | None = None,
        per: str | None = None,
        **defaults: Unpack[Options],
    ) -> Decorator: ...
    def task(  # type: ignore[misc]  # mypy does not see that the options are the same
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        cron: str | None = None,
        every: Duration | None = None,
        tz: str = "UTC",
        executor: Executor = "auto",
        max_running: int | None = None,
        rate_limit: str | None = None,
        per: str | None = None,
        **defaults: Unpack[Options],
    ) -> Any:
        """Make a function a task. Works with and without parentheses, on sync and async functions.

        `max_running` bounds how many of its jobs run at once in the whole deployment, `rate_limit` how often they
        start (`"10/s"`); with `per`, the name of an argument, both hold for each value of that argument by itself.
        """

        def define(defined: Callable[..., Any]) -> Task[..., Any] | AsyncTask[..., Any]:
            task_name = name_of(defined, name)
            rule = rule_for(task_name, defined, cron, every, tz, defaults.get("delay"))
            limit = limit_for(task_name, defined, max_running, rate_limit, per)
            task = self._define(defined, task_name, executor, defaults)
            task.per = per
            if limit is not None:
                self.limits.append(limit)
            if rule is not None:
                self._rules[task.name] = rule, tz
            return task

        return define if function is None else define(function)

    def _define(
        self, function: Callable[..., Any], name: str, executor: Executor, defaults: Options
    ) -> Task[..., Any] | AsyncTask[..., Any]:
        if name in self.tasks:
            raise InvalidRequest(f"task {name!r} is defined twice; give one of them another name", field="name")
        check_defaults(name, defaults)
        check_executor(name, function, executor)
        kind = AsyncTask if inspect.iscoroutinefunction(function) else Task
        task: Task[..., Any] | AsyncTask[..., Any] = kind(self, function, name, merged({}, defaults))
        self.tasks[name] = task
        self.executors[name] = executor
        return task

    def submit_many(self, calls: Iterable[Call[R]], *, tx: object = None) -> list[Handle[R]]:
        """Submit many calls as one batch; with `tx`, in the transaction of that connection."""
        listed = list(calls)
        tx = _transaction_of(listed, tx)
        if tx is None:
            return self._handles(listed, self.gateway.submit(self._jobs(listed)))
        require_blocking(tx)
        return run_sync(self._submit_in(tx, listed))

    async def asubmit_many(self, calls: Iterable[Call[R]], *, tx: object = None) -> list[Handle[R]]:
        """Submit many calls as one batch; with `tx`, in the transaction of that connection."""
        listed = list(calls)
        tx = _transaction_of(listed, tx)
        if tx is None:
            return self._handles(listed, await self.gateway.asubmit(self._jobs(listed)))
        require_async(tx)
        return await self._submit_in(tx, listed)

    def submit_by_name(self, name: str, payload: object = None, **options: Unpack[Options]) -> Handle[Any]:
        """Submit a job by the name of its task, with the task's default options if this app defines it."""
        try:
            text = json.dumps(payload, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidRequest(
                f"payload: cannot be written as JSON: {error}; give plain values", field="payload"
            ) from None
        call: Call[Any] = Call(self, self._spec_of(name, options), text, json.loads, current_traceparent())
        return call.submit()

    def _spec_of(self, name: Any, options: Options) -> JobSpec:  # noqa: ANN401 - a wrong one is refused with its options
        """Give the spec of a task's jobs: with the task's defaults if it is defined here, else without."""
        task = self.tasks.get(name) if isinstance(name, str) else None
        if task is not None:
            return task.using(**options) if options else task
        refuse_exceptions(name, options.get("retry"))
        return JobSpec(self, name, options)

    def get(self, job_id: str) -> Handle[Any]:
        """Give a handle of a job that was submitted before."""
        if not isinstance(job_id, str):
            raise InvalidRequest(
                f"job_id: {job_id!r} is not an id{_as_text(job_id)}; give a handle's id", field="job_id"
            )
        return Handle(self, JobId(to_number(job_id)), json.loads)

    @contextmanager
    def run(
        self, *, concurrency: int | None = None, queues: Iterable[str] | None = None, api: bool = False
    ) -> Iterator[Rota]:
        """Run a worker and a scheduler in this process while the block lasts; with `api`, the HTTP API too.

        Arguments left out are taken from the settings; without a setting, the queues are those of the tasks, and
        `default`. Signals are left to the program: one that ends it without leaving the block leaves running jobs to be
        claimed again when their leases lapse.
        """
        with self._running(concurrency, queues, api=api):
            yield self

    def serve(self, *, concurrency: int | None = None, queues: Iterable[str] | None = None, api: bool = False) -> None:
        """Run as `run` does, until SIGTERM or SIGINT; then running jobs may finish, within the drain timeout.

        After a second signal they are not waited for. To be called on the main thread, which gets the signals.
        """
        # Imported when needed: a program that only submits does not load the worker.
        from rota.sdk.embedded import Signals, StoppedAtStart  # noqa: PLC0415

        with (
            suppress(StoppedAtStart),
            Signals() as signals,
            self._running(concurrency, queues, api=api, signals=signals) as embedded,
        ):
            self.portal.call(embedded.ended())

    @contextmanager
    def _running(
        self, concurrency: int | None, queues: Iterable[str] | None, *, api: bool, signals: Signals | None = None
    ) -> Iterator[Embedded]:
        from rota.sdk.embedded import settings_for, start  # noqa: PLC0415 - as above

        settings = settings_for(self.settings, concurrency, queues)
        with self._guard:
            self._runs += 1
        self.gateway.runs_jobs = True
        try:
            embedded = self.portal.call(start(self, settings, api=api, signals=signals))
            try:
                yield embedded
            finally:
                self.portal.call(embedded.end())
        finally:
            self._release()

    def _release(self) -> None:
        """Close the store when the last of several runs has ended."""
        with self._guard:
            self._runs -= 1
            is_last = self._runs == 0
        if is_last:
            self.gateway.runs_jobs = False
            self.close()

    def close(self) -> None:
        """Close the connection to the store or API. The next use opens it again."""
        if "gateway" in self.__dict__:
            self.gateway.close()

    @property
    def portal(self) -> Portal:
        """The background loop that holds this app's link."""
        return self.gateway.portal

    async def link(self) -> Link:
        """Open the link of the running loop, once."""
        return await self.gateway.link()

    async def control(self) -> Control:
        """Give the verbs for jobs (submit, get, cancel …); runs on the portal's loop."""
        return await self.gateway.control()

    @cached_property
    def _queue_bound(self) -> int | None:
        """How many jobs may wait in a queue, for submissions in a caller's transaction. Read once."""
        return self.settings.queue_size or None

    def job(self, call: Call[Any]) -> NewJob:
        """Make the job of a call, with its id: if it is sent twice, it is stored once."""
        return call.job(self._fresh_id.within(time.time_ns() // 1_000_000))

    def _jobs(self, calls: Sequence[Call[Any]], now: datetime | None = None) -> Sequence[NewJob]:
        moment = wall_clock() if now is None else now
        ids = self._fresh_id.several(moment, len(calls))
        if _are_alike(calls):
            return UniformJobs(calls[0].job(ids[0], moment), ids, list(map(_payload_of, calls)))
        return [call.job(job_id, moment) for call, job_id in zip(calls, ids, strict=True)]

    async def _submit_in(self, tx: object, calls: list[Call[R]]) -> list[Handle[R]]:
        """Submit calls in the caller's transaction, on the caller's thread or loop."""

        def make(now: datetime) -> Sequence[NewJob]:
            return self._jobs(calls, now)

        return self._handles(calls, await submit_in(self.url, tx, make, self._queue_bound))

    def handle(self, call: Call[R], answer: Inserted) -> Handle[R]:
        """Give the handle of a call's job; raise if it was refused."""
        if answer.receipt in _ACCEPTED:
            return Handle(self, answer.job_id, call.decode)
        return self._handles([call], [answer])[0]

    def _handles(self, calls: list[Call[R]], answers: Sequence[Inserted]) -> list[Handle[R]]:
        """Give a handle for each call; raise if one was refused."""
        ids = _accepted(answers)
        if ids is not None:
            return [Handle(self, job_id, call.decode) for call, job_id in zip(calls, ids, strict=True)]
        for call, answer in zip(calls, answers, strict=True):
            if answer.receipt is Receipt.KEY_REUSED:
                key = call.options.get("idempotency_key")
                message = f"idempotency_key {key!r} was used before for another submission; choose another"
                raise KeyReused(message, field="idempotency_key")
        handles = [
            None if answer.receipt is Receipt.QUEUE_FULL else Handle(self, answer.job_id, call.decode)
            for call, answer in zip(calls, answers, strict=True)
        ]
        if None in handles:
            refusal = full(calls[handles.index(None)].template().queue)
            refusal.handles = handles
            raise refusal
        return [handle for handle in handles if handle is not None]


def _transaction_of(calls: Sequence[Call[Any]], tx: object) -> object:
    """Give the transaction in which calls are submitted. Mostly all are of one task, whose options are read once."""
    try:
        tasks = dict.fromkeys(map(_task_of, calls))
    except AttributeError:
        wrong = next(call for call in calls if not hasattr(call, "task"))
        raise InvalidRequest(f"calls: {wrong!r} is not a call; give calls, as in task.call(…)", field="calls") from None
    return transaction_of([task.options for task in tasks], tx)


def _as_text(job_id: object) -> str:
    """Show the text form of a number that a `Job` has as its id."""
    return f" but the number of {to_text(job_id)!r}" if type(job_id) is int and 0 <= job_id <= LARGEST else ""


def _are_alike(calls: Sequence[Call[Any]]) -> bool:
    """Whether calls differ in their payloads only."""
    if len(calls) <= 1 or len(set(map(_task_of, calls))) > 1 or len(set(map(_traceparent_of, calls))) > 1:
        return False
    # An idempotency key depends on the payload.
    return "idempotency_key" not in calls[0].options


def _accepted(answers: Sequence[Inserted]) -> Sequence[JobId] | None:
    """Give the ids of the jobs; None if a submission was refused."""
    if type(answers) is AllCreated:
        return answers.ids
    # Counted in C and not in a Python loop: nearly always, all were accepted.
    receipts = list(map(_receipt_of, answers))
    is_all = sum(map(receipts.count, _ACCEPTED)) == len(receipts)
    return [answer.job_id for answer in answers] if is_all else None


def _draft(task: Task[..., Any] | AsyncTask[..., Any], rule: str, zone: str) -> Draft:
    template = replace(task.template, payload='{"args":[],"kwargs":{}}')
    return Draft(name=task.name, rule=rule, zone=zone, template=template)
