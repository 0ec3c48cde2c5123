"""What every benchmark here shares: the machine, medians and spreads, and a table.

A figure is a ratio to a ceiling that was measured in the same run; an absolute figure says more about the machine and
its neighbours than about us.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Sample:
    """Repeated measurements of one thing."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> str:
        return f"{min(self.values):,.0f}-{max(self.values):,.0f}"


def percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def describe_machine(store: str = f"SQLite {sqlite3.sqlite_version} (WAL, synchronous=FULL)") -> str:
    load = os.getloadavg()[0]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}"
    return f"{machine}, {store}" if store else machine


def print_table(title: str, header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    print(f"\n{title}")
    for number, line in enumerate(lines):
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        if number == 0:
            print("  " + "  ".join("-" * width for width in widths))


#: How many commits one after the other are a turn: few enough for the disk, which changes by the second, and enough so
#: that a turn is not mostly its beginning, when all is cold for whoever has paused, and others are told anew of work.
TURN: Final = 1_000


async def by_turns(rounds: int, each: int, *ways: Callable[[int], Awaitable[float]]) -> list[float]:
    """Do some things `each` times, one after the other and again for so many rounds, and give the rate of each of them.

    The disk changes by the second: all of one and then all of another says more about it than about them.
    """
    seconds = [0.0] * len(ways)
    for _ in range(rounds):
        for fresh_stores, way in enumerate(ways):
            seconds[fresh_stores] += each / await way(each)
    return [each * rounds / spent for spent in seconds]
