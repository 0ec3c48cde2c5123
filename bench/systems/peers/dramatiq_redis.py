"""Dramatiq on Redis, with results, so that the end of a job is recorded."""

from __future__ import annotations

import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from redis import Redis

from bench.systems.peers import handlers
from bench.systems.protocol import Commands, Role, System, processes, python, variable
from bench.systems.start_times import TEXT, mark

STORE = variable("STORE")
broker = RedisBroker(url=STORE)
broker.add_middleware(Results(backend=RedisBackend(url=STORE), store_results=True))
dramatiq.set_broker(broker)


@dramatiq.actor
def touch(number: int, text: str) -> int:  # noqa: ARG001 - carried for its size
    return mark(number)


@dramatiq.actor
def nap(number: int) -> None:
    handlers.nap(number)


class Client(System):
    package = "dramatiq"
    keeps = "the result for ten minutes"
    loses = "acknowledged jobs since the last snapshot; a killed worker's come back by chance, late"

    def submit(self, number: int) -> None:
        touch.send(number, TEXT)

    def submit_at(self, number: int, when: float) -> None:
        touch.send_with_options(args=(number, TEXT), delay=max(0, int((when - time.time()) * 1000)))

    def submit_sleeping(self, number: int) -> None:
        nap.send(number)

    def finished(self) -> int:
        # Results have keys of their own; all others belong to the broker.
        with Redis.from_url(STORE) as redis:
            return sum(1 for key in redis.scan_iter(count=5000) if not key.startswith(b"dramatiq:"))

    def worker_commands(self, role: Role) -> Commands:
        if role == "alone":
            return []
        size = ("-p", "2", "-t", "10") if role == "crash" else ("-p", str(processes()), "-t", "8")
        return [python("-m", "dramatiq", "bench.systems.peers.dramatiq_redis", *size)]
