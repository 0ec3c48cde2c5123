"""The report of a bench run, as text for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rota.bench.completion import BenchCompletion
from rota.bench.limits import LoadLimit, Measurements
from rota.bench.load import LoadResult
from rota.bench.percentiles import Latencies, shown
from rota.bench.plan import BenchPlan


@dataclass(frozen=True, slots=True)
class BenchReport:
    """All results of a run."""

    target: str
    store: str
    plan: BenchPlan
    load: LoadResult
    completion: BenchCompletion | None
    measured: Measurements
    limits: Sequence[LoadLimit]
    #: How many jobs were deleted again (None if none had to be), and how many that had not run were left.
    discarded: int | None = None
    left: int = 0
    is_interrupted: bool = False

    def record(self) -> dict[str, Any]:
        """Return it as one JSON document."""
        plan, load, measured = self.plan, self.load, self.measured
        return {
            "target": self.target,
            "store": self.store,
            "queue": plan.queue,
            "tag": plan.tag,
            "connections": plan.connections,
            "batch": plan.batch,
            "payload_bytes": len(plan.payload),
            "asked_rate": plan.rate,
            "seconds": round(load.seconds, 3),
            "submitted": len(load.ids),
            "rate": round(load.rate, 1),
            "errors": dict(load.errors),
            "submit": Latencies(load.latencies).record(),
            "run": None if self.completion is None else _completion_record(self.completion),
            "measured": {
                "client_cpu_cores": _rounded(measured.client_cpu),
                "server_cpu_cores": _rounded(measured.server_cpu),
                "host_cpu_share": _rounded(measured.host_cpu),
                "store_seconds": _rounded(measured.store),
                "alone_seconds": _rounded(measured.alone),
                "round_trip_seconds": _rounded(measured.round_trip),
            },
            "limits": [asdict(limit) for limit in self.limits],
            "discarded": self.discarded,
            "left": self.left,
            "is_interrupted": self.is_interrupted,
        }

    def lines(self) -> Iterator[str]:
        """Return it as lines of text. They may hold control characters, which are to be removed before printing."""
        plan, load = self.plan, self.load
        rate = "as fast as possible" if plan.rate is None else f"{plan.rate:,.6g} jobs a second"
        each = "one job" if plan.batch == 1 else f"{plan.batch} jobs"
        yield f"{self.target} ({self.store}), queue {plan.queue}"
        yield f"load       {rate}, {plan.connections} callers, {each} of {len(plan.payload):,} bytes at a time"
        early = ", interrupted" if self.is_interrupted else ""
        yield f"submitted  {len(load.ids):,} jobs in {load.seconds:.1f} s{early}: {load.rate:,.0f} a second"
        yield f"errors     {_errors(load)}"
        if load.latencies:
            yield from ("", "submit: from the request to its response")
            yield from Latencies(load.latencies).lines()
        if self.completion is not None:
            yield from _completion_lines(self.completion, len(load.ids))
        yield from ("", "measured")
        yield from _measured_lines(self.measured)
        yield from ("", "what limits it")
        for limit in self.limits:
            yield from (f"  {limit.text}", f"    fix: {limit.fix}")
        if not self.limits:
            yield "  unknown: no job was submitted"


def _completion_lines(completion: BenchCompletion, made: int) -> Iterator[str]:
    if completion.start:
        read = f"{len(completion.start):,} of {made:,} jobs read"
        yield from ("", f"start: from the submission until a worker claimed the job ({read})")
        yield from completion.start.lines()
    if completion.finish:
        read = f"{len(completion.finish):,} of {made:,} jobs read"
        yield from ("", f"finish: from the submission until the job was settled ({read})")
        yield from completion.finish.lines()
        yield f"  {completion.rate:,.0f} jobs a second were run"
    if completion.left:
        yield from ("", f"not run    {completion.left:,} of {made:,} jobs were not finished when the wait ended")


def _measured_lines(measured: Measurements) -> Iterator[str]:
    rows = [
        ("this program", f"{measured.client_cpu:.0%} of a core"),
        ("the API process", None if measured.server_cpu is None else f"{measured.server_cpu:.0%} of a core"),
        ("this machine", None if measured.host_cpu is None else f"{measured.host_cpu:.0%} of its cores"),
        ("a submission in the store", None if measured.store is None else shown(measured.store)),
        ("a job without load", None if measured.alone is None else shown(measured.alone)),
        ("network round trip", None if measured.round_trip is None else shown(measured.round_trip)),
    ]
    for name, figure in rows:
        if figure is not None:
            yield f"  {name.ljust(25)} {figure}"


def _completion_record(completion: BenchCompletion) -> dict[str, Any]:
    return {
        "start": completion.start.record(),
        "finish": completion.finish.record(),
        "rate": round(completion.rate, 1),
        "left": completion.left,
        "busy_share": _rounded(completion.busy),
    }


def _errors(load: LoadResult) -> str:
    return ", ".join(f"{count:,} by {kind}" for kind, count in load.errors.most_common()) or "none"


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 6)
