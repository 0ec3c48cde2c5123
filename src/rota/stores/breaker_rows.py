"""Rows of circuit breakers and of counted calls, the same in all stores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from rota.core.breaker import BreakerRule, CallCount, CircuitBreaker
from rota.core.limit import task_limit
from rota.core.time import MICROSECOND, span_to_micros
from rota.stores.rows import Row, micros, moment


def breaker_row(breaker: CircuitBreaker) -> dict[str, Any]:
    """Write a breaker, by the names of insert_breaker and update_breaker."""
    rule = breaker.rule
    return {
        "name": breaker.name,
        "failures": rule.failures,
        "counted": span_to_micros(rule.window),
        "least": rule.least,
        "open_for": span_to_micros(rule.open_for),
        "probes": rule.probes,
        "tasks": json.dumps(breaker.tasks, ensure_ascii=False),
        "is_open": breaker.is_open,
        "is_forced": breaker.is_forced,
        "since": micros(breaker.since),
        "open_until": micros(breaker.open_until),
        "reason": breaker.reason,
        "set_by": breaker.set_by,
        "opened": breaker.opened,
        "version": breaker.version,
    }


def breaker_of(row: Row) -> CircuitBreaker:
    """Read a breaker, in the order of breaker_columns."""
    name, failures, counted, least, open_for, probes, tasks, is_open, is_forced, since, until, *rest = row
    reason, set_by, opened, version = rest
    return CircuitBreaker(
        name,
        BreakerRule(failures, counted * MICROSECOND, least, open_for * MICROSECOND, probes),
        tuple((app, type_) for app, type_ in json.loads(tasks)),
        bool(is_open),
        bool(is_forced),
        moment(since),
        moment(until),
        reason,
        set_by,
        opened,
        version,
    )


def open_limit_row(breaker: CircuitBreaker) -> dict[str, Any]:
    """Write the limit of an open breaker, by the names of save_breaker_limit."""
    limit = breaker.limit
    return {
        "name": limit.name,
        "rate_limit": limit.rate_limit,
        "closed_until": micros(limit.closed_until),
        "reason": limit.reason,
        "set_by": limit.set_by,
    }


def task_limits(breaker: CircuitBreaker) -> list[str]:
    """Return the names of the limits of an open breaker's tasks, in the order in which they are locked."""
    return sorted(map(task_limit, breaker.types)) if breaker.is_open else []


def count_rows(source: str, counts: Iterable[CallCount], now: int) -> list[Row]:
    """Write calls to add: name, slot, process, calls, failures; in the order in which rows are locked."""
    return sorted((one.name, one.slot(now), source, one.calls, one.failures) for one in counts if one.calls)


def summed(counts: Sequence[CallCount], rows: Iterable[Row], now: int) -> list[CallCount]:
    """Sum the calls of all processes within the window of each count, from rows of name, slot, calls and failures.

    Slots of the future are left out: the clock was set back since.
    """
    listed = list(rows)
    sums = []
    for one in counts:
        span = one.first_slot(now), one.slot(now)
        inside = [row for row in listed if row[0] == one.name and span[0] <= row[1] <= span[1]]
        sums.append(replace(one, calls=sum(row[2] for row in inside), failures=sum(row[3] for row in inside)))
    return sums
