"""Handlers: the code a worker runs, by type of job."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal

from rota.core.errors import InvalidRequest
from rota.worker.calling import Call, Calling, encode_result
from rota.worker.references import reference_to, resolve

Executor = Literal["async", "thread", "process"]
Kinds = tuple[type[BaseException], ...]


@dataclass(frozen=True, slots=True)
class Handler:
    """What to run for a type, where, and what its exceptions mean.

    `decode` makes a call of a payload, `encode` JSON of a result; both raise `Permanent` for what cannot be.
    """

    type: str
    function: Callable[..., Any]
    executor: Executor
    timeout: timedelta | None = None
    give_up_on: Kinds = ()
    retry_on: Kinds = (Exception,)
    decode: Callable[[str], Call] = field(kw_only=True)
    encode: Callable[[Any], str] = encode_result
    #: Where another process finds the function, or what a decorator made of it. For `executor="process"`.
    reference: str | None = None

    def __post_init__(self) -> None:
        if not self.type:
            raise InvalidRequest("a handler needs a type", field="type")
        is_async = inspect.iscoroutinefunction(self.function)
        if self.executor == "async" and not is_async:
            raise InvalidRequest(f"handler {self.type!r}: only an async function runs as 'async'", field="executor")
        if self.executor == "thread" and is_async:
            raise InvalidRequest(f"handler {self.type!r}: an async function runs as 'async'", field="executor")
        if self.executor == "process" and self.reference is None:
            raise InvalidRequest(f"handler {self.type!r}: a process needs a reference to it", field="reference")


def handler_of(
    function: Callable[..., Any],
    *,
    type: str | None = None,  # noqa: A002 - the field's name
    executor: Literal["auto", "async", "thread", "process"] = "auto",
    timeout: timedelta | None = None,
    give_up_on: Kinds = (),
    retry_on: Kinds = (Exception,),
    reference: str | None = None,
) -> Handler:
    """Make a handler of a plain function, sync or async."""
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
        decode=Calling(function).decode,
        reference=reference,
    )


def isolated(handler: Handler) -> Handler:
    """Give the same handler in a process of its own, if another process can find it."""
    if handler.executor == "process" or not _is_plain(handler):
        return handler
    try:
        reference = handler.reference or reference_to(handler.function)
        found = resolve(reference)
    except (InvalidRequest, ImportError, AttributeError):
        return handler
    # A name can lie: two functions may share one, or a decorator may have put something else in its place.
    if getattr(found, "function", found) is not handler.function:
        return handler
    return replace(handler, executor="process", reference=reference)


def _is_plain(handler: Handler) -> bool:
    """Whether another process would read payloads and write results in the same way."""
    return isinstance(getattr(handler.decode, "__self__", None), Calling) and handler.encode is encode_result


class Handlers:
    """The registry: which types a worker knows."""

    def __init__(self, handlers: Iterable[Handler] = ()) -> None:
        self._by_type: dict[str, Handler] = {}
        for handler in handlers:
            self.register(handler)

    def register(self, handler: Handler) -> None:
        """Add a handler; a type has one."""
        known = self._by_type.setdefault(handler.type, handler)
        if known is not handler:
            raise InvalidRequest(f"type {handler.type!r} already has a handler", field="type")

    def lookup(self, type_: str) -> Handler | None:
        """Find the handler of a type."""
        return self._by_type.get(type_)

    @property
    def types(self) -> tuple[str, ...]:
        """All types, in order."""
        return tuple(sorted(self._by_type))

    def types_of(self, *executors: Executor) -> tuple[str, ...]:
        """Give the types that run in one of these ways, in order."""
        return tuple(sorted(one.type for one in self._by_type.values() if one.executor in executors))

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._by_type.values())
