"""The benchmark itself, at its smallest: it runs real processes and yields what its report and its plot need."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench.__main__ import main, options_of
from bench.environment import Sizes, open_environment
from bench.plot import plot
from bench.results import Results
from bench.run import run
from bench.systems.registry import STORES
from bench.workloads.protocol import Reading, at_least, at_most
from bench.workloads.registry import WORKLOADS

SMALLEST = Sizes(jobs=60, singles=3, processes=1)
SQLITE = STORES["sqlite"]


@pytest.fixture(scope="module")
def results() -> Results:
    chosen = [WORKLOADS[name] for name in ("w1", "w2", "w3")]
    with open_environment(SMALLEST) as fresh_stores:
        found = run(fresh_stores, [SQLITE], chosen, repeats=1)
        folder = fresh_stores.folder
    assert not folder.exists(), "what was made for the run is gone with it"
    return found


def test_every_workload_yields_its_figures(results: Results) -> None:
    assert results.failures == []
    assert set(results.figures) == {
        ("sqlite", "w1", "one by one"),
        ("sqlite", "w1", "one by one, beside bare commits in turn"),
        ("sqlite", "w1", "the floor of a loop, beside bare commits in turn"),
        ("sqlite", "w1", "one by one, without a loop"),
        ("sqlite", "w1", "one by one, without a loop, beside bare commits in turn"),
        ("sqlite", "w1", "256 callers"),
        ("sqlite", "w1", "in bulk"),
        ("sqlite", "w2", "drain"),
        ("sqlite", "w2", "memory after"),
        ("sqlite", "w3", "p50"),
        ("sqlite", "w3", "p99"),
        ("sqlite", "w3", "one bare commit, p50"),
        ("sqlite", "w3", "one bare commit, p99"),
        ("sqlite", "w3", "the floor, p50"),
        ("sqlite", "w3", "the floor, p99"),
        ("sqlite", "w3", "p50 in floors"),
        ("sqlite", "w3", "p99 in floors"),
    }
    assert all(len(figure.values) == 1 and figure.median > 0 for figure in results.figures.values())


def test_a_figure_is_held_against_the_ceiling_of_its_store(results: Results) -> None:
    drain = results.figures["sqlite", "w2", "drain"]
    ceiling = results.ceiling("sqlite", "C2")
    assert ceiling is not None
    (verdict,) = results.verdicts(drain)
    assert verdict.value == drain.median / ceiling.median


def test_every_system_says_what_it_is(results: Results) -> None:
    assert results.described["sqlite"]["version"].startswith("rota ")
    assert results.described["sqlite"]["loses"].startswith("nothing")


def test_the_plot_is_well_formed_and_has_a_bar_for_each_figure(results: Results) -> None:
    chosen = [WORKLOADS[name] for name in ("w1", "w2", "w3")]
    tree = ET.fromstring(plot(results, chosen, "a <machine> & its load"))  # noqa: S314 - our own
    space = "{http://www.w3.org/2000/svg}"
    assert tree.tag == f"{space}svg"
    words = [element.text for element in tree.iter(f"{space}text")]
    assert "a <machine> & its load" in words
    assert words.count("sqlite") == len(results.figures)


def verdict_of(reading: Reading, others: dict[str, float]) -> list[bool | None]:
    """Return how a figure of SQLite stands to its targets when other systems reached this."""
    results = Results()
    results.add(SQLITE, "w2", reading)
    for name, value in others.items():
        results.add(STORES[name], "w2", Reading(reading.what, value, reading.unit))
    return [verdict.is_reached for verdict in results.verdicts(results.figures["sqlite", "w2", reading.what])]


def test_a_target_is_reached_missed_or_not_run() -> None:
    targets = (at_least(2, "postgres"), at_least(2.1, "postgres"), at_least(1, "mysql"), at_most(200), at_most(199))
    drained = Reading("drain", 200, "/s", targets)
    assert verdict_of(drained, {"postgres": 100}) == [True, False, None, True, False]


def test_an_unknown_name_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options_of(["--peers", "nobody"])
    assert "unknown: nobody; there are celery, dramatiq" in capsys.readouterr().err


def test_a_run_without_systems_writes_its_files_all_the_same(tmp_path: Path) -> None:
    main(["--stores", "", "--results", str(tmp_path)])
    assert {path.name for path in tmp_path.iterdir()} == {"latest.json", "latest.svg"}
