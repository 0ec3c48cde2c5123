"""Inputs: an attempt whose job takes results from other jobs waits here until they have been read.

The attempt is held meanwhile: its lease is renewed, and a cancel or a drain hands it back. An input that the source
refuses (it is too large) is a permanent failure; a request that the source does not answer is repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import Raw

from rota.backoff import JitteredBackoff
from rota.core.dependencies import takes_of
from rota.core.errors import RotaError, Unavailable
from rota.core.job import Job
from rota.core.outcome import Failed
from rota.core.settlement import JobError
from rota.core.submission import Takes
from rota.ports.client import InputSource
from rota.ports.clock import Rng
from rota.worker.attempt import RunningAttempt
from rota.worker.tracker import AttemptTracker

_log = logging.getLogger("rota.worker")


class InputLoader:
    """Reads the inputs of attempts, and starts each of them when its input is there."""

    def __init__(
        self,
        source: InputSource | None,
        tracker: AttemptTracker,
        start: Callable[[Sequence[RunningAttempt]], None],
        rng: Rng,
    ) -> None:
        self._source = source
        self._tracker = tracker
        self._start = start
        self._rng = rng
        self._tasks: set[asyncio.Task[None]] = set()

    def load(self, attempt: RunningAttempt) -> None:
        """Read the input of an attempt in the background, and then start it."""
        task = asyncio.get_running_loop().create_task(self._load(attempt))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Stop reading; the attempts that wait for it are handed back by the drain."""
        for task in list(self._tasks):
            task.cancel()

    async def _load(self, attempt: RunningAttempt) -> None:
        try:
            value = await self._read(attempt)
            if value is not None:
                attempt.job = replace(attempt.job, payload=with_input(attempt.job.payload, value))
        except RotaError as error:
            self._finish(attempt, error, permanent=True)
            return
        except Exception as error:  # noqa: BLE001 - whatever a driver raises
            # Without an outcome the attempt would keep its slot and its lease for ever.
            _log.exception("the input of %s could not be read", attempt.job.name)
            self._finish(attempt, error, permanent=False)
            return
        if value is None:
            # The lease is lost: another worker has the job.
            if self._tracker.take(attempt):
                self._tracker.finish_and_wake(attempt, None)
            return
        self._start([attempt])

    async def _read(self, attempt: RunningAttempt) -> str | None:
        if self._source is None:
            raise RotaError("this worker cannot read the results of other jobs")
        backoff = JitteredBackoff(self._rng)
        while True:
            try:
                return await self._source.input_of(*attempt.key)
            except Unavailable as error:
                pause = backoff.next()
                _log.warning(
                    "the input of %s could not be read; trying again in %.2f s: %s", attempt.job.name, pause, error
                )
                if attempt.is_stopped:
                    return None
                await asyncio.sleep(pause)

    def _finish(self, attempt: RunningAttempt, error: Exception, *, permanent: bool) -> None:
        if self._tracker.take(attempt):
            failed = Failed(JobError(type(error).__name__, str(error)), permanent=permanent)
            self._tracker.finish_and_wake(attempt, failed)


def has_input(job: Job) -> bool:
    """Whether a job takes something from the jobs before it."""
    return takes_of(job) is not Takes.NOTHING


def with_input(payload: str, value: str) -> str:
    """Put a value before the arguments of a payload.

    A payload that is not a call as the SDK writes it becomes one: null no argument, an object the keyword arguments,
    everything else the second argument.
    """
    first = Raw(value.encode())
    fields: Any = msgspec.json.decode(payload, type=dict[str, Raw]) if payload.lstrip().startswith("{") else None
    if fields is None:
        rest = [] if payload == "null" else [Raw(payload.encode())]
        return msgspec.json.encode({"args": [first, *rest], "kwargs": {}}).decode()
    if fields and _is_call(fields):
        arguments = msgspec.json.decode(fields.get("args", b"[]"), type=list[Raw])
        return msgspec.json.encode({"args": [first, *arguments], "kwargs": fields.get("kwargs", {})}).decode()
    return msgspec.json.encode({"args": [first], "kwargs": fields}).decode()


def _is_call(fields: dict[str, Raw]) -> bool:
    """Whether an object is a call as the SDK writes it: a list of arguments, an object of keyword arguments."""
    args, kwargs = bytes(fields.get("args", b"[]")), bytes(fields.get("kwargs", b"{}"))
    return fields.keys() <= {"args", "kwargs"} and args.lstrip()[:1] == b"[" and kwargs.lstrip()[:1] == b"{"
