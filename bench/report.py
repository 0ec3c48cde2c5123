"""The report of a run: machine, versions and settings, a table for each workload, one over all, and a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from bench.measure import Sample, print_table
from bench.results import Figure, Results, shown
from bench.systems.registry import Candidate
from bench.workloads.protocol import Workload


def spread(sample: Sample) -> str:
    if len(sample.values) == 1:
        return "once"
    return f"{shown(min(sample.values))} - {shown(max(sample.values))}"


def print_ceilings(results: Results) -> None:
    rows = []
    for store in results.ceilings:
        for name, what in (("C1", "single-row commits"), ("C2", "rows in batches of 500")):
            sample = results.ceiling(store, name)
            if sample is not None:
                rows.append((store, f"{name} {what}", shown(sample.median), spread(sample)))
    if rows:
        print_table("The ceilings: the bare driver, one connection", ("store", "what", "per second", "min - max"), rows)


def print_workload(results: Results, workload: Workload) -> None:
    rows = []
    for figure in results.of(workload.name):
        ratios = [ratio(results, figure, name) for name in ("C1", "C2")]
        verdicts = "; ".join(str(verdict) for verdict in results.verdicts(figure))
        value = f"{shown(figure.median)} {figure.unit}"
        rows.append((figure.candidate.name, figure.what, value, spread(figure.sample), *ratios, verdicts))
    if rows:
        print_table(workload.title, ("system", "what", "median", "min - max", "x C1", "x C2", "target"), rows)


def ratio(results: Results, figure: Figure, name: str) -> str:
    ceiling = results.ceiling(figure.candidate.store, name) if figure.unit == "/s" else None
    return "" if ceiling is None else f"{figure.median / ceiling.median:.2f}"


def print_overview(results: Results, contenders: Sequence[Candidate]) -> None:
    """Print every system in one line, with the medians of the main figures."""
    columns = {
        "one by one /s": ("w1", "one by one"),
        "bulk /s": ("w1", "in bulk"),
        "drain /s": ("w2", "drain"),
        "start p50 ms": ("w3", "p50"),
        "p99 ms": ("w3", "p99"),
        "late p50 ms": ("w4", "p50"),
        "p99 ms ": ("w4", "p99"),
        "run again": ("w6", "of these run again"),
        "after s": ("w6", "the last of them after"),
    }
    there = {title: column for title, column in columns.items() if any(key[1:] == column for key in results.figures)}
    if not there:
        return
    rows = []
    for candidate in contenders:
        figures = [results.figures.get((candidate.name, *column)) for column in there.values()]
        rows.append((candidate.name, *("-" if figure is None else shown(figure.median) for figure in figures)))
    print_table("All of them (medians)", ("system", *there), rows)


def print_descriptions(results: Results) -> None:
    rows = [(name, said["version"], said["keeps"], said["loses"]) for name, said in results.described.items()]
    if rows:
        print_table("What they are", ("system", "version", "keeps of a job", "loses"), rows)


def print_failures(results: Results) -> None:
    for failure in results.failures:
        print(f"\nnot measured: {failure}")


def write_json(results: Results, about: str, path: Path) -> None:
    """Write all values to a file, to compare runs."""
    content = {
        "about": about,
        "systems": results.described,
        "ceilings": {
            store: {name: list(sample.values) for name in ("C1", "C2") if (sample := results.ceiling(store, name))}
            for store in results.ceilings
        },
        "figures": [
            {
                "system": figure.candidate.name,
                "workload": figure.workload,
                "what": figure.what,
                "unit": figure.unit,
                "values": figure.values,
                "verdicts": [str(verdict) for verdict in results.verdicts(figure)],
            }
            for figure in results.figures.values()
        ],
        "failures": results.failures,
    }
    path.write_text(json.dumps(content, indent=1) + "\n")
