"""Schedules that come from code: checked where they are defined, at the decorator."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

from rota.core.duration import format_duration, parse_duration
from rota.core.errors import InvalidRequest
from rota.core.schedule import rule_of, zone_of
from rota.sdk.options import Duration

_OPTIONAL_KINDS: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def rule_for(
    name: str,
    function: Callable[..., Any],
    cron: str | None,
    every: Duration | None,
    zone: str,
    delay: Duration | None = None,
) -> str | None:
    """Give the rule by which a task recurs, or None if it does not; refuse what could never fire or run."""
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


def _require_text(name: str, cron: object, zone: object) -> None:
    for option, value, remedy in (("cron", cron, "write e.g. '0 3 * * *'"), ("tz", zone, "write e.g. 'Europe/Berlin'")):
        if value is not None and not isinstance(value, str):
            raise InvalidRequest(f"task {name!r}: {option}: {value!r} is no text; {remedy}", field=option)


def _refuse_without_effect(name: str, cron: str | None, zone: str, delay: Duration | None) -> None:
    """Refuse what a schedule would pass over: an interval has no zone, and a job starts at its fire time."""
    if cron is None and zone != "UTC":
        remedy = "an interval is the same in every zone; leave tz out, or give cron= instead of every="
        raise InvalidRequest(f"task {name!r}: tz: {zone!r} has no effect with every; {remedy}", field="tz")
    if delay is not None:
        remedy = "the job of a schedule starts at its fire time; give it to submissions, as in task.using(delay=…)"
        raise InvalidRequest(
            f"task {name!r}: delay: {delay!r} cannot stand with cron or every; {remedy}", field="delay"
        )


def _every(every: Duration) -> str:
    return f"@every {format_duration(parse_duration(every, field='every'))}"


def _without_field(message: str, field: str) -> str:
    return message.removeprefix(f"{field}: ")


def _require_no_arguments(name: str, function: Callable[..., Any]) -> None:
    """Refuse a function that cannot be called without arguments: a fire time brings none."""
    required = [
        one.name
        for one in inspect.signature(function).parameters.values()
        if one.default is inspect.Parameter.empty and one.kind not in _OPTIONAL_KINDS
    ]
    if required:
        raise InvalidRequest(
            f"task {name!r}: it recurs, and a fire time brings no arguments, but it needs {', '.join(required)}; "
            "give them defaults, or make the schedule by hand with a payload",
            field="cron",
        )
