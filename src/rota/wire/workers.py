"""The facts that workers report with a heartbeat, and the orders in its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from rota.core.worker_orders import MOST_JOBS, NO_ORDERS, WorkerFacts, WorkerOrders
from rota.wire.scalars import Count, Identifier, Moment, Name, Text, moment_of


class FactsForm(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a worker reports about its process. `cpu` is in cores, `rss` in bytes.

    `sent_at` is by the worker's own clock; the server compares it with its own.
    """

    cpu: Annotated[float, Meta(ge=0, le=100_000)] | None = None
    rss: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    fds: Annotated[int, Meta(ge=0, le=2**31)] | None = None
    threads_left_behind: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    is_quiet: bool = False
    jobs: Annotated[list[Identifier], Meta(max_length=MOST_JOBS)] = []
    sent_at: Moment | None = None
    stacks: Text = ""
    stacks_at: Moment | None = None


class OrdersForm(Struct, kw_only=True):
    """The orders for a worker: quiet, stop, and the number of requests for its stacks."""

    quiet: bool = False
    stop: bool = False
    stacks: Count = 0


class MemberOrdersForm(OrdersForm, kw_only=True):
    """The orders for one process."""

    boot_id: Name


class HeartbeatReply(Struct, kw_only=True):
    """The orders for the processes of a heartbeat; those without any are absent."""

    orders: list[MemberOrdersForm] = []


def facts_of(form: FactsForm | None) -> WorkerFacts | None:
    if form is None:
        return None
    return WorkerFacts(
        cpu=form.cpu,
        rss=form.rss,
        fds=form.fds,
        threads_left_behind=form.threads_left_behind,
        is_quiet=form.is_quiet,
        jobs=tuple(form.jobs),
        sent_at=moment_of(form.sent_at, "sent_at"),
        stacks=form.stacks.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode(),
        stacks_at=moment_of(form.stacks_at, "stacks_at"),
    )


def facts_form(facts: WorkerFacts | None) -> FactsForm | None:
    if facts is None:
        return None
    return FactsForm(
        cpu=facts.cpu,
        rss=facts.rss,
        fds=facts.fds,
        threads_left_behind=facts.threads_left_behind,
        is_quiet=facts.is_quiet,
        jobs=list(facts.jobs),
        sent_at=facts.sent_at,
        stacks=facts.stacks,
        stacks_at=facts.stacks_at,
    )


def orders_form(orders: WorkerOrders) -> OrdersForm:
    return OrdersForm(quiet=orders.quiet, stop=orders.stop, stacks=orders.stacks)


def heartbeat_reply(orders: Mapping[str, WorkerOrders]) -> HeartbeatReply:
    return HeartbeatReply(
        orders=[
            MemberOrdersForm(boot_id=boot, quiet=one.quiet, stop=one.stop, stacks=one.stacks)
            for boot, one in orders.items()
        ]
    )


def orders_in(reply: HeartbeatReply, boot: str) -> WorkerOrders:
    """Return the orders for one process."""
    for one in reply.orders:
        if one.boot_id == boot:
            return WorkerOrders(one.quiet, one.stop, one.stacks)
    return NO_ORDERS
