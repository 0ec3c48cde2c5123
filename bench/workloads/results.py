"""Results of a workload: figures with their baseline of the same run, and their target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench.measure import Sample, percentile, print_table


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a figure: a lower or an upper bound."""

    bound: float
    is_ceiling: bool = False
    unit: str = "x"

    def __str__(self) -> str:
        return f"{'<=' if self.is_ceiling else '>='} {self.bound:g} {self.unit}"

    def is_reached_by(self, value: float) -> bool:
        return value <= self.bound if self.is_ceiling else value >= self.bound


def at_least(bound: float, unit: str = "x") -> Target:
    return Target(bound, unit=unit)


def at_most(bound: float, unit: str = "x") -> Target:
    return Target(bound, is_ceiling=True, unit=unit)


@dataclass(frozen=True, slots=True)
class Line:
    """One figure. `ratio` compares it with `beside`; the target applies to `judged`, or else to the ratio."""

    what: str
    figure: str
    beside: str = ""
    ratio: float | None = None
    target: Target | None = None
    judged: float | None = None

    @property
    def verdict(self) -> str:
        value = self.ratio if self.judged is None else self.judged
        if self.target is None or value is None:
            return ""
        return "reached" if self.target.is_reached_by(value) else "MISSED"


def show(title: str, lines: Iterable[Line]) -> None:
    print_table(
        title,
        ("what", "figure", "beside", "ratio", "target", ""),
        [
            (
                line.what,
                line.figure,
                line.beside,
                "" if line.ratio is None else f"{line.ratio:.2f}",
                "" if line.target is None else str(line.target),
                line.verdict,
            )
            for line in lines
        ],
    )


def spread(milliseconds: Iterable[float]) -> str:
    """Show the middle and the slow end of some times."""
    listed = list(milliseconds)
    return f"p50 {percentile(listed, 0.5):.2f} / p99 {percentile(listed, 0.99):.2f} ms"


def rate(sample: Sample) -> str:
    """Show repeated rates."""
    return f"{sample.median:,.0f} jobs/s ({sample.spread})"
