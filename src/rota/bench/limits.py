"""What limits a deployment, derived from the measurements. Pure, so that every case has its test.

A load is limited by one resource at a time, but several may be nearly exhausted. They are checked in the order in which
they hide each other: a client without CPU measures only itself; a server without CPU makes its store look slow; and
only with CPU to spare on both sides do the latencies say where the time goes. The first entry is the limit; the others
would be next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from rota.bench.completion import BenchCompletion
from rota.bench.percentiles import shown
from rota.bench.plan import BenchPlan
from rota.bench.targets import WorkerCapacity

#: A process that uses this much of a core has no CPU left.
FULL_CORE: Final = 0.85
FULL_HOST: Final = 0.92
#: A part that takes half of the latency is the limit.
MAIN_SHARE: Final = 0.5
#: A rate is reached from this share on.
REACHED: Final = 0.98
#: Fewer errors than this share are reported, but not as the limit.
MANY_ERRORS: Final = 0.01


@dataclass(frozen=True, slots=True)
class Measurements:
    """The measurements of a run; None where one failed. Times in seconds, CPU in cores."""

    rate: float
    made: int
    latency: float
    errors: Mapping[str, int] = field(default_factory=dict)
    client_cpu: float = 0.0
    server_cpu: float | None = None
    #: The share of all cores of this host that was in use, by any process.
    host_cpu: float | None = None
    #: The time of a submission in the store under load, and of a submission without load.
    store: float | None = None
    alone: float | None = None
    round_trip: float | None = None
    is_http: bool = True
    capacity: WorkerCapacity | None = None
    completion: BenchCompletion | None = None


@dataclass(frozen=True, slots=True)
class LoadLimit:
    """One limit: a code for programs, the figure that shows it, and the remedy."""

    code: str
    text: str
    fix: str


def find_limits(plan: BenchPlan, measured: Measurements) -> list[LoadLimit]:
    """Return the limits, the most important first."""
    limits = [*_errors(measured), *_submit_limits(plan, measured)]
    if plan.is_to_run:
        limits += _run_limits(measured)
    return limits


def _submit_limits(plan: BenchPlan, measured: Measurements) -> list[LoadLimit]:
    if plan.rate is not None and measured.rate >= plan.rate * REACHED:
        text = f"nothing, at this rate: {measured.rate:,.0f} of {plan.rate:,.0f} jobs a second were submitted"
        return [LoadLimit("none", text, "raise --rate, or leave it out to find the most it can do")]
    if not measured.made:
        return []
    limits = [*_cpu_limits(measured), *_latency_limits(measured)]
    return limits or [_caller_limit(plan, measured)]


def _errors(measured: Measurements) -> Iterator[LoadLimit]:
    missing = sum(measured.errors.values())
    if missing <= MANY_ERRORS * (missing + measured.made):
        return
    kind, count = max(measured.errors.items(), key=lambda pair: pair[1])
    text = f"errors: {missing:,} of {missing + measured.made:,} jobs were not stored, {count:,} of them by {kind!r}"
    yield LoadLimit("errors", text, _remedy(kind))


def _remedy(kind: str) -> str:
    remedies = {
        "queue_full": "the queue has a bound: set another with `rota queues set-limit QUEUE --max-depth N`, or with"
        " --queue-size where the API is started; or let workers serve it",
        "429": "the API has too many requests under way: use fewer --connections, or start more API processes",
        "no connection": "nothing listens there, or it accepts no more connections: see `rota status` and its log",
        "no answer": "the API is overloaded: use fewer --connections, and look at its log",
        "connection lost": "the API or a proxy before it closed connections: look at their logs",
        "401": "give a token that may submit: --token or ROTA_TOKEN",
        "403": "give a token that may submit: --token or ROTA_TOKEN",
        "5": "look at the API's log: it says what failed",
        "StoreUnavailable": "the store does not answer: `rota db check --store URL` looks at it",
    }
    return next(
        (fix for sign, fix in remedies.items() if sign in kind), "run it again with -v, and look at the API's log"
    )


def _cpu_limits(measured: Measurements) -> Iterator[LoadLimit]:
    if measured.client_cpu >= FULL_CORE:
        subject = "this program itself" if measured.is_http else "this process, including the engine and the driver"
        fix = (
            "run a second `rota bench` beside it, on another machine if you can, and add the rates; or --batch 100"
            if measured.is_http
            else "submit several jobs in one call (--batch 100), or from several processes at once"
        )
        yield LoadLimit("client_cpu", f"{subject}: it used {measured.client_cpu:.0%} of a core", fix)
    if measured.server_cpu is not None and measured.server_cpu >= FULL_CORE:
        text = f"the API process's CPU: it used {measured.server_cpu:.0%} of a core"
        fix = "start more API processes (`rota api`) and name all their addresses, or submit in batches (--batch 100)"
        yield LoadLimit("server_cpu", text, fix)
    if measured.host_cpu is not None and measured.host_cpu >= FULL_HOST:
        text = f"this machine: {measured.host_cpu:.0%} of all its cores were in use, by all processes"
        yield LoadLimit("host_cpu", text, "run the bench on another machine than the deployment, or use a larger one")


def _latency_limits(measured: Measurements) -> Iterator[LoadLimit]:
    if measured.store is not None and measured.store >= measured.latency * MAIN_SHARE:
        text = f"the store: {shown(measured.store)} of a submission's {shown(measured.latency)} are spent there"
        if measured.alone is not None:
            text += f"; a single job without load takes {shown(measured.alone)}"
        fix = (
            "submit several jobs at once (--batch 100), or from more callers (--connections): they share commits; then"
            " a faster disk, or a database server of its own"
        )
        yield LoadLimit("store", text, fix)
    if measured.round_trip is not None and measured.round_trip >= measured.latency * MAIN_SHARE:
        text = f"the network round trip: {shown(measured.round_trip)} of a submission's {shown(measured.latency)}"
        fix = "submit several jobs at once (--batch 100), from more --connections, or from a machine nearer to it"
        yield LoadLimit("round_trip", text, fix)


def _caller_limit(plan: BenchPlan, measured: Measurements) -> LoadLimit:
    text = f"the number of callers: each of {plan.connections} waits {shown(measured.latency)} for its response"
    used = [f"this program {measured.client_cpu:.0%} of a core"]
    if measured.server_cpu is not None:
        used.append(f"the API {measured.server_cpu:.0%}")
    fix = f"use more --connections: nothing else was near its limit ({', '.join(used)})"
    return LoadLimit("callers", text, fix)


def _run_limits(measured: Measurements) -> Iterator[LoadLimit]:
    capacity, completion = measured.capacity, measured.completion
    if capacity is None:
        return
    if capacity.is_paused:
        yield LoadLimit(
            "queue_paused", "the queue is paused: none of its jobs is claimed", "`rota queues resume QUEUE`"
        )
    elif not capacity.workers:
        yield LoadLimit(
            "no_worker", "no worker takes jobs from this queue", "start one with `rota worker --queues QUEUE`"
        )
    elif completion is not None and completion.busy is not None:
        yield from _slot_limits(measured.rate, capacity.slots, completion.rate, completion.busy)


def _slot_limits(submit_rate: float, slots: int, run_rate: float, busy: float) -> Iterator[LoadLimit]:
    if busy >= FULL_CORE:
        text = f"the workers' slots: {busy:.0%} of {slots} were busy while jobs waited"
        yield LoadLimit("slots", text, "start more workers, or raise their --concurrency if their CPU has room")
    elif 0 < run_rate < submit_rate * REACHED:
        text = f"the workers: they ran {run_rate:,.0f} jobs a second of {submit_rate:,.0f} that were submitted"
        fix = f"start more workers: {busy:.0%} of {slots} slots were busy, so the limit is their CPU or the store"
        yield LoadLimit("workers", text, fix)
