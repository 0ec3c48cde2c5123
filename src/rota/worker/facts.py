"""Facts that a worker reports about its process: CPU time, memory, open files, and on request stacks of threads."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from rota.core.worker_orders import LONGEST_STACKS

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class CpuShare:
    """The CPU time of this process between two readings, in cores."""

    def __init__(self) -> None:
        self._read_at = time.monotonic()
        self._used = time.process_time()

    def read(self) -> float | None:
        """Return the share since the last reading; None if that was only just now."""
        now, used = time.monotonic(), time.process_time()
        span, spent = now - self._read_at, used - self._used
        if span <= 0:
            return None
        self._read_at, self._used = now, used
        return round(spent / span, 3)


def resident_bytes() -> int | None:
    """Return the resident memory of this process; None where the system does not report it."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES
    return None


def open_files() -> int | None:
    """Return how many file descriptors this process has open; None where the system does not report it."""
    with suppress(OSError):
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    return None


def stacks(tasks: Iterable[asyncio.Task[object]] = (), child_pids: Iterable[int] = ()) -> str:
    """Return the stacks of all threads and of some tasks: code only, no values."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [
        f"thread {names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()  # noqa: SLF001 - its documented use
    ]
    for task in tasks:
        # A task of another thread may run or end meanwhile.
        with suppress(RuntimeError):
            frames = "".join("".join(traceback.format_stack(frame, limit=1)) for frame in task.get_stack(limit=20))
            parts.append(f"task {task.get_name()}\n{frames}")
    pids = ", ".join(map(str, child_pids))
    if pids:
        parts.append(f"child processes, whose stacks are not shown: {pids}\n")
    text = "\n".join(parts).encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return text if len(text) <= LONGEST_STACKS else text[: LONGEST_STACKS - 1] + "…"
