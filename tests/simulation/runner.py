"""Many seeds: run them on several processes, look twice at some, and shrink what fails.

A seed fails if its verdict is not clean, if the run itself broke down, or if running it again gave another history.
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

from simulation.casts import CASTS, Cast, cast_of
from simulation.faults import ALL_FAULTS, FaultClass
from simulation.mutants import Mutant
from simulation.scenario import Run, run
from simulation.worlds import FIRST_WITH_LIMITS, FIRST_WITH_WORKFLOWS

#: Of so many seeds one is repeated: the history must be the same to the last bit. The number shares no factor with that
#: of the casts' turns, so that each cast is repeated as often as it plays.
REPEAT_EVERY: Final = 49
CORPUS: Final = Path(__file__).parent / "corpus.txt"
#: A broken run has no verdict; this stands for it.
BROKEN: Final = "broken"
_CHUNK: Final = 20


#: A seed, and the name of the cast that plays it.
Part = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one seed, played by a cast."""

    seed: int
    cast: str
    violated: tuple[str, ...] = ()
    message: str = ""
    virtual_seconds: float = 0.0

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing to complain of."""
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


def examine(
    seed: int, classes: Collection[FaultClass] = ALL_FAULTS, cast: Cast | None = None, *, repeats: bool = False
) -> Outcome:
    """Run a seed and say what came of it; once more, if wanted, to see that the same comes of it."""
    players = cast or cast_of(seed)
    try:
        first = run(seed, classes, players)
        if repeats and run(seed, classes, players).digest() != first.digest():
            return Outcome(seed, players.name, (BROKEN,), "a second run of the same seed had another history")
    except Exception:  # noqa: BLE001 - whatever broke the run is its outcome
        return Outcome(seed, players.name, (BROKEN,), traceback.format_exc())
    return _outcome(first)


def examine_soundly(seed: int, cast: Cast | None = None) -> Outcome:
    """Examine a seed, every so many of them twice. Not for hunts: what they look for is found by one run."""
    return examine(seed, cast=cast, repeats=seed % REPEAT_EVERY == 0)


def _outcome(one: Run) -> Outcome:
    verdict = one.verdict
    message = "\n".join(map(str, verdict.findings[:10]))
    return Outcome(one.world.seed, one.cast.name, tuple(verdict.violated), message, one.virtual_seconds)


def _examine_chunk(parts: Sequence[Part]) -> list[Outcome]:
    with without_pauses():
        return [examine_soundly(seed, CASTS[name]) for seed, name in parts]


def examine_all(parts: Iterable[Part], processes: int) -> Iterator[list[Outcome]]:
    """Examine seeds in chunks, on several processes; the chunks come in order."""
    ordered = list(parts)
    chunks = [ordered[start : start + _CHUNK] for start in range(0, len(ordered), _CHUNK)]
    if processes == 1:
        yield from map(_examine_chunk, chunks)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(_examine_chunk, chunks)


def shrink(seed: int, violated: Collection[str], cast: Cast | None = None) -> tuple[FaultClass, ...]:
    """Leave classes of faults out, one after the other, as long as the seed still fails in one of the same ways."""
    needed = list(ALL_FAULTS)
    for kind in ALL_FAULTS:
        fewer = [one for one in needed if one is not kind]
        if not set(violated).isdisjoint(examine(seed, fewer, cast).violated):
            needed = fewer
    return tuple(needed)


def corpus() -> list[Part]:
    """Give the seeds that have failed once, each with its cast; they are always run, and first."""
    return [(int(seed), cast) for seed, cast, *_ in _stories()]


def stand_ins() -> list[tuple[Part, str]]:
    """Give those of them for whose failure a planted bug stands, with its name."""
    return [((int(seed), cast), name) for seed, cast, *names in _stories() for name in names]


def _stories() -> list[list[str]]:
    lines = CORPUS.read_text(encoding="utf-8").splitlines()
    return [words for line in lines if (words := line.split("#")[0].split())]


@dataclass(frozen=True, slots=True)
class Kill:
    """Which seed uncovered a planted bug, and which invariants noticed; the first to notice comes first."""

    mutant: Mutant
    seed: int | None
    violated: tuple[str, ...] = ()


def hunt(mutant: Mutant, most: int) -> Kill:
    """Run up to `most` seeds with a bug planted until the invariant that is meant for it is the first to notice.

    Begin where it was found the last time, to spare the seeds before; but all of them count.
    """
    lowest = max(first for first in (0, FIRST_WITH_LIMITS, FIRST_WITH_WORKFLOWS) if first <= mutant.first)
    end = lowest + most
    with mutant.plant(), without_pauses():
        for seed in (*range(mutant.first, end), *range(lowest, min(mutant.first, end))):
            violated = examine(seed, cast=mutant.cast).violated
            if violated[:1] == (mutant.invariant,):
                return Kill(mutant, seed, violated)
    return Kill(mutant, None)
