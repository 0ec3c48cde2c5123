"""The app: where tasks are defined and through which they are submitted.

Nothing is opened before it is needed: importing a module that defines tasks touches neither file nor network.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import random
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import Any, Final, Literal, ParamSpec, Protocol, TypeVar, Unpack, overload

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
from rota.ports.store import Inserted, Receipt
from rota.runtime import Link, connect
from rota.runtime.store import is_server
from rota.sdk.handle import Handle
from rota.sdk.homes import Homes
from rota.sdk.mailbox import Mailbox
from rota.sdk.options import Duration, Options, check_defaults, template_of
from rota.sdk.portal import Portal
from rota.sdk.task import AsyncTask, Call, Task, Wanted
from rota.sdk.within import require_async, require_blocking, submit_in, transaction_of
from rota.settings import read
from rota.stores.desk import MergingDesk

P = ParamSpec("P")
R = TypeVar("R")
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
        self._guard = threading.Lock()
        self._fresh_id = IdMaker(wall_clock, random.random)
        self._portal: Portal | None = None
        #: The links by the loops they live on.
        self._links: dict[asyncio.AbstractEventLoop, asyncio.Future[Link]] = {}
        self._mailbox: Mailbox[NewJob, Inserted] | None = None
        #: None where one writer serves all, which is the portal's.
        self._homes: Homes[NewJob, Inserted] | None = None
        if is_server(self.url):
            self._homes = Homes(self._send, self.link, self._unlink)
        self._runs_jobs = False

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
        tx = transaction_of([call.options for call in listed], tx)
        if tx is None:
            portal, mailbox = self._opened()
            portal.require_elsewhere()
            return self._handles(listed, mailbox.post(self._jobs(listed)))
        require_blocking(tx)
        return at_once(self._send_within(tx, listed))

    async def asubmit_many(self, calls: Iterable[Call[R]], *, tx: object = None) -> list[Handle[R]]:
        """Submit many calls in one go; with `tx`, in the transaction of that connection."""
        listed = list(calls)
        tx = transaction_of([call.options for call in listed], tx)
        if tx is None:
            # A worker in this process is on the portal's link, and hears at once of what comes through that.
            desk = None if self._homes is None or self._runs_jobs else self._homes.desk()
            post = self._opened()[1].apost if desk is None else desk.run
            return self._handles(listed, await post(self._jobs(listed)))
        require_async(tx)
        return await self._send_within(tx, listed)

    def submit_by_name(self, name: str, payload: object = None, **options: Unpack[Options]) -> Handle[Any]:
        """Submit a job for a task that is defined elsewhere."""
        call: Call[Any] = Call(self, Wanted(name, options), json.dumps(payload, allow_nan=False), json.loads)
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
        self._runs_jobs = True
        try:
            yield self
        finally:
            self._runs_jobs = False
            try:
                self.portal.call(embedded.stop())
            finally:
                self.close()

    def close(self) -> None:
        """Let go of the store. What is used afterwards opens it again."""
        if self._homes is not None:
            self._homes.close()
        with self._guard:
            portal, self._portal = self._portal, None
            mailbox, self._mailbox = self._mailbox, None
        if portal is not None and mailbox is not None:
            try:
                portal.call(mailbox.close())
                portal.call(self._unlink())
            finally:
                portal.close()

    @property
    def portal(self) -> Portal:
        """The loop through which this app reaches its engine."""
        return self._opened()[0]

    def _opened(self) -> tuple[Portal, Mailbox[NewJob, Inserted]]:
        """Give the portal and where jobs are handed in for it; they come and go together."""
        with self._guard:
            if self._portal is None or self._mailbox is None:
                self._portal = Portal()
                self._mailbox = Mailbox(self._portal.loop, MergingDesk(self._send))
            return self._portal, self._mailbox

    async def link(self) -> Link:
        """Link up, once for the running loop."""
        loop = asyncio.get_running_loop()
        link = self._links.get(loop)
        if link is None or (link.done() and (link.cancelled() or link.exception() is not None)):
            settings = read(environment=os.environ)
            bound = settings.queue_size or None
            link = asyncio.ensure_future(connect(self.url, token=settings.token, queue_bound=bound))
            self._links[loop] = link
        # Many wait for it: one who goes away must not call it off.
        return await asyncio.shield(link)

    async def _unlink(self) -> None:
        """Let go of the link of the running loop."""
        loop = asyncio.get_running_loop()
        link = self._links.get(loop)
        if link is not None:
            if not link.done():
                link.cancel()
                await asyncio.wait([link])
            if not link.cancelled() and link.exception() is None:
                await link.result().close()
            # Last: who is interrupted here comes again.
            self._links.pop(loop, None)

    async def control(self) -> Control:
        """Give the face through which jobs are submitted and looked at; runs on the portal's loop."""
        return (await self.link()).control

    @cached_property
    def _queue_bound(self) -> int | None:
        """How many jobs may wait in a queue, for submissions that pass by the engine. Read once."""
        return read(environment=os.environ).queue_size or None

    async def _send(self, jobs: Sequence[NewJob]) -> Sequence[Inserted]:
        """Submit jobs by the link of the running loop."""
        return await (await self.link()).control.submit(jobs)

    def _jobs(self, calls: Sequence[Call[Any]], now: datetime | None = None) -> list[NewJob]:
        """Make the jobs that calls submit, once: sent again, each is the same job and not a second one."""
        moment = wall_clock() if now is None else now
        with self._guard:
            ids = [self._fresh_id() for _ in calls]
        return [call.job(job_id, moment) for call, job_id in zip(calls, ids, strict=True)]

    async def _send_within(self, tx: object, calls: list[Call[R]]) -> list[Handle[R]]:
        """Submit calls in the caller's transaction; runs where the caller is."""

        def make(now: datetime) -> list[NewJob]:
            return self._jobs(calls, now)

        return self._handles(calls, await submit_in(self.url, tx, make, self._queue_bound))

    def _handles(self, calls: list[Call[R]], answers: Sequence[Inserted]) -> list[Handle[R]]:
        """Give a handle for each call, unless one was refused."""
        if all(answer.receipt in _ACCEPTED for answer in answers):
            return [Handle(self, answer.job_id, call.decode) for call, answer in zip(calls, answers, strict=True)]
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


def _draft(task: Task[..., Any] | AsyncTask[..., Any], cron: str | None, every: Duration | None, zone: str) -> Draft:
    if cron is not None and every is not None:
        raise InvalidRequest(f"task {task.name!r}: give either cron or every, not both", field="cron")
    rule = cron or f"@every {parse_duration(every or 0, field='every').total_seconds():g}s"
    template = template_of(task.name, '{"args":[],"kwargs":{}}', task.options)
    return Draft(name=task.name, rule=rule, zone=zone, template=template)
