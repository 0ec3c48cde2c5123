"""taskiq on Redis Streams, which are acknowledged, with results on Redis."""

from __future__ import annotations

from datetime import UTC, datetime

import taskiq
import taskiq_redis
from redis import Redis

from bench.systems.peers import handlers
from bench.systems.protocol import Commands, Role, System, processes, python, variable
from bench.systems.start_times import TEXT, mark

STORE = variable("STORE")
HERE = "bench.systems.peers.taskiq_redis"
broker = taskiq_redis.RedisStreamBroker(STORE).with_result_backend(taskiq_redis.RedisAsyncResultBackend(STORE))
source = taskiq_redis.ListRedisScheduleSource(STORE)
scheduler = taskiq.TaskiqScheduler(broker, [source])


@broker.task(task_name="touch")
async def touch(number: int, text: str) -> int:  # noqa: ARG001 - carried for its size
    return mark(number)


@broker.task(task_name="nap")
async def nap(number: int) -> None:
    await handlers.doze(number)


class Client(System):
    package = "taskiq"
    keeps = "the result"
    loses = "acknowledged jobs since the last snapshot; a killed worker's come back after ten minutes"

    async def open(self) -> None:
        await broker.startup()
        await source.startup()

    async def close(self) -> None:
        await source.shutdown()
        await broker.shutdown()

    async def submit(self, number: int) -> None:
        await touch.kiq(number, TEXT)

    async def submit_at(self, number: int, when: float) -> None:
        await touch.schedule_by_time(source, datetime.fromtimestamp(when, UTC), number, TEXT)

    async def submit_sleeping(self, number: int) -> None:
        await nap.kiq(number)

    def finished(self) -> int:
        with Redis.from_url(STORE) as redis:
            keys: int = redis.dbsize()
            return keys - int(redis.exists("taskiq", "autoclaim:taskiq:taskiq"))

    def worker_commands(self, role: Role) -> Commands:
        if role == "alone":
            return []
        number = "1" if role == "crash" else str(processes())
        return [python("-m", "taskiq", "worker", f"{HERE}:broker", "-w", number, "--log-level", "WARNING")]

    def service_commands(self, role: Role) -> Commands:
        if role != "idle":
            return []
        often = ("--log-level", "WARNING", "--update-interval", "1")
        return [python("-m", "taskiq", "scheduler", f"{HERE}:scheduler", *often)]
