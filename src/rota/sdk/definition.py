"""Checks of a task definition: its function, its name, its executor and its schedule, all at the decorator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, get_args

from rota.core.duration import format_duration, parse_duration
from rota.core.errors import InvalidRequest
from rota.core.limit import Limit, OnFull, check_limit, task_limit
from rota.core.namespace import DEFAULT, check_name
from rota.core.schedule import rule_of, zone_of
from rota.core.unique_keys import CONTROL_OPTIONS
from rota.sdk.options import Duration, Options

if TYPE_CHECKING:
    from rota.worker.batch_calls import BatchCalls

#: The policies for a new job of a full key, as `OnFull`.
WhenFull = Literal["wait", "drop", "cancel_oldest", "cancel_newest", "replace"]
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


def namespace_of(namespace: object) -> str:
    """Check the namespace of an app; `default` or nothing means the default one."""
    if not isinstance(namespace, str):
        raise InvalidRequest(f"namespace: {namespace!r} is not text; write Rota(namespace='acme')", field="namespace")
    return "" if namespace in {"", DEFAULT} else check_name(namespace, field="namespace")


def name_of(function: object, name: str | None) -> str:
    """Return the name of a task: the given one, else its function's. Refuse functions that cannot be a task."""
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
    """Return the rule of a task's schedule, None without one; refuse a rule that could never fire or run."""
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


def limit_for(name: str, function: Callable[..., Any], per: str | None, values: Mapping[str, Any]) -> Limit | None:
    """Return the limit of a task, None without one; refuse bad values, naming the option."""
    if per is not None and per not in tuple(inspect.signature(function).parameters):
        known = ", ".join(inspect.signature(function).parameters) or "none"
        _refuse_limit(name, "per", per, f"it is not an argument of the function; its arguments: {known}")
    given = {option: value for option, value in values.items() if value is not None}
    for option, value in given.items():
        if not isinstance(value, _LIMIT_TYPES[option]) or isinstance(value, bool):
            _refuse_limit(name, option, value, _LIMIT_REMEDIES[option])
        if per is None and option in {"weight", "order", "on_full"}:
            _refuse_limit(name, option, value, "it holds for each value of an argument; name the argument with per")
    if not given:
        return None
    fields = {(f"per_key_{option}" if per and option in _PER_KEY else option): one for option, one in given.items()}
    limit = Limit(task_limit(name), **fields)
    try:
        check_limit(limit)
    except InvalidRequest as error:
        text = str(error).replace("per_key_", "")
        raise InvalidRequest(f"task {name!r}: {text}", field=(error.field or "").replace("per_key_", "")) from None
    return limit


_PER_KEY: Final = frozenset({"max_running", "rate_limit"})
_LIMIT_TYPES: Final = {"max_running": int, "rate_limit": str, "weight": int, "order": str, "on_full": str}
_LIMIT_REMEDIES: Final = {
    "max_running": "give how many may run at once, as a number",
    "rate_limit": "write e.g. '10/s'",
    "weight": "give a whole number",
    "order": "write 'strict', or leave it out",
    "on_full": f"it must be one of {', '.join(OnFull)}",
}


def _refuse_limit(name: str, option: str, value: object, remedy: str) -> NoReturn:
    raise InvalidRequest(f"task {name!r}: {option}: {value!r} will not do: {remedy}", field=option)


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


def refuse_control(name: str, options: Options) -> None:
    """Refuse the control of repeated submissions for a schedule, whose jobs are not submitted."""
    for option in sorted(CONTROL_OPTIONS & options.keys()):
        remedy = "its jobs are made at their fire times, one for each; leave it out, or give it to submissions, as in"
        raise InvalidRequest(
            f"task {name!r}: {option}: cannot be combined with cron or every; {remedy} task.using({option}=…)",
            field=option,
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


def batch_calls_for(
    name: str, function: Callable[..., Any], size: int | None, wait: Duration | None, executor: Executor
) -> BatchCalls | None:
    """Return the collector of calls of a batch task; None for any other task."""
    if size is None:
        if wait is not None:
            raise InvalidRequest(f"task {name!r}: batch_wait: belongs to batch; give batch as well", field="batch_wait")
        return None
    # Imported when needed: a program that defines no batch does not load the worker.
    from rota.worker.batch_calls import DEFAULT_WAIT, BatchCalls, check_batch  # noqa: PLC0415

    span = DEFAULT_WAIT if wait is None else parse_duration(wait, field="batch_wait")
    return BatchCalls(name, function, check_batch(name, size, executor), span)
