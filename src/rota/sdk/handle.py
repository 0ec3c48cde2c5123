"""A handle: one submitted job, its state and its result."""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from rota.core.duration import parse_duration
from rota.core.errors import HandlerFailed, RotaError
from rota.core.identity import JobId, to_text
from rota.core.job import Job
from rota.core.lifecycle import FINISHED, State
from rota.ports.faces import Actor, Answer

if TYPE_CHECKING:
    from rota.sdk.app import Rota

R = TypeVar("R")
_LONGEST_LOOK = timedelta(seconds=30)


class JobFailed(HandlerFailed):
    """The job ended without a result; `job` has its error and why it ended."""

    def __init__(self, job: Job) -> None:
        said = f": {job.error.kind}: {job.error.message}" if job.error is not None else ""
        super().__init__(f"{job.name} is {job.state}{f' ({job.reason})' if job.reason else ''}{said}")
        self.job = job


class ResultTimeout(RotaError, TimeoutError):
    """The job had not ended when the wait was over; it goes on."""


class Handle(Struct, Generic[R], eq=False, weakref=True, dict=True):
    """A submitted job. `result()` waits for what it returns; `await handle` does so in async code."""

    _app: Rota
    _job_id: JobId
    _decode: Callable[[str], R]

    @property
    def id(self) -> str:
        """The job's id, as it is shown everywhere."""
        return to_text(self._job_id)

    @property
    def job(self) -> Job:
        """The job as it is now."""
        return self._app.portal.call(self._look())

    @property
    def state(self) -> State:
        """The job's state now."""
        return self.job.state

    def result(self, timeout: timedelta | float | str | None = None) -> R:
        """Wait for the job's result, at most for `timeout`."""
        return self._app.portal.call(self._result(timeout))

    async def aresult(self, timeout: timedelta | float | str | None = None) -> R:  # noqa: ASYNC109 - the public name
        """Wait for the job's result, at most for `timeout`."""
        return await self._app.portal.acall(self._result(timeout))

    def __await__(self) -> Generator[Any, None, R]:
        return self.aresult().__await__()

    def cancel(self) -> Answer:
        """Cancel the job, or ask it to stop where it runs."""
        return self._app.portal.call(self._act("cancel"))

    async def acancel(self) -> Answer:
        """Cancel the job, or ask it to stop where it runs."""
        return await self._app.portal.acall(self._act("cancel"))

    def retry(self) -> Answer:
        """Run the job again, or at once if it waits."""
        return self._app.portal.call(self._act("retry"))

    async def aretry(self) -> Answer:
        """Run the job again, or at once if it waits."""
        return await self._app.portal.acall(self._act("retry"))

    def __repr__(self) -> str:
        return f"<Handle of job {self.id}>"

    async def _look(self) -> Job:
        control = await self._app.control()
        found = await control.get([self._job_id])
        if not found:
            raise RotaError(f"job {self.id}: unknown; its transaction has not committed, or it was pruned")
        return found[0]

    async def _result(self, timeout: timedelta | float | str | None) -> R:  # noqa: ASYNC109 - passed on
        control = await self._app.control()
        left = None if timeout is None else parse_duration(timeout, field="timeout")
        while True:
            step = _LONGEST_LOOK if left is None else min(left, _LONGEST_LOOK)
            job = await control.wait(self._job_id, step)
            if job.state is State.COMPLETED:
                return self._decode(job.result or "null")
            if job.state in FINISHED:
                raise JobFailed(job)
            if left is not None and (left := left - step) <= timedelta(0):
                raise ResultTimeout(f"{job.name} is still {job.state} after {timeout}; it goes on")

    async def _act(self, verb: str) -> Answer:
        control = await self._app.control()
        answers = await getattr(control, verb)([self._job_id], Actor("python"))
        answer: Answer = answers[0]
        if answer.refusal is not None:
            raise answer.refusal
        return answer
