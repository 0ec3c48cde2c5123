"""Handles of submitted jobs: state, result, cancel and retry."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Generator
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from rota.core.duration import parse_duration
from rota.core.envelope import is_encrypted
from rota.core.errors import RotaError, Unavailable
from rota.core.ids import JobId, to_text
from rota.core.job import Job, JobFailed
from rota.core.lifecycle import FINISHED, State
from rota.core.waiting import signal_name
from rota.ports.client import ActionResult, Actor
from rota.ports.store import Receipt
from rota.worker.context import CURRENT

if TYPE_CHECKING:
    from rota.sdk.app import Rota

R = TypeVar("R")
T = TypeVar("T")
#: How long one request waits for the job's end.
_LONGEST_WAIT = timedelta(seconds=30)
#: The pause between two requests while the API or the store is unavailable.
_PAUSE_SECONDS = 1.0


class ResultTimeout(RotaError, TimeoutError):
    """The job had not finished within the timeout; it is not cancelled."""


def warn_in_handler(verb: str) -> None:
    """Warn of a blocking wait in a handler: its slot does nothing meanwhile, and all slots may wait for ever."""
    if CURRENT.get(None) is not None:
        warnings.warn(
            f"{verb} in a handler blocks its slot until the other job has ended, which may need that slot; use"
            " current().call(key, task, …).result(), which gives the slot back meanwhile, or let the other job follow"
            " this one: .then(…) or on_success",
            RuntimeWarning,
            stacklevel=3,
        )


def end_of(timeout: timedelta | float | str | None) -> float | None:
    """Return when a wait ends, by the clock of the event loop."""
    if timeout is None:
        return None
    return asyncio.get_running_loop().time() + parse_duration(timeout, field="timeout").total_seconds()


def seconds_until(end: float | None) -> float | None:
    return None if end is None else max(end - asyncio.get_running_loop().time(), 0.0)


async def until_available(ask: Callable[[], Awaitable[T]], end: float | None) -> T:
    """Repeat a call while the API or the store is unavailable, until `end`; without an end, raise at once."""
    while True:
        try:
            return await ask()
        except Unavailable:
            left = seconds_until(end)
            if not left:
                raise
            await asyncio.sleep(min(left, _PAUSE_SECONDS))


class Handle(Struct, Generic[R], eq=False, weakref=True, dict=True):
    """A submitted job. `result()` waits for its result; in async code `await handle` does."""

    _app: Rota
    _job_id: JobId
    _decode: Callable[[str], R]
    #: Whether the submission made this job (`created`), or was answered with an earlier one, and why: `replayed`,
    #: `unique_conflict`, `throttled`, `debounced`, `dropped`.
    receipt: Receipt = Receipt.CREATED

    @property
    def id(self) -> str:
        return to_text(self._job_id)

    @property
    def job(self) -> Job:
        """The stored job as it is now."""
        return self._app.portal.call(self._get())

    @property
    def state(self) -> State:
        return self.job.state

    def result(self, timeout: timedelta | float | str | None = None) -> R:
        """Wait for the job's result, at most for `timeout`."""
        warn_in_handler("result()")
        return self._app.portal.call(self._result(timeout))

    async def aresult(self, timeout: timedelta | float | str | None = None) -> R:  # noqa: ASYNC109 - the public name
        """Wait for the job's result, at most for `timeout`."""
        return await self._app.portal.acall(self._result(timeout))

    def __await__(self) -> Generator[Any, None, R]:
        return self.aresult().__await__()

    def cancel(self) -> ActionResult:
        """Cancel the job; one that runs is asked to stop."""
        return self._app.portal.call(self._act("cancel"))

    async def acancel(self) -> ActionResult:
        """Cancel the job; one that runs is asked to stop."""
        return await self._app.portal.acall(self._act("cancel"))

    def retry(self) -> ActionResult:
        """Retry a dead or cancelled job, or start one now that waits for its time."""
        return self._app.portal.call(self._act("retry"))

    async def aretry(self) -> ActionResult:
        """Retry a dead or cancelled job, or start one now that waits for its time."""
        return await self._app.portal.acall(self._act("retry"))

    def signal(self, name: str = "", payload: object = None) -> bool:
        """Emit the event that is a signal to this job; return whether it is the first of this name.

        The handler waits for it with `current().wait(key, event=current().signal_name(name))`.
        """
        return self._app.emit(signal_name(self._job_id, name), payload)

    async def asignal(self, name: str = "", payload: object = None) -> bool:
        """Signal the job as `signal` does, in async code."""
        return await self._app.aemit(signal_name(self._job_id, name), payload)

    def __repr__(self) -> str:
        return f"<Handle of job {self.id}>"

    @property
    def app(self) -> Rota:
        """The app that the job was submitted with."""
        return self._app

    async def wait_briefly(self, at_most: timedelta) -> Job:
        """Wait for the job's end, at most for a while, and return it as it is then; runs on the app's own loop."""
        return await (await self._app.control()).wait(self._job_id, at_most)

    async def _get(self) -> Job:
        control = await self._app.control()
        jobs = await control.get([self._job_id])
        if not jobs:
            raise RotaError(f"job {self.id}: unknown; its transaction has not committed, or it was pruned")
        return jobs[0]

    async def _result(self, timeout: timedelta | float | str | None) -> R:  # noqa: ASYNC109 - passed on
        control = await self._app.control()
        end = end_of(timeout)
        while True:
            left = seconds_until(end)
            wait = _LONGEST_WAIT if left is None else timedelta(seconds=min(left, _LONGEST_WAIT.total_seconds()))
            job = await until_available(partial(control.wait, self._job_id, wait), end)
            if job.state is State.COMPLETED:
                if job.result is not None and is_encrypted(job.result):
                    raise self._app.undecryptable(job)
                return self._decode(job.result or "null")
            if job.state in FINISHED:
                raise JobFailed(job)
            if seconds_until(end) == 0:
                raise ResultTimeout(f"{job.name} is still {job.state} after {timeout}; it is not cancelled")

    async def _act(self, verb: str) -> ActionResult:
        control = await self._app.control()
        answers = await getattr(control, verb)([self._job_id], Actor("python", surface="sdk"))
        answer: ActionResult = answers[0]
        if answer.refusal is not None:
            raise answer.refusal
        return answer
