"""Circuit breakers in requests and responses."""

from __future__ import annotations

from msgspec import Struct

from rota.core.limit import MOST_WAITING
from rota.engine.breakers import BreakerReport
from rota.wire.scalars import Count, Duration, Moment, Text


class BreakerOpen(Struct, kw_only=True, forbid_unknown_fields=True):
    """For how long, or until when, a breaker is kept open; neither for until it is closed; and the reason."""

    until: Moment | None = None
    #: A duration from now, instead of `until`.
    open_for: Duration | None = None
    reason: Text = ""


class BreakerClose(Struct, kw_only=True, forbid_unknown_fields=True):
    """Why a breaker is kept closed."""

    reason: Text = ""


class BreakerForm(Struct, kw_only=True):
    """A circuit breaker.

    It opens when at least `least` calls were counted within `window` seconds and the share `failures` of them failed.
    After `open_for` seconds it is `half_open` and lets `probes` jobs start in each further `open_for`. `is_forced`: an
    operator keeps it open until `open_until`, or closed. `calls` and `failed` are counted within the window.
    """

    name: str
    state: str
    is_forced: bool
    since: Moment | None
    open_until: Moment | None
    reason: str | None
    set_by: str
    opened: Count
    calls: Count
    failed: Count
    failures: float
    window: float
    least: int
    open_for: float
    probes: int
    tasks: list[str]


class BreakerUsageForm(BreakerForm, kw_only=True):
    """A breaker with the due jobs that wait for it, counted up to 1000; `waiting_is_more` says that there are more."""

    waiting: Count
    waiting_is_more: bool


class BreakerList(Struct, kw_only=True):
    """A page of breakers, ordered by name."""

    items: list[BreakerForm]
    next_cursor: str | None = None


def breaker_form(report: BreakerReport) -> BreakerForm:
    one, rule = report.breaker, report.breaker.rule
    return BreakerForm(
        name=one.name,
        state=report.state,
        is_forced=one.is_forced,
        since=one.since,
        open_until=one.open_until,
        reason=one.reason,
        set_by=one.set_by,
        opened=one.opened,
        calls=report.count.calls,
        failed=report.count.failures,
        failures=rule.failures,
        window=rule.window.total_seconds(),
        least=rule.least,
        open_for=rule.open_for.total_seconds(),
        probes=rule.probes,
        tasks=list(one.types),
    )


def breaker_usage_form(report: BreakerReport) -> BreakerUsageForm:
    form, waiting = breaker_form(report), report.waiting or 0
    return BreakerUsageForm(
        **{name: getattr(form, name) for name in form.__struct_fields__},
        waiting=min(waiting, MOST_WAITING),
        waiting_is_more=waiting > MOST_WAITING,
    )
