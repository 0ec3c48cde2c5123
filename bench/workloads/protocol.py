"""The interface of workloads, and the figures that they yield."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from bench.environment import BenchEnvironment
from bench.systems.registry import Candidate

Unit = Literal["/s", "ms", "s", "MB", "%", "jobs", "queries/s", "x"]


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure must reach: as it is, or as a ratio to something that was measured in the same run."""

    bound: float
    #: C1 or C2, the ceilings of the same store; or another system, for the same figure; or nothing.
    of: str = ""
    is_most: bool = False

    def __str__(self) -> str:
        sign = "<=" if self.is_most else ">="
        return f"{sign} {self.bound:g} x {self.of}" if self.of else f"{sign} {self.bound:g}"


def at_least(bound: float, of: str = "") -> Target:
    return Target(bound, of)


def at_most(bound: float, of: str = "") -> Target:
    return Target(bound, of, is_most=True)


@dataclass(frozen=True, slots=True)
class Reading:
    """One figure of one measurement."""

    what: str
    value: float
    unit: Unit
    targets: tuple[Target, ...] = ()


class Workload(Protocol):
    """A workload to run and measure on a system."""

    #: As `WORKLOADS=` takes it.
    name: str
    title: str
    #: Whether it is repeated and the median taken; what yields percentiles of many is done once.
    is_repeated: bool

    def suits(self, candidate: Candidate) -> bool:
        """Return whether a system can run this workload."""
        ...

    def measure(self, candidate: Candidate, env: BenchEnvironment) -> Iterable[Reading]:
        """Measure a system once, on a fresh database."""
        ...
