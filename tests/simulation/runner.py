"""Many seeds: run them on several processes, repeat some, and reduce the faults of those that fail.

A seed fails if the checker finds a violation, if the run raised an exception, or if a second run gave another history.
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simulation.faults import ALL_FAULTS, FaultClass
from simulation.mutants import Mutant
from simulation.scenario import Run, run
from simulation.variants import VARIANTS, Variant, variant_of
from simulation.worlds import FIRST_WITH_LIMITS, FIRST_WITH_WORKFLOWS

#: Of so many seeds one is repeated: the history must be identical. The number shares no factor with
#: the number of turns of the variants, so that each variant is repeated in proportion.
REPEAT_EVERY: Final = 49
CORPUS: Final = Path(__file__).parent / "corpus.txt"
#: Stands for the invariant of a run that raised an exception.
BROKEN: Final = "broken"
_CHUNK: Final = 20


#: A seed and the name of its variant.
SeedAndVariant = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one seed with a variant."""

    seed: int
    variant: str
    violated: tuple[str, ...] = ()
    message: str = ""
    virtual_seconds: float = 0.0

    @property
    def is_clean(self) -> bool:
        """Whether nothing was violated."""
        return not self.violated


@contextmanager
def without_pauses() -> Iterator[None]:
    """Collect garbage between chunks only: a run makes much of it and none of it matters."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        gc.collect()


def run_seed(
    seed: int, classes: Collection[FaultClass] = ALL_FAULTS, variant: Variant | None = None, *, repeats: bool = False
) -> Outcome:
    """Run a seed and return its result; with `repeats`, run it twice and compare the histories."""
    variant = variant or variant_of(seed)
    try:
        first = run(seed, classes, variant)
        if repeats and run(seed, classes, variant).digest() != first.digest():
            return Outcome(seed, variant.name, (BROKEN,), "a second run of the same seed had another history")
    except Exception:  # noqa: BLE001 - whatever broke the run is its outcome
        return Outcome(seed, variant.name, (BROKEN,), traceback.format_exc())
    return _outcome(first)


def run_seed_repeatably(seed: int, variant: Variant | None = None) -> Outcome:
    """Run a seed, one of `REPEAT_EVERY` twice. Not for planted bugs, which one run finds."""
    return run_seed(seed, variant=variant, repeats=seed % REPEAT_EVERY == 0)


def _outcome(one: Run) -> Outcome:
    report = one.report
    message = "\n".join(map(str, report.violations[:10]))
    return Outcome(one.world.seed, one.variant.name, tuple(report.violated), message, one.virtual_seconds)


def _run_chunk(parts: Sequence[SeedAndVariant]) -> list[Outcome]:
    with without_pauses():
        return [run_seed_repeatably(seed, VARIANTS[name]) for seed, name in parts]


def run_seeds(parts: Iterable[SeedAndVariant], processes: int) -> Iterator[list[Outcome]]:
    """Run seeds in chunks, on several processes; the chunks come in order."""
    ordered = list(parts)
    chunks = [ordered[start : start + _CHUNK] for start in range(0, len(ordered), _CHUNK)]
    if processes == 1:
        yield from map(_run_chunk, chunks)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(_run_chunk, chunks)


def shrink(seed: int, violated: Collection[str], variant: Variant | None = None) -> tuple[FaultClass, ...]:
    """Leave classes of faults out, one after the other, as long as the seed still fails in one of the same ways."""
    needed = list(ALL_FAULTS)
    for kind in ALL_FAULTS:
        fewer = [one for one in needed if one is not kind]
        if not set(violated).isdisjoint(run_seed(seed, fewer, variant).violated):
            needed = fewer
    return tuple(needed)


def corpus() -> list[SeedAndVariant]:
    """Return the seeds that have failed once, each with its variant; they are run first."""
    return [(int(seed), variant) for seed, variant, *_ in _corpus_lines()]


def planted_bugs_of_corpus() -> list[tuple[SeedAndVariant, str]]:
    """Return those of them whose fault is planted as a bug, with its name."""
    return [((int(seed), variant), name) for seed, variant, *names in _corpus_lines() for name in names]


def _corpus_lines() -> list[list[str]]:
    lines = CORPUS.read_text(encoding="utf-8").splitlines()
    return [words for line in lines if (words := line.split("#")[0].split())]


@dataclass(frozen=True, slots=True)
class Detection:
    """The seed that found a planted bug, and the violated invariants in the order of their violations."""

    mutant: Mutant
    seed: int | None
    violated: tuple[str, ...] = ()


def detect(mutant: Mutant, most: int) -> Detection:
    """Run up to `most` seeds with a bug planted until the intended invariant is the first to be violated.

    Begin with the seed that found it the last time; the seeds before it follow.
    """
    lowest = max(first for first in (0, FIRST_WITH_LIMITS, FIRST_WITH_WORKFLOWS) if first <= mutant.first)
    end = lowest + most
    with mutant.plant(), without_pauses():
        for seed in (*range(mutant.first, end), *range(lowest, min(mutant.first, end))):
            violated = run_seed(seed, variant=mutant.variant).violated
            if violated[:1] == (mutant.invariant,):
                return Detection(mutant, seed, violated)
    return Detection(mutant, None)
