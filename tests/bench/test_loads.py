"""The further workloads at their smallest: real processes, and a figure on every line."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.fresh_stores import open_fresh_stores
from bench.loads import WORKLOADS, Sizes
from bench.workloads.results import Line, at_least, at_most
from bench.workloads.w10_held import Stretch, compared

SMALLEST = Sizes(jobs=40, rounds=1, seconds=1, largest=200, schedules=20)


@pytest.mark.parametrize("name", ["w7", "w8", "w9", "w11", "w12", "w13", "w14", "w15", "w16", "w18"])
def test_a_workload_yields_figures_beside_others(tmp_path: Path, name: str) -> None:
    with open_fresh_stores("sqlite", tmp_path) as at:
        lines = asyncio.run(WORKLOADS[name].measured(at, SMALLEST))
    assert len(lines) > 1
    assert any(line.ratio is not None and line.ratio > 0 for line in lines)


def test_claims_are_timed_in_every_condition(tmp_path: Path) -> None:
    with open_fresh_stores("sqlite", tmp_path) as at:
        lines = asyncio.run(WORKLOADS["w10"].measured(at, SMALLEST))
    assert [line.what for line in lines[:5]] == [
        "claim of 1, 200 waiting",
        "claim of 1, 200 waiting, once more",
        "claim of 1, 200 waiting",
        "claim of 1, 200 future, higher priority",
        "claim of 1, 200 completed, kept",
    ]
    assert [line.target is not None for line in lines] == [False, False, True, True, True, True, True] * 2


def test_an_old_transaction_is_held_against_a_twin_without_one() -> None:
    with open_fresh_stores("postgres") as at:
        lines = asyncio.run(WORKLOADS["w10-held"].measured(at, SMALLEST))
    assert [line.what for line in lines] == [
        "0-2 s, nothing held",
        "0-2 s, held",
        "2-4 s, nothing held",
        "2-4 s, held",
        "rate, last / first",
        "claim p99, last / first",
    ]
    assert [line.target for line in lines[-2:]] == [at_least(0.8), at_most(2)]


def test_an_old_transaction_is_blamed_for_what_only_its_side_shows() -> None:
    at_first = Stretch(10, 1_000, (2.0,))
    slow = Stretch(10, 500, (9.0,))
    assert [line.verdict for line in compared([at_first, slow], [at_first, slow])[-2:]] == ["reached", "reached"]
    assert [line.verdict for line in compared([at_first, slow], [at_first, at_first])[-2:]] == ["MISSED", "MISSED"]


def test_a_target_judges_the_ratio_or_what_it_is_told_to() -> None:
    assert Line("", "", ratio=0.7, target=at_least(0.6)).verdict == "reached"
    assert Line("", "", ratio=0.5, target=at_least(0.6)).verdict == "MISSED"
    assert Line("", "", ratio=1.5, target=at_most(1.5)).verdict == "reached"
    assert Line("", "", ratio=0.1, target=at_most(15, "ms"), judged=16).verdict == "MISSED"
    assert Line("", "", ratio=0.1).verdict == ""
