"""Submit jobs and emit events within the caller's own database transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from rota.core.bulk import check_all
from rota.core.errors import StoreUnavailable
from rota.core.graph import NewWorkflow
from rota.core.submission import NewJob
from rota.core.waiting import Emission, Emitted, check_emission
from rota.ports.caller_tx import CallerTransaction, MakeJobs
from rota.ports.store import Inserted, Receipt

#: How often other ids are tried.
MOST_TRIES: Final = 10


async def submit_in_caller_tx(tx: CallerTransaction, make: MakeJobs, *, bound: int | None = None) -> Sequence[Inserted]:
    """Store jobs in the caller's transaction, all of them or none.

    No wake-up is sent and no event emitted, because the transaction may still be rolled back. The store itself wakes
    the workers when it is committed.
    """

    def checked(now: datetime) -> Sequence[NewJob] | NewWorkflow:
        made = make(now)
        check_all(made.jobs if isinstance(made, NewWorkflow) else made)
        return made

    for _ in range(MOST_TRIES):
        answers = await tx.insert(checked, bound=bound)
        if all(answer.receipt is not Receipt.ID_TAKEN for answer in answers):
            return answers
    raise StoreUnavailable("no free id was found; is this host's clock far behind the others'?")


async def emit_in_caller_tx(tx: CallerTransaction, emission: Emission) -> Emitted:
    """Emit an event in the caller's transaction: it counts, and wakes jobs, if that is committed."""
    check_emission(emission)
    return await tx.emit(emission)
