"""Disk latency during a measurement: how long a bare sync takes meanwhile.

Whoever waits for commits that are some way apart waits for the disk, and on a machine with neighbours that differs by
ten times from one minute to the next. Syncs one after the other would not do: a disk that is kept busy answers sooner.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.measure import percentile
from bench.workloads.protocol import Reading

_GAP_SECONDS: Final = 0.05
_BLOCK: Final = b"x" * 8192
_BLOCKS: Final = 64


@contextmanager
def disk_beside(folder: Path) -> Iterator[list[float]]:
    """Sync a block of a file again and again, as long as it lasts; gives the milliseconds that each took."""
    took: list[float] = []
    is_over = threading.Event()

    def sync(file: int) -> None:
        while True:
            is_last = is_over.wait(_GAP_SECONDS)
            os.pwrite(file, _BLOCK, len(took) % _BLOCKS * len(_BLOCK))
            begun = time.perf_counter()
            os.fdatasync(file)
            took.append((time.perf_counter() - begun) * 1000)
            if is_last:
                return

    with (folder / "beside").open("wb", buffering=0) as file:
        # Laid out before: what is measured is a sync of data, not of a file's length.
        file.write(_BLOCK * _BLOCKS)
        os.fsync(file.fileno())
        thread = threading.Thread(target=sync, args=(file.fileno(),), name="disk-beside")
        thread.start()
        try:
            yield took
        finally:
            is_over.set()
            thread.join()


def beside(delays: list[float], syncs: list[float]) -> Iterator[Reading]:
    """Return how long syncs took meanwhile, and how many of them the median delay would have been."""
    for what, share in (("p50", 0.5), ("p99", 0.99)):
        yield Reading(f"a bare sync meanwhile, {what}", percentile(syncs, share), "ms")
    yield Reading("p50 in such syncs", percentile(delays, 0.5) / percentile(syncs, 0.5), "x")
