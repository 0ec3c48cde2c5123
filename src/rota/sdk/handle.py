"""Handles of submitted jobs: state, result, cancel and retry."""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from rota.core.duration import parse_duration
from rota.core.errors import RotaError
from rota.core.ids import JobId, to_text
from rota.core.job import Job
from rota.core.lifecycle import FINISHED, State
from rota.ports.client import ActionResult, Actor

if TYPE_CHECKING:
    from rota.sdk.app import Rota

R = TypeVar("R")
#: How long one request waits for the job's end.
_LONGEST_WAIT = timedelta(seconds=30)


class JobFailed(RotaError):
    """The job ended without a result; `job` has its error and why it ended."""

    def __init__(self, job: Job) -> None:
        cause = f": {job.error.kind}: {job.error.message}" if job.error is not None else ""
        super().__init__(f"{job.name} is {job.state}{f' ({job.reason})' if job.reason else ''}{cause}")
        self.job = job


class ResultTimeout(RotaError, TimeoutError):
    """The job had not finished within the timeout; it is not cancelled."""


class Handle(Struct, Generic[R], eq=False, weakref=True, dict=True):
    """A submitted job. `result()` waits for its result; in async code `await handle` does."""

    _app: Rota
    _job_id: JobId
    _decode: Callable[[str], R]

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

    def __repr__(self) -> str:
        return f"<Handle of job {self.id}>"

    async def _get(self) -> Job:
        control = await self._app.control()
        jobs = await control.get([self._job_id])
        if not jobs:
            raise RotaError(f"job {self.id}: unknown; its transaction has not committed, or it was pruned")
        return jobs[0]

    async def _result(self, timeout: timedelta | float | str | None) -> R:  # noqa: ASYNC109 - passed on
        control = await self._app.control()
        left = None if timeout is None else parse_duration(timeout, field="timeout")
        while True:
            wait = _LONGEST_WAIT if left is None else min(left, _LONGEST_WAIT)
            job = await control.wait(self._job_id, wait)
            if job.state is State.COMPLETED:
                return self._decode(job.result or "null")
            if job.state in FINISHED:
                raise JobFailed(job)
            if left is not None and (left := left - wait) <= timedelta(0):
                raise ResultTimeout(f"{job.name} is still {job.state} after {timeout}; it is not cancelled")

    async def _act(self, verb: str) -> ActionResult:
        control = await self._app.control()
        answers = await getattr(control, verb)([self._job_id], Actor("python", surface="sdk"))
        answer: ActionResult = answers[0]
        if answer.refusal is not None:
            raise answer.refusal
        return answer
