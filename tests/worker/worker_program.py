"""A worker in a process of its own, with a lease keeper, on a SQLite file. Ends on SIGTERM."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from datetime import timedelta
from pathlib import Path

from rota.worker import Handlers, SourceReference, Worker, WorkerOptions, handler_of
from worker import child_handlers as children
from worker.environment import worker_environment


async def work(path: str, settings: dict[str, float]) -> None:
    async with worker_environment(Path(path)) as env:
        functions = (
            children.holds_the_gil, children.exits_here, children.crashes_here, children.forever, children.quick,
            children.leaves_a_child,
        )  # fmt: skip
        handlers = Handlers(handler_of(function) for function in functions)
        handlers.register(handler_of(children.sleeps, executor="process"))
        options = WorkerOptions(
            name="eve",
            concurrency=4,
            lease=timedelta(seconds=settings["lease"]),
            beat=timedelta(seconds=settings["lease"] / 5),
            drain_timeout=timedelta(seconds=5),
        )
        keeper = SourceReference("worker.environment:open_source", {"path": path})
        worker = Worker(env.engine, handlers, options, lease_keeper=keeper)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        await worker.run()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], json.loads(sys.argv[2])))
