"""Steps in a transaction of the handler's own, on the store's database: effect and record are one.

Nothing is ever in doubt: the record is there exactly if the effect is. The fence is looked at after the effect, and the
job is kept from everyone else from then until the handler's commit. So an attempt that lost its job cannot commit, one
that holds it cannot lose it in between, and heartbeats wait for the commit only, not for the effect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from rota.core.errors import InvalidRequest
from rota.core.identity import JobId
from rota.core.step import Step
from rota.ports.guest import Guest, House, Welcome, at_once
from rota.worker.calling import encode_result
from rota.worker.references import resolve
from rota.worker.signals import Cancelled
from rota.worker.steps import called, in_doubt, require_small, yielded

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Within:
    """The transactional steps of one attempt."""

    job_id: JobId
    fence: int
    house: House | None

    def perform(self, key: str, function: Callable[[], R], tx: object) -> R:
        """Perform a step with a connection that blocks."""
        guest, known = at_once(self._known(key, tx, is_async=False))
        if known is not None:
            return cast("R", yielded(known))
        return cast("R", at_once(self._concluded(guest, key, called(function))))

    async def perform_async(self, key: str, function: Callable[[], Awaitable[R]], tx: object) -> R:
        """Perform a step with a connection that is awaited."""
        guest, known = await self._known(key, tx, is_async=True)
        if known is not None:
            return cast("R", yielded(known))
        return cast("R", await self._concluded(guest, key, await function()))

    async def _known(self, key: str, tx: object, *, is_async: bool) -> tuple[Guest, Step | None]:
        """Look whether the step is done; refuse one that was begun without a transaction and never finished."""
        if self.house is None:
            raise InvalidRequest(
                "tx: this worker reaches the store over HTTP, so no connection of yours can be a part of it; start"
                " the worker on the store itself, with --store",
                field="tx",
            )
        welcome: Welcome = resolve(self.house.factory)(self.house.url)
        guest = await welcome(tx, is_async=is_async)
        step = await guest.step(self.job_id, key)
        if step is not None and not step.is_done:
            raise in_doubt(step)
        return guest, step

    async def _concluded(self, guest: Guest, key: str, result: object) -> Any:  # noqa: ANN401 - what it yielded
        text = encode_result(result)
        require_small(key, text, "was not kept, so roll back the transaction")
        written = await guest.conclude(self.job_id, self.fence, key, text)
        if written is None:
            raise Cancelled("the job belongs to someone else now")
        step, is_new = written
        if not is_new:
            raise InvalidRequest(f"step {key!r} was performed meanwhile by another transaction", field="key")
        return yielded(step)
