"""Batch handlers: one call of a function for several jobs, each of which keeps its own lease, fence and outcome.

Every job of a batch task is an ordinary attempt in a slot of its own: it is claimed, renewed, timed out, cancelled and
settled by itself. Only its handler is shared: it waits on the worker's handler loop until there are `size` of them, or
until the first has waited for `wait`, and then one call of the function serves all. Jobs with different concurrency
keys are never in one call.

If a job is stopped (timeout, cancel, lost lease) before the call, it is left out; during the call, its result is
dropped. If all jobs of a call were stopped, an async function is cancelled. If the worker dies, each job is found by
its own lease. So a batch has the same guarantee as a single handler: the function may get a job again.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import typing
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from datetime import timedelta
from typing import Any, Final

from rota.core.errors import InvalidRequest
from rota.worker.annotations import annotations_of
from rota.worker.context import current

LARGEST_BATCH: Final = 1_000
DEFAULT_WAIT: Final = timedelta(milliseconds=100)
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

_Waiting = tuple[Any, "asyncio.Future[Any]"]


class _OpenBatch:
    """Jobs that wait for the call; `timer` starts it."""

    def __init__(self) -> None:
        self.jobs: list[_Waiting] = []
        self.timer: asyncio.TimerHandle | None = None


class BatchCalls:
    """Collects the jobs of one batch task in this process, and calls its function for several at once."""

    def __init__(self, task: str, function: Callable[..., Any], size: int, wait: timedelta) -> None:
        self._task = task
        self._function = function
        self._is_async = inspect.iscoroutinefunction(function)
        self._size = size
        self._wait_seconds = wait.total_seconds()
        self._open: dict[str | None, _OpenBatch] = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._signature = _item_signature(task, function)

    def for_worker(self) -> Callable[..., Coroutine[Any, Any, Any]]:
        """Return the handler of one job."""

        async def run(item: Any) -> Any:  # noqa: ANN401 - as annotated
            return await self._result_of(item)

        return self._like_function(run)

    def for_one(self) -> Callable[..., Any]:
        """Return a function that calls the batch function with a single item, as a direct call of the task does."""

        def call(item: Any) -> Any:  # noqa: ANN401 - as annotated
            return _raised_or(self._answers(self._function([item]), 1)[0])

        async def call_async(item: Any) -> Any:  # noqa: ANN401 - as annotated
            return _raised_or(self._answers(await self._function([item]), 1)[0])

        return self._like_function(call_async if self._is_async else call)

    def _like_function(self, made: Callable[..., Any]) -> Callable[..., Any]:
        made.__name__ = getattr(self._function, "__name__", self._task)
        made.__doc__ = self._function.__doc__
        changed: Any = made
        changed.__signature__ = self._signature
        hints = {one.name: one.annotation for one in self._signature.parameters.values()}
        made.__annotations__ = {**hints, "return": self._signature.return_annotation}
        return made

    async def _result_of(self, item: Any) -> Any:  # noqa: ANN401 - as annotated
        loop = asyncio.get_running_loop()
        key = current().concurrency_key
        batch = self._open.get(key)
        if batch is None:
            batch = self._open[key] = _OpenBatch()
            batch.timer = loop.call_later(self._wait_seconds, self._start, key, batch)
        result: asyncio.Future[Any] = loop.create_future()
        batch.jobs.append((item, result))
        if len(batch.jobs) >= self._size:
            self._start(key, batch)
        return await result

    def _start(self, key: str | None, batch: _OpenBatch) -> None:
        """Call the function for the jobs of a batch that were not stopped meanwhile."""
        if batch.timer is not None:
            batch.timer.cancel()
        if self._open.get(key) is batch:
            del self._open[key]
        jobs = [(item, result) for item, result in batch.jobs if not result.done()]
        if not jobs:
            return
        # In an empty context: `current()` would name one of several jobs.
        call = asyncio.get_running_loop().create_task(self._call(jobs), context=Context())
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

        def stop_if_all_stopped(_: asyncio.Future[Any]) -> None:
            if all(result.done() for _, result in jobs):
                call.cancel()

        for _, result in jobs:
            result.add_done_callback(stop_if_all_stopped)

    async def _call(self, jobs: Sequence[_Waiting]) -> None:
        items = [item for item, _ in jobs]
        try:
            if self._is_async:
                returned = await self._function(items)
            else:
                returned = await asyncio.to_thread(self._called, items)
            answers = self._answers(returned, len(items))
        except BaseException as error:  # noqa: BLE001 - it is the outcome of each job
            answers = [_copied(error) for _ in items]
        for (_, result), answer in zip(jobs, answers, strict=True):
            if result.done():
                continue
            if isinstance(answer, BaseException):
                result.set_exception(_for_future(answer))
            else:
                result.set_result(answer)

    def _called(self, items: Sequence[Any]) -> Any:  # noqa: ANN401 - whatever it returned
        try:
            return self._function(items)
        except StopIteration as error:
            raise _for_future(error) from error

    def _answers(self, returned: Any, count: int) -> Sequence[Any]:  # noqa: ANN401 - whatever it returned
        """Return the outcome of each job: a result, or an exception."""
        if returned is None:
            return [None] * count
        if isinstance(returned, list | tuple) and len(returned) == count:
            return returned
        raise TypeError(
            f"task {self._task!r}: its function got {count} items and returned {_shown(returned)}; return a list with a"
            " result or an exception for each item, or None"
        )


def check_batch(task: str, size: object, executor: str) -> int:
    """Refuse a size of batches that is none, and executors that cannot share a call."""
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= LARGEST_BATCH:
        raise InvalidRequest(
            f"task {task!r}: batch: {size!r} is not a number from 1 to {LARGEST_BATCH}; give the most jobs of one call",
            field="batch",
        )
    if executor != "auto":
        raise InvalidRequest(
            f"task {task!r}: executor: {executor!r} cannot be combined with batch: the jobs of a call share one thread,"
            " or the event loop if the function is async; leave it out",
            field="executor",
        )
    return size


def _item_signature(task: str, function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature for one item: of `list[T]` an argument `T`, of a returned `list[R]` the result `R`."""
    parameters = list(inspect.signature(function).parameters.values())
    if len(parameters) != 1 or parameters[0].kind not in _POSITIONAL:
        raise InvalidRequest(
            f"task {task!r}: batch: its function has to take one argument, the list of items; it takes"
            f" {', '.join(one.name for one in parameters) or 'none'}",
            field="batch",
        )
    hints = annotations_of(function)
    item = parameters[0].replace(
        annotation=_item_type(hints.get(parameters[0].name)),
        default=inspect.Parameter.empty,
        kind=inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    return inspect.Signature([item], return_annotation=_item_type(hints.get("return")))


def _item_type(annotation: Any) -> Any:  # noqa: ANN401 - an annotation
    """Return the type of a list's items; `Any` if it is not known."""
    if annotation is None or annotation is type(None):
        return None if annotation is type(None) else Any
    kinds = [one for one in typing.get_args(annotation) if isinstance(typing.get_origin(one), type)]
    if typing.get_origin(annotation) not in {list, Sequence}:
        return _item_type(kinds[0]) if len(kinds) == 1 else Any
    arguments = typing.get_args(annotation)
    return arguments[0] if len(arguments) == 1 else Any


def _copied(error: BaseException) -> BaseException:
    """Copy an exception for one of several jobs: each raise adds to the traceback of what is raised."""
    try:
        twin = copy.copy(error)
    except Exception:  # noqa: BLE001 - an exception of user code may refuse to be copied
        return error
    return twin.with_traceback(error.__traceback__) if type(twin) is type(error) else error


def _for_future(error: BaseException) -> BaseException:
    """Return an exception that a future accepts: with StopIteration its job would wait for ever."""
    return RuntimeError(f"the function raised {error!r}") if isinstance(error, StopIteration) else error


def _raised_or(answer: Any) -> Any:  # noqa: ANN401 - a result
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _shown(returned: object) -> str:
    number = f" of {len(returned)}" if isinstance(returned, list | tuple) else ""
    return f"{type(returned).__name__}{number}"
