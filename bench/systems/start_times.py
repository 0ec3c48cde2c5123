"""Start times of handlers: each writes the time into its slot of a file that every process has mapped.

That costs a fraction of a microsecond, the same for every system. All times are of
CLOCK_MONOTONIC, which the processes of one machine share. Jobs that may run twice write lines into a log instead.
"""

from __future__ import annotations

import mmap
import os
import time
from functools import cache
from pathlib import Path
from typing import Final

#: The most jobs of a run, warm-ups included.
PLACES: Final = 1_200_000
#: What every job carries beside its number, so that a payload has the size of one that does something.
TEXT: Final = "x" * 150
_WIDTH: Final = 8


def make(folder: Path) -> None:
    """Make an empty file of start times, and delete the log."""
    with (folder / "marks").open("wb") as file:
        file.truncate(PLACES * _WIDTH)
    (folder / "log").unlink(missing_ok=True)


@cache
def _view() -> memoryview[float]:
    with (Path(os.environ["BENCH_FOLDER"]) / "marks").open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), 0)).cast("d")


def mark(number: int) -> int:
    """Record that a handler has started."""
    _view()[number] = time.monotonic()
    return 1


@cache
def _log() -> int:
    return os.open(Path(os.environ["BENCH_FOLDER"]) / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def note(what: str, number: int) -> None:
    """Log a start or an end of a job that may run more than once."""
    os.write(_log(), f"{what} {number} {time.monotonic():.6f}\n".encode())


class StartTimes:
    """The start times and the log, as the harness reads them."""

    def __init__(self, folder: Path) -> None:
        make(folder)
        self._log = folder / "log"
        self._file = (folder / "marks").open("r+b")
        self._map = mmap.mmap(self._file.fileno(), 0)

    def times(self, first: int, count: int) -> list[float]:
        """Return the start times of some jobs; 0 for one that has not started."""
        with memoryview(self._map) as whole, whole.cast("d") as view, view[first : first + count] as part:
            return list(part)

    def clear(self) -> None:
        """Clear all times and the log."""
        # A hole instead of zeros: the file stays as small as what is written into it.
        self._file.truncate(0)
        self._file.truncate(PLACES * _WIDTH)
        self._log.unlink(missing_ok=True)

    def notes(self, what: str) -> dict[int, list[float]]:
        """Return when each job wrote a line of this kind."""
        found: dict[int, list[float]] = {}
        for line in self._log.read_text().splitlines() if self._log.exists() else ():
            kind, number, at = line.split()
            if kind == what:
                found.setdefault(int(number), []).append(float(at))
        return found

    def close(self) -> None:
        self._map.close()
        self._file.close()
