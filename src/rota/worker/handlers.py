"""Handlers: the code a worker runs, by job type."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal

from rota.core.errors import InvalidRequest
from rota.worker.arguments import Call, CallSignature, encode_result
from rota.worker.exceptions import DEPENDENCY_ERRORS, ExceptionTypes
from rota.worker.references import reference_to, resolve

ExecutorName = Literal["async", "thread", "process"]


@dataclass(frozen=True, slots=True)
class Handler:
    """What to run for a job type, on which executor, and which exceptions are permanent.

    `decode` converts a payload to a call, `encode` a result to JSON; both raise `PermanentError` if they cannot.
    """

    type: str
    function: Callable[..., Any]
    executor: ExecutorName
    timeout: timedelta | None = None
    give_up_on: ExceptionTypes = ()
    retry_on: ExceptionTypes = (Exception,)
    decode: Callable[[str], Call] = field(kw_only=True)
    encode: Callable[[Any], str] = encode_result
    #: The circuit breaker of its dependency, if it has one, and the exceptions by which that fails.
    breaker: str | None = None
    dependency_errors: ExceptionTypes = DEPENDENCY_ERRORS
    #: Where a child process imports the function, or the decorated object. For `executor="process"`.
    reference: str | None = None

    def __post_init__(self) -> None:
        if not self.type:
            raise InvalidRequest("handler: type must not be empty", field="type")
        is_async = inspect.iscoroutinefunction(self.function)
        if self.executor == "async" and not is_async:
            raise InvalidRequest(f"handler {self.type!r}: only an async function runs as 'async'", field="executor")
        if self.executor == "thread" and is_async:
            raise InvalidRequest(f"handler {self.type!r}: an async function runs as 'async'", field="executor")
        if self.executor == "process" and self.reference is None:
            raise InvalidRequest(f"handler {self.type!r}: executor 'process' needs a reference", field="reference")


def handler_of(
    function: Callable[..., Any],
    *,
    type: str | None = None,  # noqa: A002 - the field's name
    executor: Literal["auto", "async", "thread", "process"] = "auto",
    timeout: timedelta | None = None,
    give_up_on: ExceptionTypes = (),
    retry_on: ExceptionTypes = (Exception,),
    breaker: str | None = None,
    dependency_errors: ExceptionTypes = DEPENDENCY_ERRORS,
    reference: str | None = None,
) -> Handler:
    """Make a handler from a function, sync or async."""
    if executor == "auto":
        executor = "async" if inspect.iscoroutinefunction(function) else "thread"
    if executor == "process" and reference is None:
        reference = reference_to(function)
    return Handler(
        type=type or function.__name__,
        function=function,
        executor=executor,
        timeout=timeout,
        give_up_on=give_up_on,
        retry_on=retry_on,
        breaker=breaker,
        dependency_errors=dependency_errors,
        decode=CallSignature(function).decode,
        reference=reference,
    )


def isolated(handler: Handler) -> Handler:
    """Return the same handler for the process executor, if another process can import it."""
    if handler.executor == "process" or not _is_plain(handler):
        return handler
    try:
        reference = handler.reference or reference_to(handler.function)
        target = resolve(reference)
    except (InvalidRequest, ImportError, AttributeError):
        return handler
    # The name may refer to something else: another function of that name, or the result of a decorator.
    if getattr(target, "function", target) is not handler.function:
        return handler
    return replace(handler, executor="process", reference=reference)


def _is_plain(handler: Handler) -> bool:
    """Whether another process would decode payloads and encode results in the same way."""
    return isinstance(getattr(handler.decode, "__self__", None), CallSignature) and handler.encode is encode_result


class Handlers:
    """The registry of a worker's handlers."""

    def __init__(self, handlers: Iterable[Handler] = ()) -> None:
        self._by_type: dict[str, Handler] = {}
        for handler in handlers:
            self.register(handler)

    def register(self, handler: Handler) -> None:
        """Add a handler; each type has one."""
        known = self._by_type.setdefault(handler.type, handler)
        if known is not handler:
            raise InvalidRequest(f"type {handler.type!r} already has a handler", field="type")

    def lookup(self, type_: str) -> Handler | None:
        return self._by_type.get(type_)

    @property
    def types(self) -> tuple[str, ...]:
        """All types, sorted."""
        return tuple(sorted(self._by_type))

    def types_of(self, *executors: ExecutorName) -> tuple[str, ...]:
        """Return the types that run on one of these executors, sorted."""
        return tuple(sorted(one.type for one in self._by_type.values() if one.executor in executors))

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._by_type.values())
