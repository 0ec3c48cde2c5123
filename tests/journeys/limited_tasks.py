"""A task that logs when its jobs start and end, to a file outside the store."""

from __future__ import annotations

import os
import time

from rota import Rota

app = Rota()
_LOG = os.environ.get("LIMITED_TASKS_LOG", "")


def _note(event: str, key: str) -> None:
    """Append one line; lines this short are written at once, whatever other processes write."""
    place = os.open(_LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(place, f"{event} {time.monotonic_ns()} {os.getpid()} {key}\n".encode())
    os.close(place)


@app.task(queue="limited", retry=50)
def work(key: str, seconds: float) -> None:
    _note("start", key)
    time.sleep(seconds)
    _note("end", key)
