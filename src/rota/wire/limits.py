"""Limits in requests and responses."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from rota.core.ids import to_text
from rota.core.limit import LARGEST_COUNT, LARGEST_WEIGHT, MOST_WAITING, Limit, LimitUsage, OnFull
from rota.wire.scalars import Count, Identifier, Moment, Name, Text

MostRunning = Annotated[int, Meta(ge=1, le=LARGEST_COUNT)]
Weight = Annotated[int, Meta(ge=1, le=LARGEST_WEIGHT)]


class LimitChange(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a limit allows: jobs that run at once, and starts per period, such as `10/s` or `100/s, 1000/h`.

    The `per_key` fields are for limits of tasks, and hold for each key that the task makes. A field that is left out
    limits nothing.
    """

    max_running: MostRunning | None = None
    rate_limit: Name | None = None
    per_key_max_running: MostRunning | None = None
    per_key_rate_limit: Name | None = None
    #: A key's share of the starts while others wait as well; of a task, that of each of its keys.
    weight: Weight | None = None
    #: `strict`: the jobs of a key start in the order of submission, each after the one before it has ended.
    order: Literal["strict"] | None = None
    #: The policy for a new job whose key has as many running and waiting jobs as may run at once.
    on_full: OnFull | None = None


class LimitPatch(Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields of a limit that change; null stands for no limit. Those that are left out stay as they are."""

    max_running: MostRunning | UnsetType | None = UNSET
    rate_limit: Name | UnsetType | None = UNSET
    per_key_max_running: MostRunning | UnsetType | None = UNSET
    per_key_rate_limit: Name | UnsetType | None = UNSET
    weight: Weight | UnsetType | None = UNSET
    order: Literal["strict"] | UnsetType | None = UNSET
    on_full: OnFull | UnsetType | None = UNSET


class LimitClose(Struct, kw_only=True, forbid_unknown_fields=True):
    """Until when a limit is closed, null for until it is opened; and the reason."""

    until: Moment | None = None
    reason: Text = ""


class LimitForm(Struct, kw_only=True):
    """A limit as it is stored. `app` names the app whose code defines it."""

    name: str
    max_running: int | None
    rate_limit: str | None
    per_key_max_running: int | None
    per_key_rate_limit: str | None
    weight: int | None
    order: str | None
    on_full: str | None
    closed_until: Moment | None
    reason: str | None
    app: str | None
    set_by: str
    set_at: Moment | None
    #: The open circuit breaker that the jobs of the task wait for.
    breaker: str | None


class LimitUsageForm(LimitForm, kw_only=True):
    """A limit with what runs and waits under it.

    `holders` are running jobs, at most ten. `waiting` is counted up to 1000; `waiting_is_more` says that there are
    more. `opens_at` is when the next job may start, if a time is known.
    """

    running: Count
    holders: list[Identifier]
    waiting: Count
    waiting_is_more: bool
    opens_at: Moment | None


class LimitList(Struct, kw_only=True):
    """A page of limits, ordered by name."""

    items: list[LimitForm]
    next_cursor: str | None = None


def limit_form(limit: Limit) -> LimitForm:
    return LimitForm(
        name=limit.name,
        max_running=limit.max_running,
        rate_limit=limit.rate_limit,
        per_key_max_running=limit.per_key_max_running,
        per_key_rate_limit=limit.per_key_rate_limit,
        weight=limit.weight,
        order=limit.order,
        on_full=limit.on_full,
        closed_until=limit.closed_until,
        reason=limit.reason,
        app=limit.app,
        set_by=limit.set_by,
        set_at=limit.set_at,
        breaker=limit.breaker,
    )


def usage_form(usage: LimitUsage) -> LimitUsageForm:
    form = limit_form(usage.limit)
    return LimitUsageForm(
        **{name: getattr(form, name) for name in form.__struct_fields__},
        running=usage.running,
        holders=[to_text(one) for one in usage.holders],
        waiting=min(usage.waiting, MOST_WAITING),
        waiting_is_more=usage.waiting > MOST_WAITING,
        opens_at=usage.opens_at,
    )
