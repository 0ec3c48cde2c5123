"""The environment shared by all measured systems: servers, processes, recorded start times, sizes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.servers import Servers
from bench.systems.processes import ProcessGroup
from bench.systems.start_times import StartTimes


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
class BenchEnvironment:
    """Everything that lasts for a whole run."""

    folder: Path
    servers: Servers
    process_group: ProcessGroup
    start_times: StartTimes
    sizes: Sizes


@contextmanager
def open_environment(sizes: Sizes, folder: Path | None = None) -> Iterator[BenchEnvironment]:
    """Open an environment, and remove all of it at the end. `folder` should be on a real disk, not in memory."""
    if folder is not None:
        tempfile.tempdir = str(folder)
    with ExitStack() as stack:
        run_folder = Path(tempfile.mkdtemp(prefix="rota-bench-"))
        process_group = ProcessGroup(run_folder)
        stack.callback(process_group.close)
        start_times = StartTimes(run_folder)
        stack.callback(start_times.close)
        servers = Servers()
        stack.callback(servers.close)
        yield BenchEnvironment(run_folder, servers, process_group, start_times, sizes)
