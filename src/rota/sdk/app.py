"""The app: where tasks are defined and through which they are submitted.

Nothing is opened before it is needed: importing a module that defines tasks touches neither file nor network.
"""

from __future__ import annotations

import inspect
import json
import os
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, Literal, ParamSpec, Protocol, TypeVar, Unpack, overload

from rota.core.alike import Alike
from rota.core.duration import parse_duration
from rota.core.errors import InvalidRequest, KeyReused
from rota.core.identity import JobId, to_number
from rota.core.schedule import Draft
from rota.core.submission import NewJob
from rota.engine.engine import wall_clock
from rota.engine.ids import IdMaker
from rota.engine.jobs import full
from rota.ports.faces import Control
from rota.ports.guest import at_once
from rota.ports.store import AllCreated, Inserted, Receipt
from rota.runtime import Link
from rota.sdk.handle import Handle
from rota.sdk.options import Duration, Options, check_defaults, template_of
from rota.sdk.portal import Portal
from rota.sdk.reach import Reach
from rota.sdk.task import AsyncTask, Call, Task, Wanted
from rota.sdk.within import require_async, require_blocking, submit_in, transaction_of
from rota.settings import read
from rota.telemetry.tracing import current_traceparent

P = ParamSpec("P")
R = TypeVar("R")
_task_of: Final = attrgetter("task")
_payload_of: Final = attrgetter("payload")
_traceparent_of: Final = attrgetter("traceparent")
_receipt_of: Final = attrgetter("receipt")
_ACCEPTED: Final = (Receipt.CREATED, Receipt.REPLAYED)
Executor = Literal["auto", "async", "thread", "process"]


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
        self.name = name
        self.url = url or read(environment=os.environ).store
        self.tasks: dict[str, Task[..., Any] | AsyncTask[..., Any]] = {}
        self.executors: dict[str, Executor] = {}
        #: The schedules that tasks ask for by `cron` or `every`; a scheduler puts them up.
        self.recurring: list[Draft] = []
        self._fresh_id = IdMaker(wall_clock, random.random)
        self.reach = Reach(self.url)

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
            task = self._define(defined, name or defined.__name__, executor, defaults)
            if cron is not None or every is not None:
                self.recurring.append(_draft(task, cron, every, tz))
            return task

        return define if function is None else define(function)

    def _define(
        self, function: Callable[..., Any], name: str, executor: Executor, defaults: Options
    ) -> Task[..., Any] | AsyncTask[..., Any]:
        if name in self.tasks:
            raise InvalidRequest(f"task {name!r} is defined twice; give one of them another name", field="name")
        check_defaults(name, defaults)
        kind = AsyncTask if inspect.iscoroutinefunction(function) else Task
        task: Task[..., Any] | AsyncTask[..., Any] = kind(self, function, name, defaults)
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
        """Submit a job for a task that is defined elsewhere."""
        text = json.dumps(payload, allow_nan=False)
        call: Call[Any] = Call(self, Wanted(name, options), text, json.loads, current_traceparent())
        return call.submit()

    def get(self, job_id: str) -> Handle[Any]:
        """Take hold of a job that was submitted before."""
        return Handle(self, JobId(to_number(job_id)), json.loads)

    @contextmanager
    def run(self, *, concurrency: int = 10, queues: Iterable[str] = ("default",)) -> Iterator[Rota]:
        """Run a worker and a scheduler in this process while the block lasts."""
        # Imported when needed: who only submits need not load what runs.
        from rota.sdk.embedded import start  # noqa: PLC0415

        link = self.portal.call(self.link())
        embedded = self.portal.call(start(link, self, concurrency=concurrency, queues=tuple(queues)))
        self.reach.runs_jobs = True
        try:
            yield self
        finally:
            self.reach.runs_jobs = False
            try:
                self.portal.call(embedded.stop())
            finally:
                self.close()

    def close(self) -> None:
        """Let go of the store. What is used afterwards opens it again."""
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
        return read(environment=os.environ).queue_size or None

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
    return transaction_of([task.options for task in dict.fromkeys(map(_task_of, calls))], tx)


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


def _draft(task: Task[..., Any] | AsyncTask[..., Any], cron: str | None, every: Duration | None, zone: str) -> Draft:
    if cron is not None and every is not None:
        raise InvalidRequest(f"task {task.name!r}: give either cron or every, not both", field="cron")
    rule = cron or f"@every {parse_duration(every or 0, field='every').total_seconds():g}s"
    template = template_of(task.name, '{"args":[],"kwargs":{}}', task.options)
    return Draft(name=task.name, rule=rule, zone=zone, template=template)
