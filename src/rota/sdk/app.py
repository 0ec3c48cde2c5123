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
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeVar, Unpack, overload

from rota.core.bulk import UniformJobs
from rota.core.duration import parse_duration
from rota.core.envelope import envelope_of
from rota.core.errors import InvalidRequest, KeyMissing, KeyReused, RotaError
from rota.core.graph import WorkflowId
from rota.core.ids import LARGEST, JobId, to_number, to_text
from rota.core.job import Job
from rota.core.limit import Limit
from rota.core.queue import queue_full
from rota.core.schedule import Draft
from rota.core.submission import NewJob
from rota.core.waiting import DEFAULT_KEEP, Emission, check_emission
from rota.engine.ids import IdMaker
from rota.ports.caller_tx import run_sync
from rota.ports.client import Actor, Control
from rota.ports.clock import wall_clock
from rota.ports.store import AllCreated, Inserted, Receipt
from rota.runtime.encryption import open_cipher
from rota.runtime.namespace_stores import store_url
from rota.sdk.breakers import TaskBreakers
from rota.sdk.definition import (
    Executor,
    WhenFull,
    app_name_of,
    batch_calls_for,
    check_executor,
    limit_for,
    name_of,
    namespace_of,
    refuse_control,
    rule_for,
)
from rota.sdk.encoding import json_text
from rota.sdk.gateway import Gateway
from rota.sdk.handle import Handle
from rota.sdk.locks import AsyncNamedLock, NamedLock
from rota.sdk.options import Duration, Options, RetryDefaults, check_defaults, merged, refuse_exceptions
from rota.sdk.portal import Portal
from rota.sdk.task import PER_JOB, AsyncTask, BatchDecorator, Call, Decorator, JobSpec, Task
from rota.sdk.transactions import emit_in, require_async, require_blocking, submit_in, transaction_of
from rota.sdk.workflow_handle import WorkflowHandle
from rota.settings import Settings, read
from rota.telemetry.tracing import current_traceparent

if TYPE_CHECKING:
    from rota.encryption import Cipher
    from rota.runtime import Link
    from rota.runtime.mounted import MountedApi
    from rota.sdk.embedded import Embedded, Signals
    from rota.worker.batch_calls import BatchCalls

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
_task_of: Final = attrgetter("task")
_payload_of: Final = attrgetter("payload")
_traceparent_of: Final = attrgetter("traceparent")
_receipt_of: Final = attrgetter("receipt")


