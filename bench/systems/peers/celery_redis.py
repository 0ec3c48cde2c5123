"""Celery on Redis, with results on Redis, in its default pool of processes."""

from __future__ import annotations

from datetime import UTC, datetime

import celery
from redis import Redis

from bench.systems.peers import handlers
from bench.systems.protocol import Commands, Role, System, processes, python, variable
from bench.systems.start_times import TEXT, mark

STORE = variable("STORE")
app = celery.Celery("bench", broker=STORE, backend=STORE)
app.conf.update(broker_connection_retry_on_startup=True, worker_hijack_root_logger=False)


@app.task(name="touch")
def touch(number: int, text: str) -> int:  # noqa: ARG001 - carried for its size
    return mark(number)


@app.task(name="nap")
def nap(number: int) -> None:
    handlers.nap(number)


class Client(System):
    package = "celery"
    keeps = "the result for a day"
    loses = "acknowledged jobs since the last snapshot; what a killed worker had begun"

    def submit(self, number: int) -> None:
        touch.delay(number, TEXT)

    def submit_at(self, number: int, when: float) -> None:
        touch.apply_async((number, TEXT), eta=datetime.fromtimestamp(when, UTC))

    def submit_sleeping(self, number: int) -> None:
        nap.delay(number)

    def finished(self) -> int:
        with Redis.from_url(STORE) as redis:
            return sum(1 for _ in redis.scan_iter("celery-task-meta-*", count=5000))

    def worker_commands(self, role: Role) -> Commands:
        if role == "alone":
            return []
        worker = python("-m", "celery", "-A", "bench.systems.peers.celery_redis:app", "worker", "-l", "WARNING")
        if role == "crash":
            return [[*worker, "-c", "20"]]
        quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--prefetch-multiplier", "64")
        return [[*worker, *quiet, "-c", str(processes())]]
