"""Retry rules in requests and responses: the delays between attempts."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from rota.core.errors import InvalidRequest
from rota.core.retry import DEFAULT_BACKOFF, Backoff, Growth, shared
from rota.wire.scalars import Duration, duration_of, seconds_of


class RetryRule(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The delays between attempts. Fields that are left out have the server's defaults."""

    growth: Growth | None = None
    base: Duration | None = None
    factor: Annotated[float, Meta(ge=1, le=1_000_000)] | None = None
    cap: Duration | None = None
    jitter: Annotated[float, Meta(ge=0, le=1)] | None = None
    delays: Annotated[list[Duration], Meta(min_length=1, max_length=100)] | None = None
    max_elapsed: Duration | None = None
    #: Retries are at most this share of the starts of the job's type within `budget_window`; more of them start later.
    budget: Annotated[float, Meta(gt=0, le=1)] | None = None
    budget_window: Duration | None = None


_SPANS: Final = ("base", "cap", "max_elapsed", "budget_window")


def backoff_of(rule: RetryRule, default: Backoff = DEFAULT_BACKOFF) -> Backoff:
    """Convert a rule; fields that it leaves out are taken from `default`."""
    spans = {name: duration_of(getattr(rule, name), f"retry.{name}") for name in _SPANS}
    changes: dict[str, Any] = {name: span for name, span in spans.items() if span is not None}
    if rule.delays is not None:
        changes["delays"] = tuple(duration_of(delay, "retry.delays") for delay in rule.delays)
        changes["growth"] = rule.growth or Growth.LISTED
    elif rule.growth is not None:
        changes["growth"] = rule.growth
        if rule.growth is not Growth.LISTED:
            changes["delays"] = ()
    for name in ("factor", "jitter", "budget"):
        if (value := getattr(rule, name)) is not None:
            changes[name] = value
    backoff = shared(replace(default, **changes))
    _refuse_without_effect(rule, backoff)
    return backoff


def _refuse_without_effect(rule: RetryRule, backoff: Backoff) -> None:
    """Refuse fields that the rule would not use. With `growth` it may be a whole rule, as a job shows it."""
    if rule.delays is not None and rule.growth is None:
        for name in ("base", "factor", "cap"):
            if getattr(rule, name) is not None:
                message = (
                    f"retry.{name}: has no effect beside delays, which says each delay by itself; give one of them"
                )
                raise InvalidRequest(message, field=f"retry.{name}")
    if rule.budget_window is not None and backoff.budget is None:
        message = "retry.budget_window: has no effect without budget; give budget as well"
        raise InvalidRequest(message, field="retry.budget_window")


def retry_rule_of(backoff: Backoff) -> RetryRule:
    """Convert a backoff in full: the other side may have other defaults."""
    return RetryRule(
        growth=backoff.growth,
        base=seconds_of(backoff.base),
        factor=backoff.factor,
        cap=seconds_of(backoff.cap),
        jitter=backoff.jitter,
        delays=[delay.total_seconds() for delay in backoff.delays] or None,
        max_elapsed=seconds_of(backoff.max_elapsed),
        budget=backoff.budget,
        budget_window=None if backoff.budget is None else seconds_of(backoff.budget_window),
    )
