"""Results of a run: figures by system and workload, the ceilings beside them, and whether targets are reached."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.ceilings.measure import Ceiling
from bench.measure import Sample
from bench.systems.registry import Candidate, Store
from bench.workloads.protocol import Reading, Target, Unit

Key = tuple[str, str, str]


@dataclass(slots=True)
class Figure:
    """One thing that was measured on one system, as often as it was."""

    candidate: Candidate
    workload: str
    what: str
    unit: Unit
    targets: tuple[Target, ...]
    values: list[float] = field(default_factory=list)

    @property
    def sample(self) -> Sample:
        return Sample(tuple(self.values))

    @property
    def median(self) -> float:
        return self.sample.median


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a figure stands to one of its targets."""

    target: Target
    #: None if what it is held against was not measured in this run.
    value: float | None

    @property
    def is_reached(self) -> bool | None:
        if self.value is None:
            return None
        return self.value <= self.target.bound if self.target.is_most else self.value >= self.target.bound

    def __str__(self) -> str:
        words = {True: "reached", False: "MISSED", None: "not run"}[self.is_reached]
        return f"{self.target}: {words}" if self.value is None else f"{self.target}: {words} ({shown(self.value)})"


@dataclass(slots=True)
class Results:
    """Everything that one run has found."""

    figures: dict[Key, Figure] = field(default_factory=dict)
    ceilings: dict[Store, list[Ceiling]] = field(default_factory=dict)
    #: What each system says of itself.
    described: dict[str, dict[str, str]] = field(default_factory=dict)
    #: What could not be measured, and why.
    failures: list[str] = field(default_factory=list)

    def add(self, candidate: Candidate, workload: str, reading: Reading) -> None:
        key = (candidate.name, workload, reading.what)
        if key not in self.figures:
            self.figures[key] = Figure(candidate, workload, reading.what, reading.unit, reading.targets)
        self.figures[key].values.append(reading.value)

    def of(self, workload: str) -> list[Figure]:
        return [figure for figure in self.figures.values() if figure.workload == workload]

    def ceiling(self, store: Store, name: str) -> Sample | None:
        """Return the ceiling of a store, by its short name."""
        found = self.ceilings.get(store, [])
        if not found:
            return None
        return Sample(tuple(one.single_commits if name == "C1" else one.batched_rows for one in found))

    def verdicts(self, figure: Figure) -> list[Verdict]:
        return [Verdict(target, self._against(figure, target)) for target in figure.targets]

    def _against(self, figure: Figure, target: Target) -> float | None:
        if not target.of:
            return figure.median
        if target.of in {"C1", "C2"}:
            ceiling = self.ceiling(figure.candidate.store, target.of)
            return None if ceiling is None else figure.median / ceiling.median
        other = self.figures.get((target.of, figure.workload, figure.what))
        return None if other is None else figure.median / other.median


def shown(value: float) -> str:
    """Write a figure with as many digits as it deserves."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    # A ratio just below its target must not look as if it had reached it.
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"
