"""Worlds without limits, with limits and with workflows, none of which may break a promise; and planted bugs."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from simulation.checker import INVARIANTS
from simulation.faults import ALL_FAULTS, FaultClass
from simulation.mutants import MUTANTS, Mutant
from simulation.runner import (
    BROKEN,
    REPEAT_EVERY,
    Outcome,
    SeedAndVariant,
    corpus,
    detect,
    planted_bugs_of_corpus,
    run_seed,
    run_seed_repeatably,
    shrink,
    without_pauses,
)
from simulation.scenario import Run, run
from simulation.variants import VARIANTS, variant_of
from simulation.worlds import FIRST_WITH_LIMITS, FIRST_WITH_WORKFLOWS, draw

SEEDS = int(os.environ.get("ROTA_SIMULATION_SEEDS", "2000"))
#: Worlds with limits have all that the others have as well, so fewer are drawn without.
SEEDS_WITHOUT_LIMITS = SEEDS // 4
SEEDS_WITH_WORKFLOWS = SEEDS // 5
#: Small enough that no test process waits long for another at the end.
CHUNK = 10
MOST_SEEDS_PER_MUTANT = 2000
TESTS = Path(__file__).parent.parent


@pytest.mark.parametrize("start", range(0, SEEDS_WITHOUT_LIMITS, CHUNK))
def test_no_world_violates_an_invariant(start: int) -> None:
    with without_pauses():
        outcomes = [run_seed_repeatably(seed) for seed in range(start, min(start + CHUNK, SEEDS_WITHOUT_LIMITS))]
    failed = [outcome for outcome in outcomes if not outcome.is_clean]
    assert not failed, _told(failed)


@pytest.mark.parametrize("start", range(FIRST_WITH_LIMITS, FIRST_WITH_LIMITS + SEEDS, CHUNK))
def test_no_world_with_limits_violates_an_invariant(start: int) -> None:
    with without_pauses():
        outcomes = [run_seed_repeatably(seed) for seed in range(start, min(start + CHUNK, FIRST_WITH_LIMITS + SEEDS))]
    failed = [outcome for outcome in outcomes if not outcome.is_clean]
    assert not failed, _told(failed)


@pytest.mark.parametrize("start", range(FIRST_WITH_WORKFLOWS, FIRST_WITH_WORKFLOWS + SEEDS_WITH_WORKFLOWS, CHUNK))
def test_no_world_with_workflows_violates_an_invariant(start: int) -> None:
    end = min(start + CHUNK, FIRST_WITH_WORKFLOWS + SEEDS_WITH_WORKFLOWS)
    with without_pauses():
        outcomes = [run_seed_repeatably(seed) for seed in range(start, end)]
    failed = [outcome for outcome in outcomes if not outcome.is_clean]
    assert not failed, _told(failed)


def test_what_failed_once_does_not_fail_again() -> None:
    outcomes = [run_seed_repeatably(seed, VARIANTS[name]) for seed, name in corpus()]
    failed = [outcome for outcome in outcomes if not outcome.is_clean]
    assert not failed, _told(failed)


@pytest.mark.parametrize(("part", "name"), planted_bugs_of_corpus(), ids=str)
def test_a_seed_that_failed_once_still_finds_what_it_failed_for(part: SeedAndVariant, name: str) -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    with mutant.plant():
        assert mutant.invariant in run_seed(part[0], variant=VARIANTS[part[1]]).violated


def _told(failed: list[Outcome]) -> str:
    return "\n".join(f"make sim SEED={one.seed} VARIANT={one.variant}: {one.message}" for one in failed)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_found_by_the_invariant_that_is_meant_for_it(mutant: Mutant) -> None:
    kill = detect(mutant, MOST_SEEDS_PER_MUTANT)
    assert kill.seed is not None, f"{mutant.name} survived {MOST_SEEDS_PER_MUTANT} seeds"


def test_every_invariant_has_a_planted_bug() -> None:
    assert {mutant.invariant for mutant in MUTANTS} == set(INVARIANTS)


def test_the_same_seed_has_the_same_history() -> None:
    assert [run(seed).digest() for seed in (3, 4)] == [run(seed).digest() for seed in (3, 4)]


def test_the_history_depends_on_no_hash_seed() -> None:
    seeds = ["1", "7", "22", "40"]

    def digests(hash_seed: str) -> str:
        topology = os.environ | {"PYTHONPATH": str(TESTS), "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-m", "simulation", "--digests", *seeds]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=topology)
        return done.stdout

    here = "".join(f"{seed} {run(int(seed)).digest()}\n" for seed in seeds)
    assert digests("1") == digests("4242") == here


def test_a_class_of_faults_can_be_left_out_without_moving_the_others() -> None:
    for seed in range(40):
        everything = draw(seed).faults
        for kind in (FaultClass.CRASH, FaultClass.DELAY):
            fewer = draw(seed, [one for one in ALL_FAULTS if one is not kind]).faults
            assert list(fewer) == [fault for fault in everything if fault.kind is not kind]


def test_a_failure_is_shrunk_to_the_faults_it_needs() -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name == "leases_not_renewed")
    kill = detect(mutant, MOST_SEEDS_PER_MUTANT)
    assert kill.seed is not None
    with mutant.plant():
        assert shrink(kill.seed, kill.violated, mutant.variant) == ()


def test_a_run_that_breaks_down_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulation.scenario.dump", None)
    assert run_seed(1).violated == (BROKEN,)


def test_a_run_that_does_not_repeat_itself_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = count()
    monkeypatch.setattr(Run, "digest", lambda _: str(next(digests)))
    assert run_seed(1).is_clean
    assert run_seed(1, repeats=True).violated == (BROKEN,)


def test_every_variant_is_repeated() -> None:
    assert {variant_of(seed) for seed in range(0, 2000, REPEAT_EVERY)} == set(VARIANTS.values())
