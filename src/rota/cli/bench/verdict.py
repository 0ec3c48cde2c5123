"""The verdict: what limits a deployment, told from what was measured. Pure, so that every case has its test.

A load is limited by one thing at a time, but several may be near their ends. They are looked at in the order in which
they hide each other: a client without CPU sees nothing but itself; a server without CPU makes its store look slow; and
only with CPU to spare on both sides do waiting times say where the waiting is. What is named first is the limit; what
follows is what would be next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from rota.cli.bench.plan import Plan
from rota.cli.bench.running import Run
from rota.cli.bench.spread import shown
from rota.cli.bench.targets import Crew

#: A process that uses this much of a core has none left: the rest goes to waiting for its turn.
FULL_CORE: Final = 0.85
FULL_HOST: Final = 0.92
#: What takes half of the time is where the time goes.
GREAT_SHARE: Final = 0.5
#: A rate is kept when no more than this is missing.
KEPT: Final = 0.98
#: Fewer errors than this share are told and not blamed.
MANY_ERRORS: Final = 0.01


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was measured. What could not be is None. Times are seconds, CPU is in cores."""

    rate: float
    made: int
    latency: float
    errors: Mapping[str, int] = field(default_factory=dict)
    client_cpu: float = 0.0
    server_cpu: float | None = None
    #: Of all cores of this host, how much was in use by anyone.
    host_cpu: float | None = None
    #: A submission's time in the store under load; and alone, with nobody else there.
    store: float | None = None
    alone: float | None = None
    round_trip: float | None = None
    is_http: bool = True
    crew: Crew | None = None
    run: Run | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """One thing that limits: a code for programs, the figure that shows it, and the remedy."""

    code: str
    text: str
    fix: str


def limits(plan: Plan, evidence: Evidence) -> list[Limit]:
    """Say what limits, the weightiest first; never nothing."""
    found = [*_errors(evidence), *_of_submitting(plan, evidence)]
    if plan.is_to_run:
        found += _of_running(evidence)
    return found


def _of_submitting(plan: Plan, evidence: Evidence) -> list[Limit]:
    if plan.rate is not None and evidence.rate >= plan.rate * KEPT:
        text = f"nothing, at this rate: {evidence.rate:,.0f} of {plan.rate:,.0f} jobs a second were submitted"
        return [Limit("none", text, "raise --rate, or leave it out to find the most it can do")]
    if not evidence.made:
        return []
    found = [*_processors(evidence), *_waiting(evidence)]
    return found or [_callers(plan, evidence)]


def _errors(evidence: Evidence) -> Iterator[Limit]:
    missing = sum(evidence.errors.values())
    if missing <= MANY_ERRORS * (missing + evidence.made):
        return
    kind, count = max(evidence.errors.items(), key=lambda pair: pair[1])
    text = f"errors: {missing:,} of {missing + evidence.made:,} jobs were not made, {count:,} of them by {kind!r}"
    yield Limit("errors", text, _remedy(kind))


def _remedy(kind: str) -> str:
    remedies = {
        "queue_full": "the queue has a bound: set another with `rota queues set-limit QUEUE --max-depth N`, or with"
        " --queue-size where the API is started; or let workers serve it",
        "429": "the API has too many requests under way: use fewer --connections, or start more API processes",
        "no connection": "nothing listens there, or it takes no more connections: see `rota status`, and the API's log",
        "no answer": "the API is alive but does not keep up: use fewer --connections, and look at its log",
        "connection lost": "the API or a proxy before it ended connections: look at their logs",
        "401": "bring a token that may submit: --token or ROTA_TOKEN",
        "403": "bring a token that may submit: --token or ROTA_TOKEN",
        "5": "look at the API's log: it says what failed",
        "StoreUnavailable": "the store does not answer: `rota db check --store URL` looks at it",
    }
    return next(
        (fix for sign, fix in remedies.items() if sign in kind), "run it again with -v, and look at the API's log"
    )


def _processors(evidence: Evidence) -> Iterator[Limit]:
    if evidence.client_cpu >= FULL_CORE:
        who = "this program itself" if evidence.is_http else "this process, the engine and the driver included"
        fix = (
            "run a second `rota bench` beside it, on another machine if you can, and add the rates; or --batch 100"
            if evidence.is_http
            else "submit several jobs in one call (--batch 100), or from several processes at once"
        )
        yield Limit("client_cpu", f"{who}: it used {evidence.client_cpu:.0%} of a core", fix)
    if evidence.server_cpu is not None and evidence.server_cpu >= FULL_CORE:
        text = f"the API process's CPU: it used {evidence.server_cpu:.0%} of a core"
        fix = "start more API processes (`rota api`) and name all their addresses, or submit in batches (--batch 100)"
        yield Limit("server_cpu", text, fix)
    if evidence.host_cpu is not None and evidence.host_cpu >= FULL_HOST:
        text = f"this machine: {evidence.host_cpu:.0%} of all its cores were in use, by whomever"
        yield Limit("host_cpu", text, "run the bench on another machine than the deployment, or use a larger one")


def _waiting(evidence: Evidence) -> Iterator[Limit]:
    if evidence.store is not None and evidence.store >= evidence.latency * GREAT_SHARE:
        text = f"the store: {shown(evidence.store)} of a submission's {shown(evidence.latency)} pass there"
        if evidence.alone is not None:
            text += f"; a single job, alone, takes {shown(evidence.alone)}"
        fix = (
            "submit several jobs at once (--batch 100), or from more callers (--connections): they share commits; then"
            " a faster disk, or a database server of its own"
        )
        yield Limit("store", text, fix)
    if evidence.round_trip is not None and evidence.round_trip >= evidence.latency * GREAT_SHARE:
        text = f"the way there and back: {shown(evidence.round_trip)} of a submission's {shown(evidence.latency)}"
        fix = "submit several jobs at once (--batch 100), from more --connections, or from nearer"
        yield Limit("round_trip", text, fix)


def _callers(plan: Plan, evidence: Evidence) -> Limit:
    text = f"the number of callers: each of {plan.connections} waits {shown(evidence.latency)} for its answer"
    used = [f"this program {evidence.client_cpu:.0%} of a core"]
    if evidence.server_cpu is not None:
        used.append(f"the API {evidence.server_cpu:.0%}")
    fix = f"use more --connections: nothing else was near its end ({', '.join(used)})"
    return Limit("callers", text, fix)


def _of_running(evidence: Evidence) -> Iterator[Limit]:
    crew, run = evidence.crew, evidence.run
    if crew is not None and crew.is_paused:
        yield Limit("queue_paused", "the queue is paused: none of its jobs is handed out", "`rota queues resume QUEUE`")
    elif crew is not None and not crew.workers:
        yield Limit("no_worker", "no worker takes jobs from this queue", "start one with `rota worker --queues QUEUE`")
    elif crew is not None and run is not None and run.busy is not None and run.busy >= FULL_CORE:
        text = f"the workers' slots: {run.busy:.0%} of {crew.slots} were busy while jobs waited"
        yield Limit("slots", text, "start more workers, or raise their --concurrency if their CPU has room")
    elif crew is not None and run is not None and run.busy is not None and 0 < run.rate < evidence.rate * KEPT:
        text = f"the workers: they ran {run.rate:,.0f} jobs a second of {evidence.rate:,.0f} that were submitted"
        fix = f"start more workers: {run.busy:.0%} of {crew.slots} slots were busy, so it is their CPU or the store's"
        yield Limit("workers", text, fix)
