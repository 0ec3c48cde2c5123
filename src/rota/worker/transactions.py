"""Steps in the handler's own transaction on the store's database: effect and record are committed together.

Such a step is never in doubt: the record exists exactly if the effect does. The fence is checked after the effect, and
the job's row is locked from then until the handler's commit. So an attempt that lost its job cannot commit, one that
holds it cannot lose it in between, and heartbeats wait for the commit only, not for the effect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from rota.core.errors import InvalidRequest
from rota.core.ids import JobId
from rota.core.step import Step, StepKind, require_kind
from rota.ports.caller_tx import CallerTransaction, CallerTxConfig, OpenCallerTransaction, run_sync
from rota.worker.arguments import encode_result
from rota.worker.exceptions import Cancelled
from rota.worker.references import resolve
from rota.worker.steps import call_effect, in_doubt, require_small, step_result

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class TransactionSteps:
    """The transactional steps of one attempt."""

    job_id: JobId
    fence: int
    caller_tx_config: CallerTxConfig | None

    def perform(self, key: str, function: Callable[[], R], tx: object) -> R:
        """Perform a step on a blocking connection."""
        transaction, known = run_sync(self._open(key, tx, is_async=False))
        if known is not None:
            return cast("R", step_result(known))
        return cast("R", run_sync(self._conclude(transaction, key, call_effect(function))))

    async def perform_async(self, key: str, function: Callable[[], Awaitable[R]], tx: object) -> R:
        """Perform a step on an async connection."""
        transaction, known = await self._open(key, tx, is_async=True)
        if known is not None:
            return cast("R", step_result(known))
        return cast("R", await self._conclude(transaction, key, await function()))

    async def _open(self, key: str, tx: object, *, is_async: bool) -> tuple[CallerTransaction, Step | None]:
        """Read whether the step is done; refuse one that was begun without a transaction and never finished."""
        if self.caller_tx_config is None:
            raise InvalidRequest(
                "tx: this worker reaches the store over HTTP, so no connection of yours can be a part of it; start"
                " the worker on the store itself, with --store",
                field="tx",
            )
        open_transaction: OpenCallerTransaction = resolve(self.caller_tx_config.factory)(
            self.caller_tx_config.url, self.caller_tx_config.encryption_keys
        )
        transaction = await open_transaction(tx, is_async=is_async)
        step = await transaction.step(self.job_id, key)
        if step is not None:
            require_kind(step, StepKind.EFFECT)
        if step is not None and not step.is_done:
            raise in_doubt(step)
        return transaction, step

    async def _conclude(self, transaction: CallerTransaction, key: str, result: object) -> Any:  # noqa: ANN401 - the step's result
        text = encode_result(result)
        require_small(key, text, "was not kept, so roll back the transaction")
        written = await transaction.conclude(self.job_id, self.fence, key, text)
        if written is None:
            raise Cancelled("the job belongs to another worker now")
        step, is_new = written
        if not is_new:
            raise InvalidRequest(f"step {key!r} was performed meanwhile by another transaction", field="key")
        return step_result(step)
