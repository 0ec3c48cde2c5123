"""Defining a task: what can be one, what it is called, and how it can run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, Literal, get_args

from rota.core.errors import InvalidRequest

Executor = Literal["auto", "async", "thread", "process"]


#: As long as the names of tasks and queues may be; MariaDB keeps 255 characters.
_LONGEST_NAME: Final = 200


def app_name_of(name: object) -> str:
    """Check the name of an app: its schedules are stored under it."""
    if isinstance(name, str) and name.strip() and name.isprintable() and len(name) <= _LONGEST_NAME:
        return name
    raise InvalidRequest(
        f"name: {ascii(name)[:80]} cannot be the name of an app; give 1 to {_LONGEST_NAME} printable characters, as in"
        " Rota(name='shop'), or leave it out",
        field="name",
    )


def name_of(function: object, name: str | None) -> str:
    """Give the name of a task: the given one, else its function's. Refuse what is no function that can be a task."""
    if not callable(function):
        remedy = "write @app.task above a function, or @app.task(name=…) to give it another name"
        raise InvalidRequest(f"task: {function!r} is no function; {remedy}", field="function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        remedy = "return one result, such as a list"
        raise InvalidRequest(
            f"task: {function!r} is a generator, whose values nobody takes; {remedy}", field="function"
        )
    if name is not None:
        return name
    own = getattr(function, "__name__", None)
    if not isinstance(own, str):
        raise InvalidRequest(
            f"name: {function!r} has no name of its own; give one, as in name='send_email'", field="name"
        )
    return own


def check_executor(name: str, function: Callable[..., Any], executor: str) -> None:
    """Refuse a way to run a function that is none, or none for this function."""
    known = get_args(Executor)
    if executor not in known:
        message = f"executor: {executor!r} is none; choose one of {', '.join(known)}"
    elif executor == "async" and not inspect.iscoroutinefunction(function):
        message = "executor: 'async' is for an async function only; leave it out, or choose thread or process"
    elif executor == "thread" and inspect.iscoroutinefunction(function):
        message = "executor: 'thread' cannot run an async function; leave it out, or choose process"
    else:
        return
    raise InvalidRequest(f"task {name!r}: {message}", field="executor")
