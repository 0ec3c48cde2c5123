"""The ground that all systems are measured on: the same servers, the same marks, the same sizes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.servers import Servers
from bench.systems.marks import Marks
from bench.systems.processes import Nursery


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    #: Jobs that are submitted and drained.
    jobs: int = 10_000
    #: Single jobs that come to idle workers, and jobs that are due at a time.
    singles: int = 200
    #: Worker processes.
    processes: int = 2
    #: How long idle processes are watched, and how long a killed worker's jobs are waited for.
    idle_seconds: float = 20.0
    crash_seconds: float = 90.0
    #: How long idle processes are left alone before that.
    settling_seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class Ground:
    """What is there for the whole run."""

    folder: Path
    servers: Servers
    nursery: Nursery
    marks: Marks
    sizes: Sizes


@contextmanager
def ground(sizes: Sizes, folder: Path | None = None) -> Iterator[Ground]:
    """Give a ground, and leave nothing of it behind. `folder` should be on a real disk, not in memory."""
    if folder is not None:
        tempfile.tempdir = str(folder)
    with ExitStack() as stack:
        place = Path(tempfile.mkdtemp(prefix="rota-bench-"))
        nursery = Nursery(place)
        stack.callback(nursery.close)
        marks = Marks(place)
        stack.callback(marks.close)
        servers = Servers()
        stack.callback(servers.close)
        yield Ground(place, servers, nursery, marks, sizes)
