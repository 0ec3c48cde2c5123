"""Cancels on their way to workers over HTTP: a worker waits here for those of its running jobs.

Only cancels that come through this process are told here, and only to a worker that waits at that moment. Heartbeats
bring all of them; this brings most of them sooner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rota.core.job import Job
from rota.telemetry.events import CancelAsked, Event

Waiting = asyncio.Future[Sequence[Job]]


class Cancels:
    """Who waits, by the worker's name. One listener for all: events are many, and cancels are few."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Waiting]] = {}

    def heard(self, event: Event) -> None:
        """Tell the workers whose jobs were cancelled."""
        if type(event) is not CancelAsked or not self._waiting:
            return
        for worker in {job.worker for job in event.jobs if job.worker}:
            jobs = [job for job in event.jobs if job.worker == worker]
            for waiting in self._waiting.get(worker, ()):
                if not waiting.done():
                    waiting.set_result(jobs)

    @contextmanager
    def watch(self, worker: str) -> Iterator[Waiting]:
        """Give what is done when running jobs of a worker are cancelled."""
        waiting: Waiting = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(worker, []).append(waiting)
        try:
            yield waiting
        finally:
            self._waiting[worker].remove(waiting)
            if not self._waiting[worker]:
                del self._waiting[worker]
            waiting.cancel()
