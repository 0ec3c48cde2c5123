"""What Huey's two stores have in common. Each of its modules has a `huey`, by which a consumer finds the tasks."""

from __future__ import annotations

import time
from typing import Any

from bench.systems.protocol import Commands, Role, System, processes, python
from bench.systems.start_times import TEXT


class HueyClient(System):
    package = "huey"
    keeps = "the result until it is read"

    #: The module in which `huey` and its tasks are.
    module: Any

    def submit(self, number: int) -> None:
        self.module.touch(number, TEXT)

    def submit_at(self, number: int, when: float) -> None:
        self.module.touch.schedule((number, TEXT), delay=when - time.time())

    def submit_sleeping(self, number: int) -> None:
        self.module.nap(number)

    def finished(self) -> int:
        return int(self.module.huey.result_count())

    def worker_commands(self, role: Role) -> Commands:
        if role == "alone":
            return []
        size = ("-w", "20", "-k", "thread") if role == "crash" else ("-w", str(processes()), "-k", "process")
        return [python("-m", "huey.bin.huey_consumer", f"{self.module.__name__}.huey", "-q", *size)]
