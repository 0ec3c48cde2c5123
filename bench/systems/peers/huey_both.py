"""What Huey's two stores have in common. Each of its modules has a `huey`, by which a consumer finds the tasks."""

from __future__ import annotations

import time
from typing import Any

from bench.systems.marks import TEXT, mark
from bench.systems.peers import handlers
from bench.systems.protocol import Commands, Role, System, processes, python


class HueyClient(System):
    package = "huey"
    keeps = "the result until it is read"

    def __init__(self, huey: Any, module: str) -> None:  # noqa: ANN401 - Huey has no types here
        self._huey = huey
        self._module = module
        self._touch = huey.task(name="touch")(touch)
        self._nap = huey.task(name="nap")(handlers.nap)

    def submit(self, number: int) -> None:
        self._touch(number, TEXT)

    def submit_at(self, number: int, when: float) -> None:
        self._touch.schedule((number, TEXT), delay=when - time.time())

    def submit_sleeping(self, number: int) -> None:
        self._nap(number)

    def finished(self) -> int:
        return int(self._huey.result_count())

    def worker_commands(self, role: Role) -> Commands:
        if role == "alone":
            return []
        size = ("-w", "20", "-k", "thread") if role == "crash" else ("-w", str(processes()), "-k", "process")
        return [python("-m", "huey.bin.huey_consumer", f"{self._module}.huey", "-q", *size)]


def touch(number: int, text: str) -> int:  # noqa: ARG001 - carried for its size
    return mark(number)
