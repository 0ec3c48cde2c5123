"""The report: all that was measured and what follows from it, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rota.cli.bench.load import Yield
from rota.cli.bench.plan import Plan
from rota.cli.bench.running import Run
from rota.cli.bench.spread import Spread, shown
from rota.cli.bench.verdict import Evidence, Limit
from rota.cli.output import clean


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a run has shown."""

    target: str
    store: str
    plan: Plan
    found: Yield
    run: Run | None
    evidence: Evidence
    limits: Sequence[Limit]
    #: How many jobs were deleted again, and how many that had not run were left; None where nothing was tried.
    discarded: int | None = None
    left: int = 0
    is_interrupted: bool = False

    def record(self) -> dict[str, Any]:
        """Give it as one JSON document."""
        plan, found, evidence = self.plan, self.found, self.evidence
        return {
            "target": self.target,
            "store": self.store,
            "queue": plan.queue,
            "tag": plan.tag,
            "connections": plan.connections,
            "batch": plan.batch,
            "payload_bytes": len(plan.payload),
            "asked_rate": plan.rate,
            "seconds": round(found.seconds, 3),
            "submitted": len(found.ids),
            "rate": round(found.rate, 1),
            "errors": dict(found.errors),
            "submit": Spread(found.latencies).record(),
            "run": None if self.run is None else _run_record(self.run),
            "measured": {
                "client_cpu_cores": _rounded(evidence.client_cpu),
                "server_cpu_cores": _rounded(evidence.server_cpu),
                "host_cpu_share": _rounded(evidence.host_cpu),
                "store_seconds": _rounded(evidence.store),
                "alone_seconds": _rounded(evidence.alone),
                "round_trip_seconds": _rounded(evidence.round_trip),
            },
            "limits": [asdict(limit) for limit in self.limits],
            "discarded": self.discarded,
            "left": self.left,
            "is_interrupted": self.is_interrupted,
        }

    def lines(self) -> Iterator[str]:
        """Give it as people read it."""
        plan, found = self.plan, self.found
        asked = "as fast as it goes" if plan.rate is None else f"{plan.rate:,.6g} jobs a second"
        each = "one job" if plan.batch == 1 else f"{plan.batch} jobs"
        yield f"{clean(self.target)} ({clean(self.store)}), queue {clean(plan.queue)}"
        yield f"asked      {asked}, {plan.connections} callers, {each} of {len(plan.payload):,} bytes at a time"
        early = ", interrupted" if self.is_interrupted else ""
        yield f"submitted  {len(found.ids):,} jobs in {found.seconds:.1f} s{early}: {found.rate:,.0f} a second"
        yield f"errors     {_errors(found)}"
        if found.latencies:
            yield "\nsubmit: from the request to its answer"
            yield from Spread(found.latencies).lines()
        if self.run is not None:
            yield from _run_lines(self.run, len(found.ids))
        yield "\nmeasured"
        yield from _measured(self.evidence)
        yield "\nwhat limits it"
        for limit in self.limits:
            yield f"  {limit.text}\n    fix: {limit.fix}"
        if not self.limits:
            yield "  nothing can be told: no job was submitted"


def _run_lines(run: Run, made: int) -> Iterator[str]:
    if run.start:
        yield f"\nstart: from a job's making until a worker leased it ({len(run.start):,} of {made:,} jobs looked at)"
        yield from run.start.lines()
    if run.finish:
        yield f"\nfinish: from a job's making until its end was written ({len(run.finish):,} of {made:,} looked at)"
        yield from run.finish.lines()
        yield f"  {run.rate:,.0f} jobs a second were run"
    if run.left:
        yield f"\nnot run    {run.left:,} of {made:,} jobs had not ended when waiting ended"


def _measured(evidence: Evidence) -> Iterator[str]:
    rows = [
        ("this program", f"{evidence.client_cpu:.0%} of a core"),
        ("the API process", None if evidence.server_cpu is None else f"{evidence.server_cpu:.0%} of a core"),
        ("this machine", None if evidence.host_cpu is None else f"{evidence.host_cpu:.0%} of its cores"),
        ("the store, a submission", None if evidence.store is None else shown(evidence.store)),
        ("one job alone", None if evidence.alone is None else shown(evidence.alone)),
        ("there and back", None if evidence.round_trip is None else shown(evidence.round_trip)),
    ]
    for name, figure in rows:
        if figure is not None:
            yield f"  {name.ljust(24)} {figure}"


def _run_record(run: Run) -> dict[str, Any]:
    return {
        "start": run.start.record(),
        "finish": run.finish.record(),
        "rate": round(run.rate, 1),
        "left": run.left,
        "busy_share": _rounded(run.busy),
    }


def _errors(found: Yield) -> str:
    return ", ".join(f"{count:,} by {clean(kind)}" for kind, count in found.errors.most_common()) or "none"


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 6)
