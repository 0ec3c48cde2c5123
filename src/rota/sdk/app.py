"""The app: where tasks are defined and through which they are submitted.

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

from rota.core.alike import Alike
from rota.core.errors import InvalidRequest, KeyReused
from rota.core.identity import LARGEST, JobId, to_number, to_text
from rota.core.schedule import Draft
from rota.core.submission import NewJob
from rota.engine.engine import wall_clock
from rota.engine.ids import IdMaker
from rota.engine.jobs import full
from rota.ports.faces import Control
from rota.ports.guest import at_once
from rota.ports.store import AllCreated, Inserted, Receipt
from rota.runtime import Link
from rota.sdk.definition import Executor, app_name_of, check_executor, name_of
from rota.sdk.handle import Handle
from rota.sdk.options import Duration, Options, RetryDefaults, check_defaults, merged, refuse_judging
from rota.sdk.portal import Portal
from rota.sdk.reach import Reach
from rota.sdk.schedules import rule_for
from rota.sdk.task import AsyncTask, Call, Task, Wanted
from rota.sdk.within import require_async, require_blocking, submit_in, transaction_of
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
    """What `task(…)` gives: it makes a function a task and keeps its types."""

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
            raise InvalidRequest(f"url: {url!r} is no text; {remedy}", field="url")
        self.name = app_name_of(name)
        self._url = url
        self._process_url = ""
        self._settings: Settings | None = None
        self.tasks: dict[str, Task[..., Any] | AsyncTask[..., Any]] = {}
        self.executors: dict[str, Executor] = {}
        #: By task, the rule and the zone that it asks for by `cron` or `every`.
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
        """Take on the settings of a process, and its store or API unless the app names its own.

        What was submitted before went by the settings before.
        """
        self.close()
        self._settings, self._process_url = settings, url
        for name in ("reach", "retry_defaults", "_queue_bound"):
            self.__dict__.pop(name, None)

    @property
    def url(self) -> str:
        """Where jobs go: as the app was told, else as the process or the settings say."""
        return self._url or self._process_url or self.settings.store

    @cached_property
    def reach(self) -> Reach:
        """How jobs get there."""
        return Reach(self.url, self.settings)

    @cached_property
    def retry_defaults(self) -> RetryDefaults:
        """What jobs get that say nothing about retries."""
        return RetryDefaults(self.settings.max_attempts, self.settings.backoff)

    @property
    def recurring(self) -> list[Draft]:
        """The schedules that tasks ask for by `cron` or `every`; a scheduler puts them up."""
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
        **defaults: Unpack[Options],
    ) -> Any:
        """Make a function a task. Works with and without parentheses, on sync and async functions."""

        def define(defined: Callable[..., Any]) -> Task[..., Any] | AsyncTask[..., Any]:
            called = name_of(defined, name)
            rule = rule_for(called, defined, cron, every, tz, defaults.get("delay"))
            task = self._define(defined, called, executor, defaults)
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
        """Submit many calls in one go; with `tx`, in the transaction of that connection."""
        listed = list(calls)
        tx = _transaction_of(listed, tx)
        if tx is None:
            return self._handles(listed, self.reach.post(self._jobs(listed)))
        require_blocking(tx)
        return at_once(self._send_within(tx, listed))

    async def asubmit_many(self, calls: Iterable[Call[R]], *, tx: object = None) -> list[Handle[R]]:
        """Submit many calls in one go; with `tx`, in the transaction of that connection."""
        listed = list(calls)
        tx = _transaction_of(listed, tx)
        if tx is None:
            return self._handles(listed, await self.reach.apost(self._jobs(listed)))
        require_async(tx)
        return await self._send_within(tx, listed)

    def submit_by_name(self, name: str, payload: object = None, **options: Unpack[Options]) -> Handle[Any]:
        """Submit a job by the name of its task; what is not given is as the task says, if this app defines it."""
        try:
            text = json.dumps(payload, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidRequest(f"payload: it cannot be JSON: {error}; give plain values", field="payload") from None
        call: Call[Any] = Call(self, self._named(name, options), text, json.loads, current_traceparent())
        return call.submit()

    def _named(self, name: Any, options: Options) -> Wanted:  # noqa: ANN401 - a wrong one is refused with its options
        """Give what a task of a name submits with options: with its own defaults, or without if it is elsewhere."""
        task = self.tasks.get(name) if isinstance(name, str) else None
        if task is not None:
            return task.using(**options) if options else task
        refuse_judging(name, options.get("retry"))
        return Wanted(self, name, options)

    def get(self, job_id: str) -> Handle[Any]:
        """Take hold of a job that was submitted before."""
        if not isinstance(job_id, str):
            raise InvalidRequest(f"job_id: {job_id!r} is no id{_as_text(job_id)}; give a handle's id", field="job_id")
        return Handle(self, JobId(to_number(job_id)), json.loads)

    @contextmanager
    def run(
        self, *, concurrency: int | None = None, queues: Iterable[str] | None = None, api: bool = False
    ) -> Iterator[Rota]:
        """Run a worker and a scheduler in this process while the block lasts; with `api`, the HTTP API too.

        What is not given is as the settings say; without a setting, the queues are those of the tasks, and `default`.
        Signals are the program's own: one that ends it without leaving the block leaves running jobs to their leases.
        """
        with self._running(concurrency, queues, api=api):
            yield self

    def serve(self, *, concurrency: int | None = None, queues: Iterable[str] | None = None, api: bool = False) -> None:
        """Run as `run` does, until SIGTERM or SIGINT: running jobs may finish, within the drain timeout.

        A second signal does not wait for them. To be called on the main thread, which gets the signals.
        """
        # Imported when needed: who only submits need not load what runs.
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
        self.reach.runs_jobs = True
        try:
            embedded = self.portal.call(start(self, settings, api=api, signals=signals))
            try:
                yield embedded
            finally:
                self.portal.call(embedded.end())
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Close the store once nothing runs on it any more."""
        with self._guard:
            self._runs -= 1
            is_last = self._runs == 0
        if is_last:
            self.reach.runs_jobs = False
            self.close()

    def close(self) -> None:
        """Let go of the store. What is used afterwards opens it again."""
        if "reach" in self.__dict__:
            self.reach.close()

    @property
    def portal(self) -> Portal:
        """The loop through which this app reaches its engine."""
        return self.reach.portal

    async def link(self) -> Link:
        """Link up, once for the running loop."""
        return await self.reach.link()

    async def control(self) -> Control:
        """Give the face through which jobs are submitted and looked at; runs on the portal's loop."""
        return await self.reach.control()

    @cached_property
    def _queue_bound(self) -> int | None:
        """How many jobs may wait in a queue, for submissions that pass by the engine. Read once."""
        return self.settings.queue_size or None

    def job(self, call: Call[Any]) -> NewJob:
        """Make the job that a call submits, once: sent again, it is the same job and not a second one."""
        return call.job(self._fresh_id.within(time.time_ns() // 1_000_000))

    def _jobs(self, calls: Sequence[Call[Any]], now: datetime | None = None) -> Sequence[NewJob]:
        moment = wall_clock() if now is None else now
        ids = self._fresh_id.several(moment, len(calls))
        if _are_alike(calls):
            return Alike(calls[0].job(ids[0], moment), ids, list(map(_payload_of, calls)))
        return [call.job(job_id, moment) for call, job_id in zip(calls, ids, strict=True)]

    async def _send_within(self, tx: object, calls: list[Call[R]]) -> list[Handle[R]]:
        """Submit calls in the caller's transaction; runs where the caller is."""

        def make(now: datetime) -> Sequence[NewJob]:
            return self._jobs(calls, now)

        return self._handles(calls, await submit_in(self.url, tx, make, self._queue_bound))

    def handle(self, call: Call[R], answer: Inserted) -> Handle[R]:
        """Give the handle of what a call made, unless it was refused."""
        if answer.receipt in _ACCEPTED:
            return Handle(self, answer.job_id, call.decode)
        return self._handles([call], [answer])[0]

    def _handles(self, calls: list[Call[R]], answers: Sequence[Inserted]) -> list[Handle[R]]:
        """Give a handle for each call, unless one was refused."""
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
    """Say in which transaction calls are made. A thousand of them are mostly of one task, which is asked once."""
    try:
        tasks = dict.fromkeys(map(_task_of, calls))
    except AttributeError:
        wrong = next(call for call in calls if not hasattr(call, "task"))
        raise InvalidRequest(f"calls: {wrong!r} is no call; give calls, as in task.call(…)", field="calls") from None
    return transaction_of([task.options for task in tasks], tx)


def _as_text(job_id: object) -> str:
    """Say which id a number stands for, as it stands in a `Job`."""
    return f" but the number of {to_text(job_id)!r}" if type(job_id) is int and 0 <= job_id <= LARGEST else ""


def _are_alike(calls: Sequence[Call[Any]]) -> bool:
    """Whether calls that are made at one moment differ in their payloads only."""
    if len(calls) <= 1 or len(set(map(_task_of, calls))) > 1 or len(set(map(_traceparent_of, calls))) > 1:
        return False
    # A key stands for a payload too.
    return "idempotency_key" not in calls[0].options


def _accepted(answers: Sequence[Inserted]) -> Sequence[JobId] | None:
    """Give the jobs that submissions stand for, unless one was refused."""
    if type(answers) is AllCreated:
        return answers.ids
    # Counted and not asked one by one: nearly always, it is all of them.
    receipts = list(map(_receipt_of, answers))
    is_all = sum(map(receipts.count, _ACCEPTED)) == len(receipts)
    return [answer.job_id for answer in answers] if is_all else None


def _draft(task: Task[..., Any] | AsyncTask[..., Any], rule: str, zone: str) -> Draft:
    template = replace(task.template, payload='{"args":[],"kwargs":{}}')
    return Draft(name=task.name, rule=rule, zone=zone, template=template)