class Rota:
    """Defines tasks and submits them: to a file (`Rota()`), a database, or an API (`Rota("https://…")`)."""

    def __init__(self, url: str | None = None, *, name: str = "default", namespace: str | None = None) -> None:
        if url is not None and not isinstance(url, str):
            remedy = 'give a file, a database URL or the URL of an API, as in Rota("rota.db")'
            raise InvalidRequest(f"url: {url!r} is not text; {remedy}", field="url")
        self.name = app_name_of(name)
        self._namespace = None if namespace is None else namespace_of(namespace)
        self._url = url
        self._process_url = ""
        self._settings: Settings | None = None
        self.tasks: dict[str, Task[..., Any] | AsyncTask[..., Any]] = {}
        self.executors: dict[str, Executor] = {}
        #: The limits of tasks with `max_running` or `rate_limit`; stored when a worker or a scheduler starts.
        self.limits: list[Limit] = []
        #: The circuit breakers of tasks; stored when a worker or a scheduler starts.
        self.breakers = TaskBreakers()
        #: The collected calls of tasks with `batch`.
        self.batches: dict[str, BatchCalls] = {}
        #: By task, the rule and the zone that it was given by `cron` or `every`.
        self._rules: dict[str, tuple[str, str]] = {}
        self._fresh_id = IdMaker(wall_clock, random.random)
        self._runs = 0
        self._guard = threading.Lock()

    @property
    def settings(self) -> Settings:
        """The settings: of the process that runs this app, else of the environment and the files here. Read once."""
        if self._settings is None:
            self._settings = self._in_namespace(read(environment=os.environ, folder=Path.cwd()))
        return self._settings

    def _in_namespace(self, settings: Settings) -> Settings:
        """Return the settings with the namespace that the app names, if it names one."""
        if self._namespace is None:
            return settings
        return replace(settings, namespace=self._namespace, origins={**settings.origins, "namespace": "Rota()"})

    def configure(self, settings: Settings, url: str = "") -> None:
        """Use the settings of a process, and its store or API unless the app names its own.

        Submissions made before this used the former settings.
        """
        self.close()
        self._settings, self._process_url = self._in_namespace(settings), url
        for name in ("gateway", "retry_defaults", "queue_bound", "cipher"):
            self.__dict__.pop(name, None)

    @property
    def url(self) -> str:
        """Where jobs are stored: as given to the app, else as the process or the settings say."""
        return store_url(self._url or self._process_url or self.settings.store, self.settings.namespace)

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
        batch: int,
        batch_wait: Duration | None = None,
        name: str | None = None,
        executor: Executor = "auto",
        max_running: int | None = None,
        rate_limit: str | None = None,
        per: str | None = None,
        weight: int | None = None,
        order: Literal["strict"] | None = None,
        on_full: WhenFull | None = None,
        **defaults: Unpack[Options],
    ) -> BatchDecorator: ...
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
        weight: int | None = None,
        order: Literal["strict"] | None = None,
        on_full: WhenFull | None = None,
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
        weight: int | None = None,
        order: Literal["strict"] | None = None,
        on_full: WhenFull | None = None,
        batch: int | None = None,
        batch_wait: Duration | None = None,
        **defaults: Unpack[Options],
    ) -> Any:
        """Make a function a task. Works with and without parentheses, on sync and async functions.

        `max_running` bounds how many of its jobs run at once in the whole deployment, `rate_limit` how often they
        start (`"10/s"`); with `per`, the name of an argument, both hold for each value of that argument by itself. Then
        `weight` is the share of starts of each value against other keys, and `order="strict"` starts the jobs of one
        value in the order of submission, each after the one before it has ended. `on_full` is the policy for a new job
        of a value that has as many running and waiting jobs as may run at once: it waits, or is dropped, and so on.

        `breaker` names the circuit breaker of the dependency that it calls, or defines it (`Breaker`).

        With `batch`, the function gets a list: the arguments of up to `batch` jobs, which a worker has collected within
        `batch_wait`. Each job is submitted with one of them and has an outcome of its own.
        """

        def define(defined: Callable[..., Any]) -> Task[..., Any] | AsyncTask[..., Any]:
            task_name = name_of(defined, name)
            calls = batch_calls_for(task_name, defined, batch, batch_wait, executor)
            defined = defined if calls is None else calls.for_one()
            rule = rule_for(task_name, defined, cron, every, tz, defaults.get("delay"))
            if rule is not None:
                refuse_control(task_name, defaults)
            own = dict(defaults)
            breaker: Any = own.pop("breaker", None)
            if breaker is not None:
                self.breakers.check(task_name, breaker)
            values = {"max_running": max_running, "rate_limit": rate_limit, "weight": weight, "order": order}
            values["on_full"] = on_full
            limit = limit_for(task_name, defined, per, values)
            if per is not None and defaults.get("concurrency_key") is not None:
                remedy = "each value of the argument is a key of its own; give one of them"
                message = f"task {task_name!r}: concurrency_key: cannot be combined with per={per!r}: {remedy}"
                raise InvalidRequest(message, field="concurrency_key")
            options: Any = own
            task = self._define(defined, task_name, executor, options)
            task.per = per
            if breaker is not None:
                self.breakers.add(task_name, breaker)
            if limit is not None:
                self.limits.append(limit)
            if rule is not None:
                self._rules[task.name] = rule, tz
            if calls is not None:
                self.batches[task.name] = calls
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
        """Submit a job by the name of its task.

        If this app defines the task, the job has the task's options and key, and the payload is checked as arguments
        are. The payload of any other task is sent to the worker as it is.
        """
        text = json_text(payload)
        if task := self._task_named(name):
            return (task.using(**options) if options else task).call_with(text).submit()
        refuse_exceptions(name, options.get("retry"))
        call: Call[Any] = Call(self, JobSpec(self, name, options), text, json.loads, current_traceparent())
        return call.submit()

    def _task_named(self, name: object) -> Task[..., Any] | AsyncTask[..., Any] | None:
        """Return the task of a name; none for what is no name, which is refused with the options."""
        return self.tasks.get(name) if isinstance(name, str) else None

    def get(self, job_id: str) -> Handle[Any]:
        """Return a handle of a job that was submitted before."""
        if not isinstance(job_id, str):
            raise InvalidRequest(
                f"job_id: {job_id!r} is not an id{_as_text(job_id)}; give a handle's id", field="job_id"
            )
        return Handle(self, JobId(to_number(job_id)), json.loads)

    def emit(self, name: str, payload: object = None, *, keep: Duration = DEFAULT_KEEP, tx: object = None) -> bool:
        """Emit an event and wake the jobs that wait for it; return whether it is the first emission of this name.

        The first emission counts, and answers every wait for the next `keep`. With `tx`, it is a part of the
        transaction of that connection.
        """
        emission = _emission(name, payload, keep)
        if tx is None:
            return self.portal.call(self._emit(emission))
        require_blocking(tx)
        return run_sync(emit_in(self.url, tx, emission, self.cipher)).is_new

    async def aemit(
        self, name: str, payload: object = None, *, keep: Duration = DEFAULT_KEEP, tx: object = None
    ) -> bool:
        """Emit an event as `emit` does, in async code."""
        emission = _emission(name, payload, keep)
        if tx is None:
            return await self.portal.acall(self._emit(emission))
        require_async(tx)
        return (await emit_in(self.url, tx, emission, self.cipher)).is_new

    async def _emit(self, emission: Emission) -> bool:
        control = await self.control()
        return (await control.emit(emission, Actor("python", surface="sdk"))).is_new

    def lock(self, name: str, *, wait: Duration = "5s", hold: Duration = "30s") -> NamedLock:
        """Return a named advisory lock, to be used with `with`; it is renewed while the block lasts.

        If another holder has it for longer than `wait`, `LockHeld` is raised. If this process dies, the lock lapses
        after `hold`. A lock saves work; it does not prevent double effects, see docs/howto/locks.md.
        """
        return NamedLock(self, name, wait, hold)

    def alock(self, name: str, *, wait: Duration = "5s", hold: Duration = "30s") -> AsyncNamedLock:
        """Return a named advisory lock as `lock` does, to be used with `async with`."""
        return AsyncNamedLock(self, name, wait, hold)

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
            Signals(reloads_tls=bool(self.settings.tls_cert)) as signals,
            self._running(concurrency, queues, api=api, signals=signals) as embedded,
        ):
            self.portal.call(embedded.ended())

    def asgi(self, *, trusts_callers: bool = False) -> MountedApi:
        """Return the HTTP API and the dashboard as an ASGI application, to be mounted below a path of another one.

        It runs no jobs. Without a token in the settings it answers only requests to names of this machine, as
        `rota api` does. With `trusts_callers` it accepts every request that the outer application passes on, without a
        token: use it behind a login of your own. Closed by the lifespan, or by `await asgi.aclose()`.
        """
        # Imported when needed: a program that only submits does not load the API.
        from rota.runtime.mounted import MountedApi  # noqa: PLC0415
        from rota.sdk.loader import definition_of  # noqa: PLC0415

        return MountedApi(self.url, self.settings, definition_of(self), trusts_callers=trusts_callers)

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
        """Return the verbs for jobs (submit, get, cancel …); runs on the portal's loop."""
        return await self.gateway.control()

    @cached_property
    def queue_bound(self) -> int | None:
        """How many jobs may wait in a queue, for submissions in a caller's transaction. Read once."""
        return self.settings.queue_size or None

    def job(self, call: Call[Any]) -> NewJob:
        """Make the job of a call, with its id: if it is sent twice, it is stored once."""
        return call.job(self._fresh_id.within(time.time_ns() // 1_000_000))

    def fresh_ids(self, now: datetime, number: int) -> Sequence[JobId]:
        """Make ids for jobs that are submitted together."""
        return self._fresh_id.several(now, number)

    def get_workflow(self, workflow_id: str) -> WorkflowHandle[Any]:
        """Return a handle of a workflow that was submitted before."""
        if not isinstance(workflow_id, str):
            raise InvalidRequest(f"workflow_id: {workflow_id!r} is not an id; give a handle's id", field="workflow_id")
        return WorkflowHandle(self, WorkflowId(to_number(workflow_id)))

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

        answers = await submit_in(self.url, tx, make, self.queue_bound, self.cipher)
        return self._handles(calls, answers)

    @cached_property
    def cipher(self) -> Cipher | None:
        """Encrypts jobs that are submitted in a caller's transaction; None without keys. Opened once."""
        return open_cipher(self.settings.encryption_keys)

    def undecryptable(self, job: Job) -> RotaError:
        """Make the error for a result that cannot be decrypted here."""
        assert job.result is not None
        try:
            envelope = envelope_of(job.result)
            if self.cipher is None:
                return KeyMissing(
                    f"the result of {job.name} is encrypted with the key {envelope.key!r}, and no keys are configured"
                    " here; set encryption_keys (ROTA_ENCRYPTION_KEYS)"
                )
            self.cipher.decrypt_result(job.result, job.id)
        except RotaError as error:
            return error
        return KeyMissing(f"the key of {job.name} was configured just now; read the result again")

    def handle(self, call: Call[R], answer: Inserted) -> Handle[R]:
        """Return the handle of a call's job; raise if it was refused."""
        if answer.receipt is Receipt.CREATED:
            return Handle(self, answer.job_id, call.decode)
        return self._handles([call], [answer])[0]

    def _handles(self, calls: list[Call[R]], answers: Sequence[Inserted]) -> list[Handle[R]]:
        """Return a handle for each call; raise if one was refused."""
        ids = _created(answers)
        if ids is not None:
            return [Handle(self, job_id, call.decode) for call, job_id in zip(calls, ids, strict=True)]
        for call, answer in zip(calls, answers, strict=True):
            if answer.receipt is Receipt.KEY_REUSED:
                key = call.options.get("idempotency_key")
                message = f"idempotency_key {key!r} was used before for another submission; choose another"
                raise KeyReused(message, field="idempotency_key")
        handles = [
            None if answer.receipt is Receipt.QUEUE_FULL else Handle(self, answer.job_id, call.decode, answer.receipt)
            for call, answer in zip(calls, answers, strict=True)
        ]
        if None in handles:
            refusal = queue_full(calls[handles.index(None)].template().queue)
            refusal.handles = handles
            raise refusal
        return [handle for handle in handles if handle is not None]


def _transaction_of(calls: Sequence[Call[Any]], tx: object) -> object:
    """Return the transaction in which calls are submitted. Mostly all are of one task, whose options are read once."""
    try:
        tasks = dict.fromkeys(map(_task_of, calls))
    except AttributeError:
        wrong = next(call for call in calls if not hasattr(call, "task"))
        raise InvalidRequest(f"calls: {wrong!r} is not a call; give calls, as in task.call(…)", field="calls") from None
    return transaction_of([task.options for task in tasks], tx)


def _emission(name: str, payload: object, keep: Duration) -> Emission:
    emission = Emission(name, json_text(payload), parse_duration(keep, field="keep"))
    check_emission(emission)
    return emission


def _as_text(job_id: object) -> str:
    """Show the text form of a number that a `Job` has as its id."""
    return f" but the number of {to_text(job_id)!r}" if type(job_id) is int and 0 <= job_id <= LARGEST else ""


def _are_alike(calls: Sequence[Call[Any]]) -> bool:
    """Whether calls differ in their payloads only."""
    if len(calls) <= 1 or len(set(map(_task_of, calls))) > 1 or len(set(map(_traceparent_of, calls))) > 1:
        return False
    # Keys depend on the payload.
    return PER_JOB.isdisjoint(calls[0].options.keys() - {"run_at"})


def _created(answers: Sequence[Inserted]) -> Sequence[JobId] | None:
    """Return the ids of the new jobs; None if one of the submissions made no job (a duplicate, or refused)."""
    if type(answers) is AllCreated:
        return answers.ids
    # Counted in C and not in a Python loop: nearly always, all were created.
    is_all = list(map(_receipt_of, answers)).count(Receipt.CREATED) == len(answers)
    return [answer.job_id for answer in answers] if is_all else None


def _draft(task: Task[..., Any] | AsyncTask[..., Any], rule: str, zone: str) -> Draft:
    template = replace(task.keyed().template, payload='{"args":[],"kwargs":{}}')
    return Draft(name=task.name, rule=rule, zone=zone, template=template)
