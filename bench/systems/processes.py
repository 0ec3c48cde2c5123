"""Processes of the systems: started in sessions of their own, measured through /proc, always killed at the end.

Nothing may outlive a measurement, however it ends: a shell waits for the end of the harness and kills what is left.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from servers.private_server import clean_up_at_exit

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_STOP_SECONDS: Final = 5.0


@dataclass(slots=True)
class ProcessGroup:
    """Starts processes, and sees to it that none is left behind."""

    folder: Path
    _alive: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _keeper: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self._write()
        # dash supports this form of kill only.
        end = 'for group in $(cat "$0/groups"); do kill -s KILL -- "-$group"; done'
        self._keeper = clean_up_at_exit(self.folder, end)

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], *, log: Path, pipes: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start a process; with pipes to its standard input and output."""
        pipe = subprocess.PIPE if pipes else subprocess.DEVNULL
        with log.open("ab") as file:
            out: int | IO[bytes] = subprocess.PIPE if pipes else file
            process = subprocess.Popen(
                command, stdin=pipe, stdout=out, stderr=file, cwd=self.folder, env=environment, start_new_session=True
            )
        self._alive.append(process)
        self._write()
        return process

    def end(self, processes: Iterable[subprocess.Popen[bytes]], *, politely: bool = True) -> None:
        """End processes and all they have started."""
        ending = list(processes)
        for process in ending if politely else ():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        give_up_at = time.monotonic() + _STOP_SECONDS
        while politely and time.monotonic() < give_up_at and any(process.poll() is None for process in ending):
            time.sleep(0.02)
        # Found while their parents run: an orphan has no known parent.
        left = [pid for process in ending for pid in family(process.pid)]
        for pid in (*left, *(-process.pid for process in ending)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(-pid, signal.SIGKILL) if pid < 0 else os.kill(pid, signal.SIGKILL)
        for process in ending:
            process.wait()
            self._alive.remove(process)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        self._write()

    def close(self) -> None:
        """End what is left, and delete the folder."""
        self.end(list(self._alive), politely=False)
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        self._keeper.wait()

    def _write(self) -> None:
        # At once or not at all: the shell may read it at any moment.
        fresh = self.folder / "groups.new"
        fresh.write_text("\n".join(str(process.pid) for process in self._alive))
        fresh.rename(self.folder / "groups")


def family(pid: int) -> Iterator[int]:
    """Return a process and all that descend from it."""
    yield pid
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        children = [child for thread in threads for child in (thread / "children").read_text().split()]
    except OSError:
        return  # it has ended
    for child in children:
        yield from family(int(child))


def families(processes: Iterable[subprocess.Popen[bytes]]) -> list[int]:
    """Return processes and all that descend from them."""
    return [pid for process in processes for pid in family(process.pid)]


@dataclass(frozen=True, slots=True)
class Memory:
    """What processes hold: their share of it (PSS), and as each seems to hold it (RSS), in MB."""

    proportional: float
    resident: float
    processes: int


def memory_of(pids: Iterable[int]) -> Memory:
    sums = {"Pss:": 0, "Rss:": 0}
    count = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            count += 1
            for line in lines:
                name, *rest = line.split()
                if name in sums:
                    sums[name] += int(rest[0])
    return Memory(sums["Pss:"] * 1024 / 1e6, sums["Rss:"] * 1024 / 1e6, count)


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the CPU time that processes have used, children that have ended included."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(int(value) for value in fields[11:15])
    return ticks / _TICKS


def exact_cpu_seconds(pids: Iterable[int]) -> float:
    """Return the CPU time of the living threads of processes, to the nanosecond."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                total += int((thread / "schedstat").read_text().split()[0])
    return total / 1e9
