"""Checks of a task definition: its function, its name, its executor and its schedule, all at the decorator."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, Literal, get_args

from rota.core.duration import format_duration, parse_duration
from rota.core.errors import InvalidRequest
from rota.core.limit import Limit, check_limit, task_limit
from rota.core.schedule import rule_of, zone_of
from rota.sdk.options import Duration

Executor = Literal["auto", "async", "thread", "process"]


_OPTIONAL_KINDS: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
#: The same limit as for names of tasks and queues; MariaDB keeps 255 characters.
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
    """Give the name of a task: the given one, else its function's. Refuse functions that cannot be a task."""
    if not callable(function):
        remedy = "write @app.task above a function, or @app.task(name=…) to give it another name"
        raise InvalidRequest(f"task: {function!r} is not a function; {remedy}", field="function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        remedy = "return one result, such as a list"
        raise InvalidRequest(f"task: {function!r} is a generator, and a job has one result; {remedy}", field="function")
    if name is not None:
        return name
    own = getattr(function, "__name__", None)
    if not isinstance(own, str):
        raise InvalidRequest(f"name: {function!r} has no name; give one, as in name='send_email'", field="name")
    return own


def check_executor(name: str, function: Callable[..., Any], executor: str) -> None:
    """Refuse an unknown executor, and one that cannot run this function."""
    known = get_args(Executor)
    if executor not in known:
        message = f"executor: {executor!r} is unknown; choose one of {', '.join(known)}"
    elif executor == "async" and not inspect.iscoroutinefunction(function):
        message = "executor: 'async' is for an async function only; leave it out, or choose thread or process"
    elif executor == "thread" and inspect.iscoroutinefunction(function):
        message = "executor: 'thread' cannot run an async function; leave it out, or choose process"
    else:
        return
    raise InvalidRequest(f"task {name!r}: {message}", field="executor")


def rule_for(
    name: str,
    function: Callable[..., Any],
    cron: str | None,
    every: Duration | None,
    zone: str,
    delay: Duration | None = None,
) -> str | None:
    """Give the rule of a task's schedule, None without one; refuse a rule that could never fire or run."""
    if cron is None and every is None:
        if zone != "UTC":
            raise InvalidRequest(f"task {name!r}: tz: {zone!r} belongs to cron; give cron= as well", field="tz")
        return None
    if cron is not None and every is not None:
        raise InvalidRequest(f"task {name!r}: give either cron or every, not both", field="cron")
    _require_text(name, cron, zone)
    _refuse_without_effect(name, cron, zone, delay)
    try:
        rule = _every(every) if every is not None else cron or ""
        rule_of(rule)
    except InvalidRequest as error:
        field = "every" if cron is None else "cron"
        raise InvalidRequest(f"task {name!r}: {field}: {_without_field(str(error), field)}", field=field) from None
    try:
        zone_of(zone)
    except InvalidRequest as error:
        raise InvalidRequest(f"task {name!r}: tz: {_without_field(str(error), 'zone')}", field="tz") from None
    _require_no_arguments(name, function)
    return rule


def limit_for(
    name: str, function: Callable[..., Any], max_running: int | None, rate_limit: str | None, per: str | None
) -> Limit | None:
    """Give the limit of a task, None without one; refuse bad values, naming the option."""
    if per is not None and per not in inspect.signature(function).parameters:
        known = ", ".join(inspect.signature(function).parameters) or "none"
        message = f"task {name!r}: per: {per!r} is not an argument of the function; its arguments: {known}"
        raise InvalidRequest(message, field="per")
    if max_running is None and rate_limit is None:
        return None
    _require_limit_types(name, max_running, rate_limit)
    values = (max_running, rate_limit)
    limit = Limit(task_limit(name), *values) if per is None else Limit(task_limit(name), None, None, *values)
    try:
        check_limit(limit)
    except InvalidRequest as error:
        text = str(error).replace("per_key_", "")
        raise InvalidRequest(f"task {name!r}: {text}", field=(error.field or "").replace("per_key_", "")) from None
    return limit


def _require_limit_types(name: str, max_running: object, rate_limit: object) -> None:
    if max_running is not None and (not isinstance(max_running, int) or isinstance(max_running, bool)):
        message = f"task {name!r}: max_running: {max_running!r} is not a number; give how many may run at once"
        raise InvalidRequest(message, field="max_running")
    if rate_limit is not None and not isinstance(rate_limit, str):
        message = f"task {name!r}: rate_limit: {rate_limit!r} is not text; write e.g. '10/s'"
        raise InvalidRequest(message, field="rate_limit")


def _require_text(name: str, cron: object, zone: object) -> None:
    for option, value, remedy in (("cron", cron, "write e.g. '0 3 * * *'"), ("tz", zone, "write e.g. 'Europe/Berlin'")):
        if value is not None and not isinstance(value, str):
            raise InvalidRequest(f"task {name!r}: {option}: {value!r} is not text; {remedy}", field=option)


def _refuse_without_effect(name: str, cron: str | None, zone: str, delay: Duration | None) -> None:
    """Refuse options that a schedule would ignore: an interval has no zone, and a job starts at its fire time."""
    if cron is None and zone != "UTC":
        remedy = "an interval is the same in every zone; leave tz out, or give cron= instead of every="
        raise InvalidRequest(f"task {name!r}: tz: {zone!r} has no effect with every; {remedy}", field="tz")
    if delay is not None:
        remedy = "the job of a schedule starts at its fire time; give it to submissions, as in task.using(delay=…)"
        raise InvalidRequest(
            f"task {name!r}: delay: {delay!r} cannot be combined with cron or every; {remedy}", field="delay"
        )


def _every(every: Duration) -> str:
    return f"@every {format_duration(parse_duration(every, field='every'))}"


def _without_field(message: str, field: str) -> str:
    return message.removeprefix(f"{field}: ")


def _require_no_arguments(name: str, function: Callable[..., Any]) -> None:
    """Refuse a function with required arguments: a schedule passes none."""
    required = [
        one.name
        for one in inspect.signature(function).parameters.values()
        if one.default is inspect.Parameter.empty and one.kind not in _OPTIONAL_KINDS
    ]
    if required:
        raise InvalidRequest(
            f"task {name!r}: a schedule passes no arguments, but it needs {', '.join(required)}; "
            "give them defaults, or create the schedule over the API or `rota schedules create`, with a payload",
            field="cron",
        )
