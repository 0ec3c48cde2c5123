"""`rota stats`: throughput and percentiles from the history of counts."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.cli.commands.arguments import api_client_of, printer_of
from rota.cli.exits import Exit
from rota.cli.output import Column, column

COUNTERS: Final = ("submitted", "started", "succeeded", "failed", "dead", "lost")
_SHARES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


def show(options: argparse.Namespace) -> int:
    """Show counts and percentiles of a span, in total or by queue or type."""
    history = api_client_of(options).get("/v1/stats/history", since=options.since, by=options.by)
    printer = printer_of(options)
    if options.by is not None:
        columns: tuple[Column, ...] = (
            column(options.by),
            *map(column, COUNTERS),
            column("wait_p95"),
            column("run_p95"),
        )
        printer.records(_by_key(history), columns, empty="no jobs in this time", identity=options.by)
    elif printer.form != "table":
        printer.record({"since": history["since"], **history["total"], "percentiles": history["percentiles"]})
    else:
        printer.record(_summary(history, options.since))
    return Exit.OK


def _summary(history: Mapping[str, Any], since: str) -> dict[str, Any]:
    total = history["total"]
    ended = total["succeeded"] + total["failed"]
    shown: dict[str, Any] = {"since": since, **{name: total[name] for name in COUNTERS}}
    shown["failed_share"] = f"{total['failed'] / ended:.1%}" if ended else "no attempt ended"
    for name, values in history["percentiles"].items():
        shown[name] = ", ".join(f"{share} {_span(values[share])}" for share, _ in _SHARES)
    return shown


def _by_key(history: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Sum the buckets of each queue or type."""
    sums: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(COUNTERS, 0))
    waits: dict[str, list[int]] = {}
    runs: dict[str, list[int]] = {}
    for bucket in history["buckets"]:
        key = bucket["key"]
        for name in COUNTERS:
            sums[key][name] += bucket[name]
        for measure, histograms in (("wait", waits), ("duration", runs)):
            before = histograms.get(key, [0] * len(bucket[measure]))
            histograms[key] = [one + more for one, more in zip(before, bucket[measure], strict=True)]
    bounds = history["bounds"]
    return [
        {
            "id": key,
            history["by"]: key,
            **sums[key],
            "wait_p95": _span(_percentile(waits[key], bounds)),
            "run_p95": _span(_percentile(runs[key], bounds)),
        }
        for key in sorted(sums)
    ]


def _percentile(counts: Sequence[int], bounds: Sequence[float], share: float = 0.95) -> float | None:
    left = sum(counts) * share
    for index, count in enumerate(counts):
        left -= count
        if count and left <= 0:
            return bounds[min(index, len(bounds) - 1)]
    return None


def _span(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"≤ {seconds:g} s" if seconds >= 1 else f"≤ {seconds * 1000:g} ms"
