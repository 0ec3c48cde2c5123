"""What a worker adds to a job: microseconds of one core per job, from claim to report, without a store.

Run as `python -m bench.worker_slots`. The source hands out jobs from memory and forgets reports, so that what is left
is the worker: fetcher, bridge, slots, gate, settler. The floor is the same handler decoded and awaited in a plain loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import Any

from bench.measure import Sample, describe_machine, print_table
from rota.core.ids import JobId
from rota.core.job import Job
from rota.core.lease import Claim, Renewal, Renewed
from rota.core.lifecycle import State
from rota.ports.client import AttemptReport
from rota.worker import Handlers, Worker, WorkerOptions, handler_of

NUMBER = 20_000
ROUNDS = 3
NOW = datetime.now(UTC)
PAYLOAD = '{"args": [1, 2], "kwargs": {}}'


async def at_once(a: int, b: int) -> int:
    return a + b


async def suspends(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


def sync(a: int, b: int) -> int:
    return a + b


class Memory:
    """A source without a store."""

    def __init__(self, job_type: str, number: int) -> None:
        ids = count(1)
        self.jobs = [
            Job(JobId(next(ids)), job_type, PAYLOAD, "default", 5, State.RUNNING, NOW, NOW, NOW, fence=1, attempts=1)
            for _ in range(number)
        ]
        self.given = 0
        self.left = number
        self.done = asyncio.Event()

    async def claim(self, wanted: Claim, *, wait: timedelta = timedelta(0)) -> Sequence[Job]:
        if self.given == len(self.jobs):
            await asyncio.sleep(wait.total_seconds())
        taken = self.jobs[self.given : self.given + wanted.limit]
        self.given += len(taken)
        return taken

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[Renewed]:
        return [Renewed(one.job_id, one.fence, NOW, cancel=False) for one in renewals]

    async def settle(self, reports: Sequence[AttemptReport]) -> Sequence[JobId]:
        self.left -= len(reports)
        if not self.left:
            self.done.set()
        return [report.job_id for report in reports]


async def floor(handler: Callable[..., Any]) -> tuple[float, float]:
    decode, encode = handler_of(handler).decode, handler_of(handler).encode
    begun, cpu = time.perf_counter(), time.process_time()
    for _ in range(NUMBER):
        arguments, named = decode(PAYLOAD)
        encode(await handler(*arguments, **named))
    return (time.perf_counter() - begun) / NUMBER * 1e6, (time.process_time() - cpu) / NUMBER * 1e6


async def through(handler: Callable[..., Any], **settings: Any) -> tuple[float, float]:  # noqa: ANN401 - any option
    source = Memory(handler.__name__, NUMBER)
    worker = Worker(source, Handlers([handler_of(handler)]), WorkerOptions(name="bench", **settings))
    begun, cpu = time.perf_counter(), time.process_time()
    running = asyncio.create_task(worker.run())
    await source.done.wait()
    took = (time.perf_counter() - begun) / NUMBER * 1e6, (time.process_time() - cpu) / NUMBER * 1e6
    worker.stop()
    await running
    return took


def measure(name: str, run: Callable[[], Any]) -> tuple[str, ...]:
    took = [asyncio.run(run()) for _ in range(ROUNDS)]
    wall, cpu = Sample(tuple(one[0] for one in took)), Sample(tuple(one[1] for one in took))
    best = min(cpu.values)
    return name, f"{wall.median:.2f}", f"{cpu.median:.2f}", f"{best:.2f}"


def main() -> None:
    logging.disable(logging.WARNING)
    print(describe_machine())
    rows = [measure("decode, await, encode in a loop (floor)", lambda: floor(at_once))]
    rows += [
        measure(f"{handler.__name__}, {concurrency} slots", partial(through, handler, concurrency=concurrency))
        for concurrency in (10, 100, 1000)
        for handler in (at_once, suspends, sync)
    ]
    rows.append(measure("at_once, 100 slots, limit of 1 min", lambda: through_limited(100)))
    rows.append(measure("at_once, 100 slots, one loop", lambda: through(at_once, concurrency=100, own_loop=False)))
    print_table("us per job", ("variant", "wall, median", "CPU, median", "CPU, best"), rows)


async def through_limited(concurrency: int) -> tuple[float, float]:
    source = Memory("at_once", NUMBER)
    handlers = Handlers([handler_of(at_once, timeout=timedelta(minutes=1))])
    worker = Worker(source, handlers, WorkerOptions(name="bench", concurrency=concurrency))
    begun, cpu = time.perf_counter(), time.process_time()
    running = asyncio.create_task(worker.run())
    await source.done.wait()
    took = (time.perf_counter() - begun) / NUMBER * 1e6, (time.process_time() - cpu) / NUMBER * 1e6
    worker.stop()
    await running
    return took


if __name__ == "__main__":
    main()
