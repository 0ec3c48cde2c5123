"""RQ on Redis, with its default worker: a process for each job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from redis import Redis
from rq import Queue

from bench.systems.peers import handlers
from bench.systems.protocol import Commands, Role, System, processes, python, variable
from bench.systems.start_times import TEXT, mark

STORE = variable("STORE")
HERE = "bench.systems.peers.rq_redis"


def touch(number: int, text: str) -> int:  # noqa: ARG001 - carried for its size
    return mark(number)


def nap(number: int) -> None:
    handlers.nap(number)


class Client(System):
    package = "rq"
    keeps = "the job and its result for 500 seconds"
    loses = "acknowledged jobs since the last snapshot; a killed worker's jobs count as failed"
    can_submit_many = True

    def open(self) -> None:
        self.queue = Queue(connection=Redis.from_url(STORE))

    def close(self) -> None:
        self.queue.connection.close()

    def submit(self, number: int) -> None:
        self.queue.enqueue(f"{HERE}.touch", number, TEXT)

    def submit_many(self, numbers: Sequence[int]) -> None:
        self.queue.enqueue_many([Queue.prepare_data(f"{HERE}.touch", (number, TEXT)) for number in numbers])

    def submit_at(self, number: int, when: float) -> None:
        self.queue.enqueue_at(datetime.fromtimestamp(when, UTC), f"{HERE}.touch", number, TEXT)

    def submit_sleeping(self, number: int) -> None:
        self.queue.enqueue(f"{HERE}.nap", number)

    def finished(self) -> int:
        return int(self.queue.finished_job_registry.get_job_count(cleanup=False))

    def worker_commands(self, role: Role) -> Commands:
        if role == "alone":
            return []
        if role == "crash":
            return [python("-m", "rq.cli", "worker-pool", "default", "-n", "20", "-u", STORE, "-q")]
        keeps_time = ("--with-scheduler",) if role == "idle" else ()
        worker = python("-m", "rq.cli", "worker", "default", "-u", STORE, "-q", *keeps_time)
        return [worker for _ in range(processes())]
