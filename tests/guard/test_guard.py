"""Costs of the hot paths have not grown: counted exactly, not timed, and compared with a committed table."""

from __future__ import annotations

from pathlib import Path

import pytest

from guard.paths import PYTHON_PATHS, STORES, python_figures, store_figures
from guard.table import MARGIN, RENEW, complaints, expected, gone, python_version, write
from guard.table import STORES as STORES_PART


@pytest.mark.parametrize("name", STORES)
async def test_a_store_is_asked_for_no_more_than_before(name: str) -> None:
    table = expected(STORES_PART) or {}
    seen = await store_figures(name)
    lines = complaints(table, seen)
    assert not lines, "\n".join([*lines, RENEW])
    assert not gone(table, seen, f"{name}: "), RENEW


@pytest.mark.parametrize("name", PYTHON_PATHS)
async def test_python_does_no_more_than_before(name: str) -> None:
    table = expected(python_version())
    if table is None:
        pytest.skip(f"the table has no figures for {python_version()} yet; `make guard` adds them")
    seen = await python_figures(name)
    lines = complaints(table, seen)
    assert not lines, "\n".join([*lines, RENEW])
    assert not gone(table, seen, f"{name}: "), RENEW


def test_growth_within_the_margin_passes_and_beyond_it_is_told() -> None:
    table = {"sqlite: claim of 50: steps": 1_000, "sqlite: claim of 50: statements": 3}
    assert complaints(table, {"sqlite: claim of 50: steps": int(1_000 * (1 + MARGIN))}) == []
    assert complaints(table, {"sqlite: claim of 50: steps": 1_600, "sqlite: claim of 50: statements": 4}) == [
        "sqlite: claim of 50: steps grew from 1,000 to 1,600 (+60%; up to 25% pass)",
        "sqlite: claim of 50: statements grew from 3 to 4 (+33%; up to 25% pass)",
    ]


def test_a_figure_that_the_table_lacks_is_told_and_so_is_one_that_nobody_measures() -> None:
    assert complaints({}, {"http: submit: instructions": 7}) == [
        "http: submit: instructions: 7 seen, and the table has no figure for it"
    ]
    assert gone({"http: a": 1, "http: b": 1, "cron: c": 1}, {"http: a": 9}, "http: ") == ["http: b"]


def test_a_part_of_the_table_is_renewed_and_the_others_stay(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    write("stores", {"a": 1}, file)
    write("python 3.99", {"b": 2}, file)
    write("stores", {"c": 3}, file)
    assert (expected("stores", file), expected("python 3.99", file)) == ({"c": 3}, {"b": 2})
